"""The columns that the values of a registry's schema have, in SQL's words: `STRUCT<`id`: STRING, ...>`.

Without Arrow: Spark asks for them in a process where Arrow would take 45 MB for nothing.
"""

import json
from dataclasses import dataclass
from typing import Any

from ottla.serialization.framing import NoColumns
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient

_AVRO = {
    "string": "STRING",
    "bytes": "BINARY",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "null": "VOID",
}
_LOGICAL = {
    "date": "DATE",
    "timestamp-millis": "TIMESTAMP",
    "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ",
    "local-timestamp-micros": "TIMESTAMP_NTZ",
}
_JSON = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "null": "VOID"}


@dataclass(frozen=True, slots=True)
class Columns:
    """`text` is the type of a value; `reader` the schema to read values with, with all that it refers to."""

    text: str
    reader: str
    registered: RegisteredSchema


def columns_of(
    registry: RegistryClient, subject: str, version: int | str = "latest", *, schema_type: str | None = None
) -> Columns:
    """Raises `NoColumns` for a schema that has none, or is of another type than `schema_type`."""
    registered = registry.version(subject, version)
    if schema_type not in (None, registered.schema_type):
        raise NoColumns(f"subject {subject} has a schema of type {registered.schema_type}, not {schema_type}")
    if registered.schema_type == "PROTOBUF":
        from ottla.serialization import protobuf_columns

        encoded = registry.version(subject, registered.version or version, form="serialized")
        message = protobuf_columns.message_of(registry, encoded)
        return Columns(protobuf_columns.struct_text(message), encoded.schema, registered)
    reader = registered.schema
    if registered.schema_type == "AVRO" and registered.references:
        reader = registry.version(subject, registered.version or version, form="resolved").schema
    schema = json.loads(reader)
    text = _avro(schema, {}) if registered.schema_type == "AVRO" else _json(schema, schema)
    return Columns(text, reader, registered)


def _avro(schema: Any, named: dict[str, Any]) -> str:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise NoColumns("a union of several types has no column type; read the value as bytes")
        return _avro(branches[0], named)
    if isinstance(schema, str):
        return _AVRO[schema] if schema in _AVRO else _avro_again(schema, named)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return f"DECIMAL({schema['precision']}, {schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        named[schema["name"]] = schema
        fields = (f"`{field['name']}`: {_avro(field['type'], named)}" for field in schema["fields"])
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "array":
        return f"ARRAY<{_avro(schema['items'], named)}>"
    if kind == "map":
        return f"MAP<STRING, {_avro(schema['values'], named)}>"
    if kind in ("enum", "fixed"):
        named[schema["name"]] = schema
        return "STRING" if kind == "enum" else "BINARY"
    return _avro(kind, named)


def _avro_again(name: str, named: dict[str, Any]) -> str:
    schema = named.get(name.rpartition(".")[2])
    if schema is None or schema["type"] == "record":
        raise NoColumns(f"the type {name} holds itself or is not known; read the value as bytes")
    return "STRING" if schema["type"] == "enum" else "BINARY"


def _json(schema: Any, root: Any, above: tuple[str, ...] = ()) -> str:
    """`above` are the references that were followed to get here."""
    if isinstance(schema, bool):
        schema = {}
    if "$ref" in schema:
        pointer = schema["$ref"]
        if pointer in above:
            raise NoColumns(f"{pointer} holds itself; read the value as bytes")
        return _json(_at(root, pointer), root, (*above, pointer))
    if "anyOf" in schema or "oneOf" in schema:
        branches = [b for b in schema.get("anyOf", schema.get("oneOf")) if b.get("type") != "null"]
        if len(branches) == 1:
            return _json(branches[0], root, above)
        raise NoColumns("a schema with several branches has no column type; read the value as bytes")
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "string")
    if kind == "object" and "properties" in schema:
        fields = (f"`{name}`: {_json(field, root, above)}" for name, field in schema["properties"].items())
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "object":
        return f"MAP<STRING, {_json(schema.get('additionalProperties') or {}, root, above)}>"
    return f"ARRAY<{_json(schema.get('items') or {}, root, above)}>" if kind == "array" else _JSON[kind]


def _at(root: Any, pointer: str) -> Any:
    """What `#/$defs/name` points to."""
    pointed_to = root if pointer.startswith("#/") else None
    for step in pointer[2:].split("/"):
        pointed_to = pointed_to.get(step) if isinstance(pointed_to, dict) else None
    if pointed_to is None or pointer.count("/") < 2:
        raise NoColumns(f"{pointer} is in another schema or is the schema itself; read the value as bytes")
    return pointed_to
