"""Avro schemas. The text is kept as Java's library prints it; Apache's Python library says what can read what."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import avro.errors
import avro.name
import avro.schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from ottla.frozen import frozen
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


@frozen
class AvroSchema:
    canonical: str
    schema: avro.schema.Schema
    references: tuple[Any, ...] = ()

    @property
    def normalized(self) -> str:
        return to_json(_sorted_properties(json.loads(self.canonical)))

    @property
    def top_fields(self) -> frozenset[str]:
        schema = json.loads(self.canonical)
        fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
        return frozenset(field["name"] for field in fields)

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
        """`resolved` has what the schema refers to in its place."""
        if name != "resolved" or not self.references:
            return self.canonical
        definitions: dict[str, Any] = {}
        for reference in self.references:
            _collect(reference, "", definitions)
        return to_json(_canonical(_resolved(json.loads(self.canonical), "", definitions, set()), ""))


def parse(text: str, references: Mapping[str, str]) -> AvroSchema:
    try:
        names = avro.name.Names(validate_names=True)
        known = tuple(_canonical(_loaded(reference), "") for reference in references.values())
        for reference in known:
            avro.schema.make_avsc_object(_compared(reference), names)
        canonical = _canonical(_loaded(text), "")
        return AvroSchema(
            to_json(canonical), avro.schema.make_avsc_object(_compared(canonical), names), known
        )
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
        result["fields"] = [_field(field, own_space) for field in schema["fields"]]
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


def _parts(schema: Any, space: str) -> tuple[str | None, str, list[tuple[Any, Any]]]:
    """A named type's full name, the namespace inside it, and where it holds other schemas: container and key."""
    if isinstance(schema, list):
        return None, space, [(schema, at) for at in range(len(schema))]
    if not isinstance(schema, dict):
        return None, space, []
    if schema["type"] in _NAMED:
        full, inner = _full(schema["name"], schema.get("namespace"), space)
        return full, inner, [(field, "type") for field in schema.get("fields", ())]
    return None, space, [(schema, key) for key in ("items", "values") if key in schema]


def _compared(schema: Any) -> Any:
    """A copy for Apache's library: it looks for full names among aliases, and cannot compare errors, which are records
    by another name."""
    copy = json.loads(to_json(schema))
    _spell_out(copy, "")
    return copy


def _spell_out(schema: Any, space: str) -> None:
    full, inner, places = _parts(schema, space)
    if full is not None:
        if schema["type"] == "error":
            schema["type"] = "record"
        if "aliases" in schema:
            schema["aliases"] = [_full(alias, None, inner)[0] for alias in schema["aliases"]]
    for container, key in places:
        _spell_out(container[key], inner)


def _collect(schema: Any, space: str, definitions: dict[str, Any]) -> None:
    """Every named type, by its full name, with its namespace written out."""
    full, inner, places = _parts(schema, space)
    if full is not None:
        definitions.setdefault(full, {**schema, "namespace": inner})
    for container, key in places:
        _collect(container[key], inner, definitions)


def _resolved(schema: Any, space: str, definitions: dict[str, Any], placed: set[str]) -> Any:
    """Each definition takes the place of the first use of its name."""
    if isinstance(schema, str) and schema not in _PRIMITIVE:
        name = _full(schema, None, space)[0]
        if name in placed or name not in definitions:
            return schema
        schema = json.loads(to_json(definitions[name]))
    full, inner, places = _parts(schema, space)
    if full is not None and full in placed:
        return full
    placed.add(full or "")
    for container, key in places:
        container[key] = _resolved(container[key], inner, definitions, placed)
    return schema


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
