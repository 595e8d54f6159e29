"""Schemas as a broker sees them: which a topic's records may name, and whether a value is what its schema says.

A broker makes one of these for itself from the records of `_schemas`; it asks no registry.
"""

import json
import logging
import re
import threading
import uuid
from array import array
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from ottla.registry.decisions import Registry
from ottla.registry.errors import RegistryError
from ottla.registry.records import SCHEMA, read
from ottla.registry.state import Content, State, Version
from ottla.registry.subjects import DEFAULT, context_of
from ottla.serialization.framing import (
    GUID_HEADER_BYTES,
    KEY_HEADER,
    MAGIC_GUID,
    PREFIX_BYTES,
    VALUE_HEADER,
    BadValue,
    guid_of,
    id_of,
)
from ottla.serialization.registry_client import RegisteredSchema

log = logging.getLogger(__name__)
Headers = tuple[tuple[str, bytes | None], ...]
Check = Callable[[bytes], str | None]
"""Why a value, as it stands behind the id, is not what its schema says."""

_FAULT_CHARACTERS_MAX = 300
_CHECKS_MAX = 1_000
_MESSAGE, _PACKAGE = re.compile(r"\bmessage\s+(\w+)"), re.compile(r"\bpackage\s+([\w.]+)\s*;")


class Terms(Protocol):
    """What a topic asks of its keys or values."""

    @property
    def field(self) -> str: ...

    @property
    def strategy(self) -> str: ...


class Allowed(NamedTuple):
    """Sorted ids as native int32, sorted GUIDs of 16 bytes; `where` says under which subjects."""

    ids: bytes
    guids: bytes
    where: str


class Schemas:
    """`apply` and `allowed` are called by the broker's loop, `fault` by its threads too."""

    def __init__(self) -> None:
        self._registry = Registry(State())
        self._changing = threading.Lock()  # threads that parse a schema look up others
        self._allowed: dict[tuple[str, str, str], Allowed] = {}
        self._names: dict[Content, frozenset[str]] = {}
        self._checks: dict[Content, Check] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """A record that cannot be read is left out: it must not end the broker's reading of the topic."""
        try:
            record = None if key is None else read(key, value, [])
            if record is None:
                return
            with self._changing:
                self._registry.state.apply(record)
        except Exception as error:
            log.warning("a record of the registry's topic cannot be read (%r): key %.100r", error, key)
            return
        if record.key.keytype == SCHEMA and record.value is None:
            self._names.clear()
        self._allowed.clear()

    # -- ids -------------------------------------------------------------------------------------------

    def allowed(self, topic: str, terms: Terms) -> Allowed:
        key = topic, terms.field, terms.strategy
        allowed = self._allowed.get(key)
        if allowed is None:
            allowed = self._allowed[key] = self._allowed_by(*key)
        return allowed

    def _allowed_by(self, topic: str, field: str, strategy: str) -> Allowed:
        state = self._registry.state
        if strategy == "topic":
            subject = f"{topic}-{field}"
            return _packed(state.versions(subject), f"under the subject {subject}")
        prefix = f"{topic}-" if strategy == "topic-record" else ""
        where = f"under a subject that is {prefix}NAME, by the name of its record"
        return _packed([version for version in self._alive() if self._is_named(version, prefix)], where)

    def _alive(self) -> Iterator[Version]:
        state = self._registry.state
        for subject in state.subjects:
            if context_of(subject) == DEFAULT:
                yield from state.versions(subject)

    def _is_named(self, version: Version, prefix: str) -> bool:
        if not version.subject.startswith(prefix):
            return False
        names = self._names.get(version.content)
        if names is None:
            names = self._names[version.content] = frozenset(record_names(version.content))
        return version.subject[len(prefix) :] in names

    # -- values ----------------------------------------------------------------------------------------

    def fault(self, field: str, data: bytes, headers: Headers) -> str | None:
        """Why the key or value is not what its schema says."""
        content, payload = self._named_by(KEY_HEADER if field == "key" else VALUE_HEADER, data, headers)
        if content is None:
            return "its schema is not known any more"
        try:
            fault = self._check(content)(payload)
        except RegistryError as error:
            return f"its schema cannot be used: {error.message[:_FAULT_CHARACTERS_MAX]}"
        return None if fault is None else fault[:_FAULT_CHARACTERS_MAX]

    def _named_by(self, header: str, data: bytes, headers: Headers) -> tuple[Content | None, bytes]:
        """The schema, and the value, before it the path to its message if it is one of Protobuf."""
        state = self._registry.state
        for name, value in headers:
            if name == header and value:
                if value[0] == MAGIC_GUID:
                    return state.guids.get(guid_of(value)), value[GUID_HEADER_BYTES:] + data
                return state.with_id(id_of(value)), value[PREFIX_BYTES:] + data
        return state.with_id(id_of(data)), data[PREFIX_BYTES:]

    def _check(self, content: Content) -> Check:
        check = self._checks.get(content)
        if check is None:
            with self._changing:
                references = self._registry.references(content)
            self._registry.parse(
                content, references
            )  # may take its time; the loop may take the lock meanwhile
            with self._changing:
                new_check = check_of(content, self._registry)
            if len(self._checks) >= _CHECKS_MAX:
                self._checks.clear()
            check = self._checks[content] = new_check
        return check


def _packed(versions: list[Version], where: str) -> Allowed:
    ids = array("i", sorted({version.schema_id for version in versions})).tobytes()
    guids = b"".join(sorted({uuid.UUID(version.content.guid).bytes for version in versions}))
    return Allowed(ids, guids, where)


def record_names(content: Content) -> Iterator[str]:
    """Full names of the records that the schema describes."""
    if content.schema_type == "PROTOBUF":
        package = _PACKAGE.search(content.schema)
        prefix = f"{package[1]}." if package else ""
        yield from (prefix + message[1] for message in _MESSAGE.finditer(content.schema))
        return
    try:
        schema = json.loads(content.schema)
    except (ValueError, RecursionError):
        return
    name = (
        schema.get("title" if content.schema_type == "JSON" else "name") if isinstance(schema, dict) else None
    )
    if isinstance(name, str):
        space = schema.get("namespace") if content.schema_type == "AVRO" and "." not in name else None
        yield f"{space}.{name}" if space else name


def check_of(content: Content, registry: Registry) -> Check:
    """Raises RegistryError for a schema that is not valid, or whose kind needs a package that is not installed."""
    registry.parsed(content)
    if content.schema_type == "AVRO":
        return _avro(content, registry)
    known = _Known(content, registry)
    if content.schema_type == "JSON":
        from ottla.serialization.json_schema import JsonSchemaDeserializer

        return _decoded(JsonSchemaDeserializer(known))  # type: ignore[arg-type]
    from ottla.registry.protobuf_check import ProtobufCheck

    return ProtobufCheck(known).fault


def _avro(content: Content, registry: Registry) -> Check:
    from ottla.serialization.avro_check import AvroCheck

    references = registry.references(content)
    return AvroCheck(json.loads(content.schema), tuple(map(json.loads, references.values()))).fault


def _decoded(decode: Callable[[bytes], Any]) -> Check:
    def check(data: bytes) -> str | None:
        try:
            decode(bytes(PREFIX_BYTES) + data)
        except (BadValue, RecursionError) as error:
            return str(error)
        return None

    return check


class _Known:
    """One schema and what it refers to, in the place of a client of a registry."""

    def __init__(self, content: Content, registry: Registry) -> None:
        self._content, self._registry = content, registry

    def schema(self, schema_id: int, *, form: str = "") -> RegisteredSchema:
        return self._registered(self._content, form)

    def version(self, subject: str, version: int | str = "latest", *, form: str = "") -> RegisteredSchema:
        number = None if version in ("latest", -1) else int(version)
        return self._registered(self._registry.state.version(subject, number, deleted=True).content, form)

    def _registered(self, content: Content, form: str) -> RegisteredSchema:
        text = self._registry.parsed(content).formatted(form) if form else content.schema
        references = tuple(reference.to_dict() for reference in content.references)
        return RegisteredSchema(0, text, content.schema_type, references)
