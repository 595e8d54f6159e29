"""What a schema gets before it is registered: a text, metadata and rules of the latest version and of the settings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.registry import errors, records
from ottla.registry.metadata import (
    VERSION_PROPERTY,
    canonical_metadata,
    canonical_rules,
    check_rules,
    merged_metadata,
    merged_rules,
)
from ottla.registry.state import Content

# In the order in which they stand in a record.
SETTINGS = (
    *("alias", "normalize", "validateFields", "validateRules"),
    *("compatibilityLevel", "compatibilityPolicy", "compatibilityGroup"),
    *("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"),
)
_RESERVED_PROPERTY = "confluent:reserved"
_KINDS: dict[str, tuple[type, str]] = {
    **dict.fromkeys(("alias", "compatibilityPolicy", "compatibilityGroup"), (str, "a string")),
    **dict.fromkeys(("normalize", "validateFields", "validateRules"), (bool, "true or false")),
}
_CANONICAL = {
    "defaultMetadata": canonical_metadata,
    "overrideMetadata": canonical_metadata,
    "defaultRuleSet": canonical_rules,
    "overrideRuleSet": canonical_rules,
}


def with_text_of(latest: Content | None, content: Content) -> Content:
    """A request without a text is about the metadata and rules of the latest one."""
    if content.schema.strip():
        return content
    if latest is None:
        raise errors.invalid_schema("Empty schema")
    return replace(
        content, schema=latest.schema, schema_type=latest.schema_type, references=latest.references
    )


def populated(
    content: Content,
    latest: Content | None,
    settings: Mapping[str, Any],
    number: int,
    *,
    names_version: bool,
) -> Content:
    """With the metadata and rules of the latest version if it has none, and what the settings add to them.

    Metadata that name a version name this one; with `names_version` they do in any case.
    """
    own = content.metadata_json if content.metadata is not None or latest is None else latest.metadata_json
    own = merged_metadata(settings.get("defaultMetadata"), own)
    own = merged_metadata(own, settings.get("overrideMetadata"))
    if names_version or VERSION_PROPERTY in (own or {}).get("properties", {}):
        own = merged_metadata(own, {"properties": {VERSION_PROPERTY: str(number)}})
    rules = content.rule_set_json if content.rule_set is not None or latest is None else latest.rule_set_json
    rules = merged_rules(settings.get("defaultRuleSet"), rules)
    rules = merged_rules(rules, settings.get("overrideRuleSet"))
    return replace(content, metadata=_text(own), rule_set=_text(rules))


def has_defaults(settings: Mapping[str, Any]) -> bool:
    return any(settings.get(name) is not None for name in _CANONICAL)


def canonical_settings(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Raises RegistryError for metadata and rules that are none, and for other settings that are of another type."""
    for name, (kind, words) in _KINDS.items():
        if not isinstance(wanted.get(name), kind | None):
            raise errors.unprocessable(f"{name} must be {words}, or null")
    canonical = {
        name: _CANONICAL[name](value) if name in _CANONICAL else value for name, value in wanted.items()
    }
    for name in ("defaultRuleSet", "overrideRuleSet"):
        check_rules(canonical.get(name))
    try:
        records.to_json({name: canonical.get(name) for name in SETTINGS}).encode()
    except UnicodeEncodeError as error:
        raise errors.unprocessable(f"the settings have text that is not Unicode: {error}") from error
    return canonical


def properties(content: Content) -> dict[str, str]:
    by_name: dict[str, str] = (content.metadata_json or {}).get("properties", {})
    return by_name


def reserved(content: Content) -> frozenset[str]:
    """The fields that its metadata keep free, as in `confluent:reserved = "name, city"`."""
    names = (name.strip() for name in properties(content).get(_RESERVED_PROPERTY, "").split(","))
    return frozenset(name for name in names if name)


def without_version(content: Content) -> Content:
    """Without the version that its metadata name."""
    if VERSION_PROPERTY not in properties(content):
        return content
    rest = {name: text for name, text in properties(content).items() if name != VERSION_PROPERTY}
    metadata = canonical_metadata({**(content.metadata_json or {}), "properties": rest})
    return replace(content, metadata=_text(metadata) if metadata else None)


def _text(part: dict[str, Any] | None) -> str | None:
    return None if part is None else records.to_json(part)
