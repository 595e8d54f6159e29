"""What the records of `_schemas` add up to. Only `apply` changes it, on the writer and on every reader alike."""

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.registry import errors, records
from ottla.registry.records import Key, Record
from ottla.registry.subjects import DEFAULT, context_of

AVRO = "AVRO"
LEVEL = "BACKWARD"
READWRITE = "READWRITE"


@dataclass(frozen=True)
class Reference:
    name: str
    subject: str
    version: int

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Content:
    """A schema apart from the subjects that use it. `metadata` and `rule_set` are JSON, stored and given back."""

    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None

    @property
    def guid(self) -> str:
        """The same in every registry, whatever id it has there."""
        told = (self.schema_type, self.schema, self.references, self.metadata, self.rule_set)
        return str(uuid.UUID(bytes=hashlib.md5(repr(told).encode(), usedforsecurity=False).digest()))


@dataclass
class Version:
    subject: str
    version: int
    schema_id: int
    content: Content
    deleted: bool = False
    raw_key: bytes | None = None


@dataclass
class State:
    subjects: dict[str, dict[int, Version]] = field(default_factory=dict)
    ids: dict[tuple[str, int], Content] = field(default_factory=dict)  # by context and id
    known: dict[tuple[str, Content], int] = field(default_factory=dict)
    guids: dict[str, Content] = field(default_factory=dict)
    configs: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str | None, str] = field(default_factory=dict)
    highest_ids: dict[str, int] = field(default_factory=dict)
    contexts: set[str] = field(default_factory=lambda: {DEFAULT})
    raw_keys: dict[Key, bytes] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        if record.raw_key is not None:
            self.raw_keys[record.key] = record.raw_key
        for context, highest in record.highest_ids.items():
            self._raise_highest(context, highest)
        match record.key.keytype:
            case records.SCHEMA:
                self._apply_schema(record)
            case records.CONFIG:
                _put(self.configs, record.key.subject, record.value)
            case records.MODE:
                _put(self.modes, record.key.subject, record.value and record.value["mode"])
            case records.DELETE_SUBJECT:
                self._apply_deletion(record)
            case records.CLEAR_SUBJECT:
                self._forget(list(self.subjects.pop(record.key.subject or "", {}).values()))
            case records.CONTEXT:
                self._apply_context(record)
            case _:
                pass  # NOOP, and what newer registries add

    def key(self, keytype: str, subject: str | None, version: int | None = None) -> tuple[Key, bytes | None]:
        """The key, and its bytes if another implementation wrote it in other ones."""
        key = Key(keytype, subject, version)
        return key, self.raw_keys.get(key)

    # -- questions -----------------------------------------------------------------------------------

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """In order; those that were soft deleted only if asked for."""
        every = self.subjects.get(subject, {})
        return [every[number] for number in sorted(every) if deleted or not every[number].deleted]

    def version(self, subject: str, number: int | None, *, deleted: bool = False) -> Version:
        """The version of that number; the latest for None."""
        every = self.versions(subject, deleted=deleted)
        if not every:
            raise errors.subject_not_found(subject)
        if number is None:
            return every[-1]
        for version in every:
            if version.version == number:
                return version
        raise errors.version_not_found(number)

    def with_id(self, schema_id: int, context: str = DEFAULT) -> Content | None:
        return self.ids.get((context, schema_id))

    def using(self, schema_id: int, context: str, *, deleted: bool = False) -> Iterator[Version]:
        """The versions of all subjects that have the schema with this id."""
        for subject in sorted(self.subjects):
            if context_of(subject) == context:
                for version in self.versions(subject, deleted=deleted):
                    if version.schema_id == schema_id:
                        yield version

    def referring(self, subject: str, number: int) -> list[Version]:
        """The versions whose schemas refer to this one."""
        return [
            version
            for other in sorted(self.subjects)
            for version in self.versions(other)
            if any(ref.subject == subject and ref.version == number for ref in version.content.references)
        ]

    def config(self, subject: str | None) -> dict[str, Any]:
        """Of the subject, its context, or all: the first that has one."""
        for name in _scopes(subject):
            if name in self.configs:
                return self.configs[name]
        return {"compatibilityLevel": LEVEL}

    def level(self, subject: str) -> str:
        return str(self.config(subject).get("compatibilityLevel", LEVEL))

    def mode(self, subject: str | None) -> str:
        if self.modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((self.modes[name] for name in _scopes(subject) if name in self.modes), READWRITE)

    # -- records -------------------------------------------------------------------------------------

    def _apply_schema(self, record: Record) -> None:
        subject, number = record.key.subject, record.key.version
        if subject is None or number is None:
            return
        if record.value is None:
            gone = self.subjects.get(subject, {}).pop(number, None)
            self._forget([] if gone is None else [gone])
            return
        context = context_of(subject)
        content, schema_id = content_of(record.value), int(record.value["id"])
        version = Version(
            subject, number, schema_id, content, bool(record.value.get("deleted")), record.raw_key
        )
        self.subjects.setdefault(subject, {})[number] = version
        self.ids[context, schema_id] = content
        self.known.setdefault((context, content), schema_id)
        self.guids[content.guid] = content
        self.contexts.add(context)
        self._raise_highest(context, schema_id)

    def _apply_deletion(self, record: Record) -> None:
        if record.value is not None:
            for number, version in self.subjects.get(record.key.subject or "", {}).items():
                version.deleted = version.deleted or number <= int(record.value["version"])

    def _forget(self, gone: list[Version]) -> None:
        """Schemas that no version has any more, once these are gone for good."""
        for version in gone:
            if not self.subjects.get(version.subject, True):
                del self.subjects[version.subject]
            context = context_of(version.subject)
            if not any(self.using(version.schema_id, context, deleted=True)):
                self.ids.pop((context, version.schema_id), None)
                self.known.pop((context, version.content), None)
                self.guids.pop(version.content.guid, None)

    def _apply_context(self, record: Record) -> None:
        context = record.key.subject or DEFAULT
        if record.value is None:
            self.contexts.discard(context)
        else:
            self.contexts.add(context)

    def _raise_highest(self, context: str, schema_id: int) -> None:
        self.highest_ids[context] = max(schema_id, self.highest_ids.get(context, 0))


def content_of(value: dict[str, Any]) -> Content:
    """From the JSON of a record or of a request."""
    references = tuple(
        Reference(str(ref["name"]), str(ref["subject"]), int(ref["version"]))
        for ref in value.get("references") or ()
    )
    kept = (records.to_json(value[name]) if value.get(name) else None for name in ("metadata", "ruleSet"))
    return Content(str(value["schema"]), value.get("schemaType") or AVRO, references, *kept)


def _scopes(subject: str | None) -> list[str | None]:
    context = context_of(subject)
    return [subject, *([f":{context}:"] if context != DEFAULT else []), None]


def _put(table: dict[str | None, Any], name: str | None, value: Any) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
