"""What a request means: the answer, and the records that make it so. Nothing here changes the state."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from ottla.frozen import frozen
from ottla.registry import compatibility, errors, metadata, records
from ottla.registry.formats import Parsed, parse
from ottla.registry.population import (
    SETTINGS,
    canonical_settings,
    has_defaults,
    populated,
    properties,
    reserved,
    with_text_of,
    without_version,
)
from ottla.registry.records import Record
from ottla.registry.state import READWRITE, Content, State, Version
from ottla.registry.subjects import DEFAULT, context_of

IMPORTING = ("IMPORT", "FORWARD")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_REFERENCE_DEPTH_MAX = 50
_REFERENCES_MAX = 1_000


@frozen
class Decision:
    answer: Any
    records: list[Record] = field(default_factory=list)


class Registry:
    """Answers from a state and decides about changes of it."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._parsed: dict[Content, Parsed] = {}

    # -- schemas -------------------------------------------------------------------------------------

    def parsed(self, content: Content) -> Parsed:
        """Parsed schemas are kept: comparing with many versions would parse them again and again."""
        known = self._parsed.get(content)
        return self.parse(content, self.references(content)) if known is None else known

    def parse(self, content: Content, references: Mapping[str, str]) -> Parsed:
        """Looks at no state: others may change it meanwhile."""
        parsed = parse(content, references)
        if len(self._parsed) > 2000:
            self._parsed.clear()
        self._parsed[content] = parsed
        return parsed

    def canonical(self, content: Content, *, normalize: bool = False) -> Content:
        parsed = self.parsed(content)
        return replace(content, schema=parsed.normalized if normalize else parsed.canonical)

    def references(self, content: Content) -> Mapping[str, str]:
        """The texts of everything it refers to, by name; what a reference needs stands before it."""
        texts: dict[str, str] = {}
        self._add_references(content, texts, set(), 0)
        return texts

    def _add_references(
        self, content: Content, texts: dict[str, str], seen: set[tuple[str, int]], depth: int
    ) -> None:
        """Each schema once, however many ways lead to it: there may be very many."""
        if depth > _REFERENCE_DEPTH_MAX:
            raise errors.invalid_schema("the references go in a circle or too deep")
        for reference in content.references:
            try:
                number = reference.version if reference.version != -1 else None
                version = self.state.version(reference.subject, number, deleted=True)
            except errors.RegistryError as error:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                ) from error
            if (version.subject, version.version) not in seen:
                self._add_references(version.content, texts, seen, depth + 1)
                seen.add((version.subject, version.version))
            texts[reference.name] = version.content.schema
            if len(texts) > _REFERENCES_MAX:
                raise errors.invalid_schema(f"it refers to more than {_REFERENCES_MAX} schemas")

    def references_beyond(self, readable: frozenset[str], content: Content) -> frozenset[str]:
        """The subjects outside of `readable` that the schema, or one within `readable` on the way, refers to."""
        beyond, seen, waiting = set(), set(), [content]
        while waiting:
            for reference in waiting.pop().references:
                if reference.subject not in readable:
                    beyond.add(reference.subject)  # also where there is none: that would be an answer too
                    continue
                number = reference.version if reference.version != -1 else None
                with suppress(errors.RegistryError):  # missing ones are told by `references`
                    version = self.state.version(reference.subject, number, deleted=True)
                    if (version.subject, version.version) not in seen:
                        seen.add((version.subject, version.version))
                        waiting.append(version.content)
        return frozenset(beyond)

    def lookup(self, subject: str, content: Content, *, normalize: bool, deleted: bool) -> Version:
        """The version of the subject that has this schema."""
        versions = self.state.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        version = self._same(versions, self._prepared(subject, content, normalize), normalize)
        if version is None:
            raise errors.schema_not_found()
        return version

    def _prepared(self, subject: str, content: Content, normalize: bool) -> Content:
        return self.canonical(content, normalize=self._normalizes(subject, normalize))

    def _normalizes(self, subject: str, asked: bool) -> bool:
        return asked or self.state.config(subject).get("normalize") is True

    def _same(self, versions: list[Version], wanted: Content, normalize: bool) -> Version | None:
        """Also one that says more: a schema without metadata is looked up with that of the latest version."""
        alive = [version for version in versions if not version.deleted]
        tried = [wanted]
        if alive:
            latest = alive[-1].content
            extras = wanted.metadata or latest.metadata, wanted.rule_set or latest.rule_set
            tried.append(replace(wanted, metadata=extras[0], rule_set=extras[1]))
        for content in dict.fromkeys(tried):
            for version in reversed(versions):
                if self._is_same(version.content, content, normalize):
                    return version
        return None

    def _is_same(self, stored: Content, wanted: Content, normalize: bool) -> bool:
        if metadata.VERSION_PROPERTY not in properties(wanted):
            stored = without_version(stored)
        if stored == wanted:
            return True
        wanted_as_stored = replace(wanted, references=stored.references)
        if normalize and self.canonical(stored, normalize=True) == wanted_as_stored:
            return True
        # A client may send a schema with everything that it refers to in its place.
        return (
            bool(stored.references)
            and not wanted.references
            and replace(stored, schema=self.parsed(stored).formatted("resolved")) == wanted_as_stored
        )

    def register(
        self,
        subject: str,
        content: Content,
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> Decision:
        """The answer is the version, new or known. `version` is the number that it must get, -1 for any."""
        every = self.state.versions(subject, deleted=True)
        alive = [known for known in every if not known.deleted]
        following = every[-1].version + 1 if every else 1
        latest = alive[-1].content if alive else None
        content = self._prepared(subject, with_text_of(latest, content), normalize)
        importing, settings = self.state.mode(subject) in IMPORTING, self.state.config(subject)
        known = None
        if not version and not has_defaults(settings):
            known = self._same(alive, content, normalize)  # in every mode: nothing is written
        if known is None and not importing:
            content = populated(content, latest, settings, following, names_version=bool(version))
            metadata.check_rules(content.rule_set_json)
            known = None if version else self._same(alive, content, normalize)
        if known is not None and schema_id in (None, known.schema_id):
            return Decision(known)
        self._check_registrable(subject, schema_id)
        if not importing:
            self._check_compatible(subject, content, alive)
        number = version if version and version > 0 else following
        if number != following and not importing:
            raise errors.invalid_schema(f"Version is not one more than previous version: {number}")
        if number > records.NUMBER_MAX:
            raise errors.invalid_version(number)
        registered = Version(subject, number, self._id(subject, content, schema_id), content)
        return Decision(registered, self._registration(registered, every))

    def _check_registrable(self, subject: str, schema_id: int | None) -> None:
        self._check_writable(subject)
        mode, where = self.state.mode(subject), f"Subject {subject} in context {context_of(subject)}"
        if schema_id is not None and mode not in IMPORTING:
            raise errors.not_permitted(f"{where} is not in import mode")
        if schema_id is None and mode != READWRITE:
            raise errors.not_permitted(f"{where} is not in read-write mode")

    def _registration(self, registered: Version, every: list[Version]) -> list[Record]:
        """A context is recorded before its first schema; a deleted version gives way to a new one with its id."""
        context, written = context_of(registered.subject), []
        if context != DEFAULT and context not in self.state.recorded_contexts:
            key, raw = self.state.key(records.CONTEXT, context)
            written.append(Record(key, {"tenant": "default", "context": context}, raw))
        for old in every:
            if old.deleted and old.schema_id == registered.schema_id and old.version < registered.version:
                key, raw = self.state.key(records.SCHEMA, old.subject, old.version)
                written.append(Record(key, None, raw))
        return [*written, _schema_record(registered, self.state)]

    def _id(self, subject: str, content: Content, wanted: int | None) -> int:
        context = context_of(subject)
        if wanted is not None:
            stored = self.state.with_id(wanted, context)
            if stored is not None and stored != content:
                raise errors.id_is_taken(wanted, context)
            return wanted
        known = self.state.known.get((context, content))
        if known is not None:
            return known
        following = self.state.highest_ids.get(context, 0) + 1
        if following > records.NUMBER_MAX:
            raise errors.not_permitted(f"context {context} has no ids left: the highest is {following - 1}")
        return following

    def _check_compatible(self, subject: str, content: Content, earlier: list[Version]) -> None:
        reasons = self.incompatibilities(subject, content, earlier)
        if reasons:
            raise errors.incompatible(subject, reasons)

    def incompatibilities(self, subject: str, content: Content, earlier: list[Version]) -> list[str]:
        level, settings = self.state.level(subject), self.state.config(subject)
        validates = settings.get("validateFields") is True
        reasons = self._field_problems(content, earlier[-1].content if earlier else None) if validates else []
        if level != "NONE":
            compared = _of_group(settings.get("compatibilityGroup"), content, earlier)
            reasons += compatibility.problems(
                level, self.parsed(content), [(old.version, self.parsed(old.content)) for old in compared]
            )
        if reasons:
            reasons.append(f"{{validateFields: '{str(validates).lower()}', compatibility: '{level}'}}")
        return reasons

    def _field_problems(self, content: Content, latest: Content | None) -> list[str]:
        """At every level, in registrations of subjects whose settings have `validateFields`."""
        parsed = self.parsed(content)
        if content.schema_type == "JSON" and any(name.startswith("$$") for name in parsed.top_fields):
            raise errors.invalid_schema("Field names cannot start with $$ prefix")
        before = reserved(latest) if latest is not None else frozenset()
        return compatibility.field_problems(parsed, reserved(content), before)

    # -- deletion ------------------------------------------------------------------------------------

    def delete_version(self, subject: str, number: int | None, *, permanent: bool) -> Decision:
        self._check_writable(subject)
        version = self.state.version(subject, number, deleted=True)
        self._check_deletable(version, permanent)
        if permanent:
            return Decision(version.version, self._tombstones([version]))
        deletion = _schema_record(replace(version, deleted=True), self.state)
        is_last = self.state.versions(subject) == [version]
        return Decision(version.version, [deletion, *(self._resets(subject) if is_last else ())])

    def delete_subject(self, subject: str, *, permanent: bool) -> Decision:
        """The answer are the numbers of the versions that were deleted."""
        self._check_writable(subject)
        every = self.state.versions(subject, deleted=True)
        alive = [version for version in every if not version.deleted]
        if not every:
            raise errors.subject_not_found(subject)
        if permanent and alive:
            raise errors.subject_not_soft_deleted(subject)
        if not permanent and not alive:
            raise errors.subject_soft_deleted(subject)
        for version in every if permanent else alive:
            self._check_unreferenced(version)
        if permanent:
            numbers = [version.version for version in every]
            key, raw = self.state.key(records.DELETE_SUBJECT, subject)
            return Decision(numbers, [*self._tombstones(every), Record(key, None, raw)])
        key, raw = self.state.key(records.DELETE_SUBJECT, subject)
        deletion = Record(key, {"subject": subject, "version": alive[-1].version}, raw)
        return Decision([version.version for version in alive], [deletion, *self._resets(subject)])

    def _resets(self, subject: str) -> list[Record]:
        """A subject without versions has no settings and no mode of its own either."""
        tables = ((records.MODE, self.state.modes), (records.CONFIG, self.state.configs))
        keys = [self.state.key(keytype, subject) for keytype, table in tables if subject in table]
        return [Record(key, None, raw) for key, raw in keys]

    def _check_deletable(self, version: Version, permanent: bool) -> None:
        if permanent and not version.deleted:
            raise errors.version_not_soft_deleted(version.subject, version.version)
        if not permanent and version.deleted:
            raise errors.version_soft_deleted(version.subject, version.version)
        self._check_unreferenced(version)

    def _check_unreferenced(self, version: Version) -> None:
        if self.state.referring(version.subject, version.version):
            raise errors.references_exist(version.subject, version.version)

    def _tombstones(self, versions: list[Version]) -> list[Record]:
        """Once compaction has removed a schema, nothing would tell that its id was used: the global settings do."""
        gone = []
        for version in versions:
            key, raw = self.state.key(records.SCHEMA, version.subject, version.version)
            gone.append(Record(key, None, raw))
        key, raw = self.state.key(records.CONFIG, None)
        return [*gone, Record(key, self.state.config(None), raw, dict(self.state.highest_ids))]

    # -- settings ------------------------------------------------------------------------------------

    def set_config(self, subject: str | None, body: Mapping[str, Any]) -> Decision:
        """Settings that the body does not name stay; one that it names as null is dropped."""
        level = body.get("compatibility", body.get("compatibilityLevel"))
        if level is not None and str(level).upper() not in compatibility.LEVELS:
            raise errors.invalid_compatibility()
        self._check_writable(subject)
        wanted = canonical_settings({**body, "compatibilityLevel": level and str(level).upper()})
        if "compatibility" not in body and "compatibilityLevel" not in body:
            del wanted["compatibilityLevel"]
        settings = {**self.state.configs.get(subject, {}), **wanted}
        value = {"subject": subject, **{name: settings.get(name) for name in SETTINGS}}
        key, raw = self.state.key(records.CONFIG, subject)
        highest = dict(self.state.highest_ids) if subject is None else {}
        return Decision(dict(body), [Record(key, _filled(value), raw, highest)])

    def delete_config(self, subject: str | None) -> Decision:
        self._check_writable(subject)
        if subject is not None and subject not in self.state.configs:
            raise errors.subject_not_found(subject)
        before = self.state.config(subject)
        key, raw = self.state.key(records.CONFIG, subject)
        if subject is None:  # the record stays: it carries the highest ids
            default = {"compatibilityLevel": "BACKWARD"}
            return Decision(before, [Record(key, default, raw, dict(self.state.highest_ids))])
        return Decision(before, [Record(key, None, raw)])

    def set_mode(self, subject: str | None, mode: object, *, force: bool) -> Decision:
        name = str(mode).upper()
        if name not in MODES:
            raise errors.invalid_mode()
        key, raw = self.state.key(records.MODE, subject)
        record = Record(key, _filled({"subject": subject, "mode": name}), raw)
        clears = name == "IMPORT" and not force and self.state.mode(subject) != "IMPORT"
        return Decision({"mode": name}, [*(self._clearing(subject) if clears else ()), record])

    def _clearing(self, subject: str | None) -> list[Record]:
        """An import begins with nothing: what was soft deleted goes for good."""
        names = self.state.matching(subject)
        if any(self.state.versions(name) for name in names):
            raise errors.not_permitted("Cannot import since found existing subjects")
        versions = [version for name in names for version in self.state.versions(name, deleted=True)]
        for version in versions:
            self._check_unreferenced(version)
        key, raw = self.state.key(records.CLEAR_SUBJECT, subject)
        clear = Record(key, _filled({"subject": subject}), raw)
        return [*(self._tombstones(versions) if versions else ()), clear]

    def delete_mode(self, subject: str | None) -> Decision:
        if subject not in self.state.modes:
            if subject is None:
                return Decision({"mode": self.state.mode(None)})
            raise errors.subject_not_found(subject)
        key, raw = self.state.key(records.MODE, subject)
        return Decision({"mode": self.state.modes[subject]}, [Record(key, None, raw)])

    def delete_context(self, name: str) -> Decision:
        """Only one in which nothing is left, not even what was soft deleted."""
        context = name.strip(":")
        context = context if context.startswith(".") else f".{context}"
        if context not in self.state.contexts or context == DEFAULT:
            raise errors.RegistryError(404, 40401, f"Context '{context}' not found.")
        if any(context_of(subject) == context for subject in self.state.subjects):
            raise errors.not_permitted(f"Context {context} is not empty")
        key, raw = self.state.key(records.CONTEXT, context)
        return Decision(None, [Record(key, None, raw)])

    def _check_writable(self, subject: str | None) -> None:
        mode = self.state.mode(subject)
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            where = context_of(subject) if subject else DEFAULT
            raise errors.not_permitted(f"Subject {subject} in context {where} is in read-only mode")


def _of_group(group: object, content: Content, earlier: list[Version]) -> list[Version]:
    """Those to compare with; where there are groups, for example major versions, only those of the same group."""
    if not isinstance(group, str):  # a record may have anything there
        return earlier
    mine = properties(content).get(group)
    return [other for other in earlier if properties(other.content).get(group) == mine]


def _filled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if part is not None}


def _schema_record(version: Version, state: State) -> Record:
    key, raw = state.key(records.SCHEMA, version.subject, version.version)
    return Record(key, schema_value(version), raw)


def schema_value(version: Version) -> dict[str, Any]:
    """Of a record; a type, references and the like only where there are any, as Confluent's."""
    content = version.content
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.schema_id,
        **described(content),
        "schema": content.schema,
        "deleted": version.deleted,
    }


def described(content: Content) -> dict[str, Any]:
    """What a schema has beside its text."""
    extras: dict[str, Any] = {}
    if content.schema_type != "AVRO":
        extras["schemaType"] = content.schema_type
    if content.references:
        extras["references"] = [reference.to_dict() for reference in content.references]
    if content.metadata:
        extras["metadata"] = json.loads(content.metadata)
    if content.rule_set:
        extras["ruleSet"] = json.loads(content.rule_set)
    return extras
