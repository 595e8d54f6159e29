"""What a request means: the answer, and the records that make it so. Nothing here changes the state."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ottla.registry import compatibility, errors, records
from ottla.registry.formats import Parsed, parse
from ottla.registry.records import Record
from ottla.registry.state import Content, State, Version
from ottla.registry.subjects import DEFAULT, context_of

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_REFERENCE_DEPTH_MAX = 50


@dataclass(frozen=True)
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
        if known is None:
            if len(self._parsed) > 2000:
                self._parsed.clear()
            known = self._parsed[content] = parse(content, self.references(content))
        return known

    def canonical(self, content: Content, *, normalize: bool = False) -> Content:
        parsed = self.parsed(content)
        return replace(content, schema=parsed.normalized if normalize else parsed.canonical)

    def references(self, content: Content, depth: int = 0) -> Mapping[str, str]:
        """The texts of everything it refers to, by name; what a reference needs stands before it."""
        if depth > _REFERENCE_DEPTH_MAX:
            raise errors.invalid_schema("the references go in a circle or too deep")
        texts: dict[str, str] = {}
        for reference in content.references:
            try:
                number = reference.version if reference.version != -1 else None
                version = self.state.version(reference.subject, number, deleted=True)
            except errors.RegistryError as error:
                raise errors.invalid_schema(
                    f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
                ) from error
            texts.update(self.references(version.content, depth + 1))
            texts[reference.name] = version.content.schema
        return texts

    def lookup(self, subject: str, content: Content, *, normalize: bool, deleted: bool) -> Version:
        """The version of the subject that has this schema."""
        versions = self.state.versions(subject, deleted=deleted)
        if not versions:
            raise errors.subject_not_found(subject)
        found = self._same(versions, content, normalize)
        if found is None:
            raise errors.schema_not_found()
        return found

    def _same(self, versions: list[Version], content: Content, normalize: bool) -> Version | None:
        wanted = self.canonical(content, normalize=normalize)
        for version in reversed(versions):
            stored = version.content
            if stored == wanted or (
                normalize
                and self.canonical(stored, normalize=True) == replace(wanted, references=stored.references)
            ):
                return version
        return None

    def register(
        self,
        subject: str,
        content: Content,
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> Decision:
        """The answer is the version, new or known."""
        self._check_writable(subject)
        mode = self.state.mode(subject)
        if schema_id is not None and schema_id >= 0 and mode != "IMPORT":
            raise errors.not_permitted(f"Subject {subject} is not in import mode")
        if schema_id is None and mode == "IMPORT":
            raise errors.not_permitted(f"Subject {subject} is in import mode")
        content = self.canonical(content, normalize=normalize)
        every = self.state.versions(subject, deleted=True)
        alive = [each for each in every if not each.deleted]
        known = self._same(alive, content, normalize)
        if known is not None and (schema_id is None or known.schema_id == schema_id):
            return Decision(known)
        if mode != "IMPORT":
            self._check_compatible(subject, content, alive)
        number = version if version and mode == "IMPORT" else (every[-1].version + 1 if every else 1)
        made = Version(subject, number, self._id(subject, content, schema_id), content)
        return Decision(made, [_schema_record(made, self.state)])

    def _id(self, subject: str, content: Content, wanted: int | None) -> int:
        context = context_of(subject)
        if wanted is not None:
            stored = self.state.with_id(wanted, context)
            if stored is not None and stored != content:
                raise errors.id_does_not_match(wanted)
            return wanted
        known = self.state.known.get((context, content))
        return self.state.highest_ids.get(context, 0) + 1 if known is None else known

    def _check_compatible(self, subject: str, content: Content, earlier: list[Version]) -> None:
        reasons = self.incompatibilities(subject, content, earlier)
        if reasons:
            raise errors.incompatible(subject, reasons)

    def incompatibilities(self, subject: str, content: Content, earlier: list[Version]) -> list[str]:
        level = self.state.level(subject)
        if level == "NONE":
            return []
        return compatibility.problems(
            level, self.parsed(content), [(each.version, self.parsed(each.content)) for each in earlier]
        )

    # -- deletion ------------------------------------------------------------------------------------

    def delete_version(self, subject: str, number: int | None, *, permanent: bool) -> Decision:
        self._check_writable(subject)
        version = self.state.version(subject, number, deleted=True)
        if number is None and version.deleted and not permanent:
            version = self.state.version(subject, None)
        self._check_deletable(version, permanent)
        if permanent:
            return Decision(version.version, [*self._tombstones([version])])
        return Decision(version.version, [_schema_record(replace(version, deleted=True), self.state)])

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
        return Decision([version.version for version in alive], [deletion])

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
        level = body.get("compatibility", body.get("compatibilityLevel"))
        if level is not None and str(level).upper() not in compatibility.LEVELS:
            raise errors.invalid_compatibility()
        if subject is not None or self.state.mode(None) != "READONLY_OVERRIDE":
            self._check_writable(subject)
        kept = {name: value for name, value in body.items() if not name.startswith("compatibility")}
        value = {**({"compatibilityLevel": str(level).upper()} if level is not None else {}), **kept}
        key, raw = self.state.key(records.CONFIG, subject)
        highest = dict(self.state.highest_ids) if subject is None else {}
        return Decision(dict(body), [Record(key, value, raw, highest)])

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
        if name == "IMPORT" and not force and self._has_schemas(subject):
            raise errors.not_permitted("Cannot import since found existing subjects")
        key, raw = self.state.key(records.MODE, subject)
        return Decision({"mode": name}, [Record(key, {"mode": name}, raw)])

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

    def _has_schemas(self, subject: str | None) -> bool:
        if subject is None:
            return any(self.state.versions(name, deleted=True) for name in self.state.subjects)
        return bool(self.state.versions(subject, deleted=True))

    def _check_writable(self, subject: str | None) -> None:
        mode = self.state.mode(subject)
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            where = context_of(subject) if subject else DEFAULT
            raise errors.not_permitted(f"Subject {subject} in context {where} is in read-only mode")


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
    told: dict[str, Any] = {}
    if content.schema_type != "AVRO":
        told["schemaType"] = content.schema_type
    if content.references:
        told["references"] = [reference.to_dict() for reference in content.references]
    if content.metadata:
        told["metadata"] = json.loads(content.metadata)
    if content.rule_set:
        told["ruleSet"] = json.loads(content.rule_set)
    return told
