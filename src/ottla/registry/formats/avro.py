"""Avro schemas. The text is kept as Java's library prints it; Apache's Python library says what can read what."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import avro.errors
import avro.name
import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from ottla.registry import errors
from ottla.registry.records import to_json

_PRIMITIVE = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = {"record", "error", "enum", "fixed"}
# What Java's library prints itself; everything else is a property and comes behind.
_OWN = {
    "type",
    "name",
    "namespace",
    "doc",
    "fields",
    "aliases",
    "symbols",
    "default",
    "items",
    "values",
    "size",
}
_OWN_OF_FIELD = {"name", "type", "doc", "default", "order", "aliases"}
_MISSING_DEFAULT = "reader_field_missing_default_value"
_WORDS = {
    "name_mismatch": "The name of the schema has changed",
    "fixed_size_mismatch": "The size of a FIXED type has changed",
    "missing_enum_symbols": "The reader schema is missing enum symbols",
    _MISSING_DEFAULT: "The field has no default value and is missing in the writer's schema",
    "type_mismatch": "The type of a field or element has changed",
    "missing_union_branch": "The reader schema lacks a branch of the writer's union",
}


@dataclass(frozen=True)
class AvroSchema:
    canonical: str
    schema: avro.schema.Schema

    @property
    def normalized(self) -> str:
        return to_json(_sorted_properties(json.loads(self.canonical)))

    def cannot_read(self, writer: Any) -> list[str]:
        checked = ReaderWriterCompatibilityChecker().get_compatibility(self.schema, writer.schema)
        if checked.compatibility is SchemaCompatibilityType.compatible:
            return []
        details = "; ".join(sorted(map(str, checked.messages)))
        places = ", ".join(sorted(map(str, checked.locations)))
        kinds = sorted({kind.value for kind in checked.incompatibilities})
        return [
            f"{{errorType:'{kind.upper()}', description:'{_WORDS.get(kind, kind)} at path {places}', "
            f"additionalInfo:'{details}'}}"
            for kind in kinds
        ]

    def formatted(self, name: str) -> str:
        return self.canonical


def parse(text: str, references: Mapping[str, str]) -> AvroSchema:
    try:
        names = avro.name.Names(validate_names=True)
        for reference in references.values():
            avro.schema.make_avsc_object(_canonical(_loaded(reference), ""), names)
        canonical = _canonical(_loaded(text), "")
        return AvroSchema(to_json(canonical), avro.schema.make_avsc_object(canonical, names))
    except (avro.errors.AvroException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.invalid_schema(f"{text[:200]}: {error}") from error


def _loaded(text: str) -> Any:
    """A bare name, as in `string`, is a schema too."""
    stripped = text.strip()
    return stripped if stripped in _PRIMITIVE else json.loads(stripped)


def _canonical(schema: Any, space: str) -> Any:
    """`space` is the namespace around it."""
    if isinstance(schema, list):
        return [_canonical(branch, space) for branch in schema]
    if isinstance(schema, str):
        return schema if schema in _PRIMITIVE else _shortened(_full(schema, None, space)[0], space)
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _canonical(kind, space)
    properties = {name: value for name, value in schema.items() if name not in _OWN}
    if kind in _NAMED:
        return _named(schema, kind, space, properties)
    if kind == "array":
        return {"type": kind, "items": _canonical(schema["items"], space), **properties}
    if kind == "map":
        return {"type": kind, "values": _canonical(schema["values"], space), **properties}
    if kind not in _PRIMITIVE:
        return _canonical(kind, space)
    return {"type": kind, **properties} if properties else kind


def _named(schema: Any, kind: str, space: str, properties: dict[str, Any]) -> Any:
    full, own_space = _full(schema["name"], schema.get("namespace"), space)
    result: dict[str, Any] = {"type": kind, "name": full.rpartition(".")[2]}
    if own_space != space:
        result["namespace"] = own_space
    if schema.get("doc") is not None:
        result["doc"] = schema["doc"]
    if kind == "enum":
        result["symbols"] = schema["symbols"]
        if schema.get("default") is not None:
            result["default"] = schema["default"]
    elif kind == "fixed":
        result["size"] = schema["size"]
    else:
        result["fields"] = [_field(each, own_space) for each in schema["fields"]]
    result.update(properties)
    if schema.get("aliases"):
        result["aliases"] = [_shortened(_full(a, None, own_space)[0], own_space) for a in schema["aliases"]]
    return result


def _field(schema: Any, space: str) -> Any:
    result: dict[str, Any] = {"name": schema["name"], "type": _canonical(schema["type"], space)}
    if schema.get("doc") is not None:
        result["doc"] = schema["doc"]
    if "default" in schema:
        result["default"] = schema["default"]
    if schema.get("order", "ascending") != "ascending":
        result["order"] = schema["order"]
    if schema.get("aliases"):
        result["aliases"] = schema["aliases"]
    result.update({name: value for name, value in schema.items() if name not in _OWN_OF_FIELD})
    return result


def _full(name: str, namespace: str | None, space: str) -> tuple[str, str]:
    """The full name and its namespace; a name with dots brings its own."""
    if "." in name:
        return name, name.rpartition(".")[0]
    own = space if namespace is None else namespace
    return (f"{own}.{name}" if own else name), own


def _shortened(full: str, space: str) -> str:
    return full.rpartition(".")[2] if full.rpartition(".")[0] == space else full


def _sorted_properties(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_sorted_properties(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    own = {name: _sorted_properties(value) for name, value in schema.items() if name in _ALL_OWN}
    return {**own, **_by_name(schema, (name for name in schema if name not in _ALL_OWN))}


def _by_name(schema: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: schema[name] for name in sorted(names)}


_ALL_OWN = _OWN | _OWN_OF_FIELD
