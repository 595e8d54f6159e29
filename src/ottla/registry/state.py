"""What the records of `_schemas` add up to. Only `apply` changes it, on the writer and on every reader alike."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.frozen import frozen
from ottla.registry import errors, records
from ottla.registry.metadata import Json, canonical_metadata, canonical_rules
from ottla.registry.metadata import guid as guid_of
from ottla.registry.records import Key, Record
from ottla.registry.subjects import DEFAULT, context_of, is_context

AVRO = "AVRO"
LEVEL = "BACKWARD"
READWRITE = "READWRITE"


@frozen
class Reference:
    name: str
    subject: str
    version: int

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@frozen
class Content:
    """A schema apart from the subjects that use it. `metadata` and `rule_set` are JSON in canonical form."""

    schema: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rule_set: str | None = None

    @property
    def guid(self) -> str:
        """The same in every registry, Confluent's too, whatever id the schema has there."""
        references = [(ref.name, ref.subject, ref.version) for ref in self.references]
        return guid_of(self.schema, references, self.metadata_json, self.rule_set_json)

    @property
    def metadata_json(self) -> Json | None:
        return None if self.metadata is None else json.loads(self.metadata)

    @property
    def rule_set_json(self) -> Json | None:
        return None if self.rule_set is None else json.loads(self.rule_set)


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
    uses: dict[tuple[str, int], set[tuple[str, int]]] = field(default_factory=dict)  # subjects and versions
    guids: dict[str, Content] = field(default_factory=dict)
    configs: dict[str | None, dict[str, Any]] = field(default_factory=dict)
    modes: dict[str | None, str] = field(default_factory=dict)
    highest_ids: dict[str, int] = field(default_factory=dict)
    contexts: set[str] = field(default_factory=lambda: {DEFAULT})
    recorded_contexts: set[str] = field(default_factory=set)  # those that have a record of their own
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
                _put(self.configs, record.key.subject, _without_subject(record.value))
            case records.MODE:
                mode = None if record.value is None else str(record.value["mode"])
                _put(self.modes, record.key.subject, mode)
            case records.DELETE_SUBJECT:
                self._apply_deletion(record)
            case records.CLEAR_SUBJECT:
                for subject in self.matching(record.key.subject):
                    self._forget(list(self.subjects.pop(subject).values()))
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
        """The version of that number; for None the latest, which is never a deleted one."""
        every = self.versions(subject, deleted=deleted and number is not None)
        if not every:
            raise errors.subject_not_found(subject)
        if number is None:
            return every[-1]
        for version in every:
            if version.version == number:
                return version
        raise errors.version_not_found(number)

    def matching(self, scope: str | None) -> list[str]:
        """The subject itself, those of a whole context, or all."""
        if scope is None:
            return sorted(self.subjects)
        if is_context(scope):
            return [name for name in sorted(self.subjects) if context_of(name) == context_of(scope)]
        return [scope] if scope in self.subjects else []

    def with_id(self, schema_id: int, context: str = DEFAULT) -> Content | None:
        return self.ids.get((context, schema_id))

    def using(self, schema_id: int, context: str, *, deleted: bool = False) -> Iterator[Version]:
        """The versions of all subjects that have the schema with this id."""
        for subject, number in sorted(self.uses.get((context, schema_id), ())):
            version = self.subjects[subject][number]
            if deleted or not version.deleted:
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
        """A subject may have settings without a level: then the level of its context or of all holds."""
        for name in _scopes(subject):
            if "compatibilityLevel" in self.configs.get(name, {}):
                return str(self.configs[name]["compatibilityLevel"])
        return LEVEL

    def mode(self, subject: str | None) -> str:
        if self.modes.get(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((self.modes[name] for name in _scopes(subject) if name in self.modes), READWRITE)

    # -- records -------------------------------------------------------------------------------------

    def _apply_schema(self, record: Record) -> None:
        subject, number = record.key.subject, record.key.version
        if subject is None or number is None:
            return
        version, guid = None, ""
        if record.value is not None:
            schema_id, number = records.number_in(record.value["id"], 0), records.number_in(number, 1)
            # No schema may get this id, not even if this one is of no use.
            self._raise_highest(context_of(subject), schema_id)
            content = content_of(record.value, strict=False)
            version = Version(
                subject, number, schema_id, content, bool(record.value.get("deleted")), record.raw_key
            )
            guid = content.guid  # fails for a text that cannot be encoded, before anything is changed
        gone = self.subjects.get(subject, {}).pop(number, None)
        if gone is not None:
            self._forget([gone])
        if version is not None:
            self._keep(version, guid)

    def _keep(self, version: Version, guid: str) -> None:
        subject, content, schema_id = version.subject, version.content, version.schema_id
        context = context_of(subject)
        self.subjects.setdefault(subject, {})[version.version] = version
        self.uses.setdefault((context, schema_id), set()).add((subject, version.version))
        self.ids[context, schema_id] = content
        self.known.setdefault((context, content), schema_id)
        self.guids[guid] = content
        self.contexts.add(context)

    def _apply_deletion(self, record: Record) -> None:
        if record.value is not None:
            for number, version in self.subjects.get(record.key.subject or "", {}).items():
                version.deleted = version.deleted or number <= int(record.value["version"])

    def _forget(self, gone: list[Version]) -> None:
        """Schemas that no version has any more, once these are gone for good."""
        for version in gone:
            if not self.subjects.get(version.subject, True):
                del self.subjects[version.subject]
            place = context_of(version.subject), version.schema_id
            uses = self.uses.get(place, set())
            uses.discard((version.subject, version.version))
            if not uses:
                self.uses.pop(place, None)
                self.ids.pop(place, None)
                self.known.pop((place[0], version.content), None)
                if not any((context, version.content) in self.known for context in self.contexts):
                    self.guids.pop(version.content.guid, None)

    def _apply_context(self, record: Record) -> None:
        context = record.key.subject or DEFAULT
        if record.value is None:
            self.contexts.discard(context)
            self.recorded_contexts.discard(context)
        else:
            self.contexts.add(context)
            self.recorded_contexts.add(context)

    def _raise_highest(self, context: str, schema_id: int) -> None:
        self.highest_ids[context] = max(schema_id, self.highest_ids.get(context, 0))


def content_of(value: dict[str, Any], *, strict: bool = True) -> Content:
    """From the JSON of a request, or without `strict` of a record: what is wrong with its metadata is not its readers'
    fault."""
    references = tuple(
        Reference(str(ref["name"]), str(ref["subject"]), records.number_in(ref["version"], -1))
        for ref in value.get("references") or ()
    )
    kind = value.get("schemaType") or AVRO
    if not isinstance(kind, str):
        raise TypeError("schemaType must be a string")
    extras = []
    for canonical, name in ((canonical_metadata, "metadata"), (canonical_rules, "ruleSet")):
        try:
            extra = canonical(value.get(name))
        except errors.RegistryError:
            if strict:
                raise
            extra = None
        extras.append(None if extra is None else records.to_json(extra))
    return Content(str(value["schema"]), kind, references, *extras)


def _scopes(subject: str | None) -> list[str | None]:
    context = context_of(subject)
    return [subject, *([f":{context}:"] if context != DEFAULT else []), None]


def _without_subject(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Settings say again whose they are, which the key does too."""
    return value and {name: part for name, part in value.items() if name != "subject"}


def _put(table: dict[str | None, Any], name: str | None, value: Any) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
