"""Metadata and rule sets of schemas: their canonical form, how defaults are merged into them, and GUIDs of schemas.

All three are Confluent's, so that the same schema has the same GUID in its registry and in this one. A GUID is the MD5
of the text, the references, the metadata and the rules, without anything between them; the type of the schema is no
part of it.
"""

import hashlib
import re
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ottla.registry import errors

Json = dict[str, Any]
VERSION_PROPERTY = "confluent:version"
RULES = ("migrationRules", "domainRules", "encodingRules")
_MODES = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
# In the order in which they stand in records and are hashed.
_FIELDS = (
    *("name", "doc", "kind", "mode", "type", "tags", "params"),
    *("expr", "onSuccess", "onFailure", "disabled"),
)
_TEXTS = [name for name in _FIELDS if name not in ("tags", "params", "disabled")]
_NAME = re.compile(r"[^\W\d][\w-]*")


def canonical_metadata(value: Any) -> Json | None:
    """Sorted, and without what metadata does not have. Raises RegistryError for what is no metadata."""
    if value is None:
        return None
    metadata = _object(value, "metadata")
    tags = {name: _sorted(_texts(given_tags, "tags")) for name, given_tags in _items(metadata, "tags")}
    properties = {name: _text(text, f"property {name}") for name, text in _items(metadata, "properties")}
    sensitive = _sorted(_texts(metadata.get("sensitive"), "sensitive"))
    return _filled(tags=tags, properties=properties, sensitive=sensitive)


def canonical_rules(value: Any) -> Json | None:
    """As `canonical_metadata`, of a rule set."""
    if value is None:
        return None
    rule_set = _object(value, "ruleSet")
    return _filled(**{kind: [_rule(rule) for rule in _list(rule_set.get(kind), kind)] for kind in RULES})


def _rule(value: Any) -> Json:
    fields = {"kind": "TRANSFORM", "mode": "WRITEREAD", **_object(value, "a rule")}
    texts = {name: _text(fields[name], name) for name in _TEXTS if fields.get(name) is not None}
    tags = _sorted(_texts(fields.get("tags"), "tags"))
    parameters = {name: _text(text, f"parameter {name}") for name, text in _items(fields, "params")}
    rule = {**texts, **_filled(tags=tags, params=parameters), "disabled": bool(fields.get("disabled"))}
    return {name: rule[name] for name in _FIELDS if name in rule}


def check_rules(rules: Json | None) -> None:
    """Raises RegistryError for rules that no client could run."""
    names = set()
    for kind, modes in _MODES.items():
        for rule in (rules or {}).get(kind, ()):
            name = rule.get("name", "")
            if not _NAME.fullmatch(name):
                raise errors.invalid_rules(f"{name!r} is no name of a rule: letters, digits, _ and - are")
            if name in names:
                raise errors.invalid_rules(f"Found rule with duplicate name '{name}'")
            if not rule.get("type"):
                raise errors.invalid_rules(f"Missing rule type of rule '{name}'")
            if rule["mode"] not in modes:
                raise errors.invalid_rules(f"rule '{name}': {kind} can only be {', '.join(modes)}")
            names.add(name)


# -- merging ---------------------------------------------------------------------------------------------


def merged_metadata(old: Json | None, new: Json | None) -> Json | None:
    """What both have; where both say something, the new one counts."""
    if old is None or new is None:
        return old if new is None else new
    tags = {**old.get("tags", {}), **new.get("tags", {})}
    properties = {**old.get("properties", {}), **new.get("properties", {})}
    sensitive = [*old.get("sensitive", ()), *new.get("sensitive", ())]
    return canonical_metadata({"tags": tags, "properties": properties, "sensitive": sensitive})


def merged_rules(old: Json | None, new: Json | None) -> Json | None:
    """The old rules, without those that have the name of a new one, then the new ones."""
    if old is None or new is None:
        return old if new is None else new
    merged = {}
    for kind in RULES:
        names = {
            rule.get("name") for rule in new.get(kind, ())
        }  # imported rules are not checked: they may have none
        merged[kind] = [rule for rule in old.get(kind, ()) if rule.get("name") not in names] + new.get(
            kind, []
        )
    return canonical_rules(merged)


# -- GUIDs -----------------------------------------------------------------------------------------------


def guid(
    schema: str,
    references: Iterable[tuple[str, str, int]],
    metadata: Json | None,
    rules: Json | None,
) -> str:
    """`references` are name, subject and version."""
    digest = hashlib.md5(schema.encode(), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(name.encode() + subject.encode() + struct.pack(">i", version))
    for part, texts in ((metadata, _metadata_texts), (rules, _rules_texts)):
        if part is not None:
            digest.update(b"\1")
            for text in texts(part):
                digest.update(text.encode())
    return str(uuid.UUID(bytes=digest.digest()))


def _metadata_texts(metadata: Json) -> Iterator[str]:
    for name, tags in metadata.get("tags", {}).items():
        yield from (name, *tags)
    for pair in metadata.get("properties", {}).items():
        yield from pair
    yield from metadata.get("sensitive", ())


def _rules_texts(rules: Json) -> Iterator[str]:
    for kind in RULES:
        for rule in rules.get(kind, ()):
            for name, part in rule.items():
                if name == "disabled":
                    yield "\1" if part else ""
                elif name == "params":
                    yield from (text for pair in part.items() for text in pair)
                else:
                    yield from part if name == "tags" else (part,)


# -- parts -----------------------------------------------------------------------------------------------


def _sorted(texts: Iterable[str]) -> list[str]:
    """As Java orders strings: by their UTF-16."""
    return sorted(set(texts), key=lambda text: text.encode("utf-16-be", "surrogatepass"))


def _items(container: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    table = _object(container.get(name) or {}, name)
    return [(key, table[key]) for key in _sorted(table)]


def _filled(**parts: Any) -> Json:
    return {name: part for name, part in parts.items() if part}


def _object(value: Any, what: str) -> Json:
    if not isinstance(value, dict):
        raise errors.unprocessable(f"{what} must be a JSON object")
    return value


def _texts(value: Any, what: str) -> list[str]:
    return [_text(text, what) for text in _list(value, what)]


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value or [], list):
        raise errors.unprocessable(f"{what} must be a list")
    return value or []


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise errors.unprocessable(f"{what}: {value!r} is no string")
    return value
