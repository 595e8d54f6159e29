"""What all serializers share: when to register, under which subject, and what stands before the payload."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ottla.serialization.framing import (
    GUID_HEADER_BYTES,
    KEY_HEADER,
    PREFIX_BYTES,
    VALUE_HEADER,
    BadValue,
    guid_header,
    guid_of,
    id_of,
    with_id,
)
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient, RegistryRefused
from ottla.serialization.subjects import Strategy, strategy

_UNKNOWN_S, _UNKNOWN_MAX = 1.0, 1_000


class SchemaSerializer(ABC):
    """Called with a value, gives bytes. Called by confluent-kafka, with a context too: it names topic and field.

    `register=False` asks for a schema that is registered already; `use_latest=True` writes with the subject's latest.
    `ids="header"` puts the schema's GUID into a header instead of its id before the value: our producers add it by
    themselves; to others pass `headers_of(value)` on.
    """

    schema_type = ""
    _path = b""  # behind the id or GUID, in formats that have something there

    def __init__(
        self,
        registry: RegistryClient,
        *,
        topic: str | None = None,
        is_key: bool = False,
        subjects: str | Strategy = "topic",
        register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        ids: str = "prefix",
    ) -> None:
        self._registry = registry
        self._topic, self._field = topic, "key" if is_key else "value"
        self._strategy = strategy(subjects)
        self._register, self._use_latest, self._normalize = register, use_latest, normalize
        self._in_header = ids == "header"

    def __call__(self, value: Any, context: Any = None) -> bytes | None:
        if value is None:
            return None
        topic, field = self._topic, self._field
        if context is not None:
            topic, field = context.topic or topic, str(context.field)
        registered = self._registered(value, topic, field)
        payload = self._payload(value, registered)
        if not self._in_header:
            return with_id(registered.schema_id, self._path + payload)
        if context is not None and isinstance(context.headers, list):
            context.headers.extend(self._headers(registered))
        return payload

    def headers_of(self, value: Any) -> list[tuple[str, bytes]]:
        """The headers that go with the value, where ids stand in headers."""
        return self._headers(self._registered(value, self._topic, self._field)) if self._in_header else []

    def _headers(self, registered: RegisteredSchema) -> list[tuple[str, bytes]]:
        name = KEY_HEADER if self._field == "key" else VALUE_HEADER
        return [(name, guid_header(registered.guid, self._path))]

    def _registered(self, value: Any, topic: str | None, field: str) -> RegisteredSchema:
        subject = self._strategy(topic, field, self._record_name(value))
        if self._use_latest:
            return self._registry.version(subject)
        act = self._registry.register if self._register else self._registry.lookup
        return act(
            subject, self._schema_of(value), self.schema_type, self._references(), normalize=self._normalize
        )

    def _references(self) -> tuple[Any, ...]:
        return ()

    @abstractmethod
    def _schema_of(self, value: Any) -> str: ...

    @abstractmethod
    def _record_name(self, value: Any) -> str | None: ...

    @abstractmethod
    def _payload(self, value: Any, registered: RegisteredSchema) -> bytes: ...


class SchemaDeserializer(ABC):
    """Called with bytes, gives the value; headers, where they hold the schema's GUID, come with confluent-kafka's
    context or as a second argument. `is_key` looks for a key's header in them."""

    form = schema_type = ""
    reads_headers = True  # our consumers give them

    def __init__(
        self, registry: RegistryClient, *, build: Callable[[Any], Any] | None = None, is_key: bool = False
    ) -> None:
        self._registry, self._build, self._field = registry, build, "key" if is_key else "value"
        self._unknown: dict[int | str, float] = {}  # until when

    def __call__(self, data: bytes | None, context: Any = None) -> Any:
        if data is None:
            return None
        header, at = header_in(context, self._field), PREFIX_BYTES
        if header is not None:
            data, at = header[GUID_HEADER_BYTES:] + data, 0  # the path to a message stands there
        registered = self._named_by(header, data)
        if registered.schema_type != self.schema_type:
            raise BadValue(
                f"its schema {registered.schema_id} is of type {registered.schema_type}, not {self.schema_type}"
            )
        value = self._value(data, at, registered)
        return value if self._build is None else self._build(value)

    def _named_by(self, header: bytes | None, data: bytes) -> RegisteredSchema:
        """A schema that the registry does not have is a fault of the value. It is asked for again after a while: many
        such values must not become as many requests."""
        name = id_of(data) if header is None else guid_of(header)
        if self._unknown.get(name, 0.0) > time.monotonic():
            raise BadValue(f"its schema {name} is not registered")
        try:
            if isinstance(name, int):
                return self._registry.schema(name, form=self.form)
            return self._registry.schema_by_guid(name, form=self.form)
        except RegistryRefused as error:
            if error.status != 404:
                raise
            if len(self._unknown) >= _UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[name] = time.monotonic() + _UNKNOWN_S
            raise BadValue(f"its schema {name} is not registered") from error

    @abstractmethod
    def _value(self, data: bytes, at: int, registered: RegisteredSchema) -> Any: ...


def header_in(context: Any, field: str = "value") -> bytes | None:
    """The header that names the schema. `context` is confluent-kafka's, or a value's headers."""
    headers = getattr(context, "headers", context)
    if not headers:
        return None
    wanted = KEY_HEADER if getattr(context, "field", field) == "key" else VALUE_HEADER
    pairs = headers.items() if isinstance(headers, dict) else headers
    return next((bytes(value) for name, value in pairs if name == wanted and value), None)
