"""Values with schemas of a registry as a struct column, read with the subject's latest schema when the query starts.

Values that were written with other versions are brought to that one as Avro says.
"""

import json
from collections.abc import Mapping
from typing import Any

from ottla.serialization.framing import BadValue
from ottla.serialization.registry_client import RegistryClient
from ottla.spark.errors import BadValue as BadRecord
from ottla.spark.errors import OptionError

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


def struct_text(url: str, subject: str, schema_type: str) -> tuple[str, str]:
    """The type of the value in Spark's words, and the schema itself."""
    latest = RegistryClient(url).version(subject)
    if latest.schema_type != schema_type:
        raise OptionError(f"subject {subject} has a schema of type {latest.schema_type}, not {schema_type}")
    schema = json.loads(latest.schema)
    return (_avro(schema, {}) if schema_type == "AVRO" else _json(schema, schema)), latest.schema


def _avro(schema: Any, named: dict[str, Any]) -> str:
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise OptionError("a union of several types has no column type; read the value as bytes")
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
        raise OptionError(f"the type {name} holds itself or is not known; read the value as bytes")
    return "STRING" if schema["type"] == "enum" else "BINARY"


def _json(schema: Any, root: Any) -> str:
    if "$ref" in schema:
        return _json(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "anyOf" in schema or "oneOf" in schema:
        branches = [b for b in schema.get("anyOf", schema.get("oneOf")) if b.get("type") != "null"]
        if len(branches) == 1:
            return _json(branches[0], root)
        raise OptionError("a schema with several branches has no column type; read the value as bytes")
    kind = schema.get("type", "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "string")
    if kind == "object" and "properties" in schema:
        fields = (f"`{name}`: {_json(field, root)}" for name, field in schema["properties"].items())
        return f"STRUCT<{', '.join(fields)}>"
    if kind == "object":
        return f"MAP<STRING, {_json(schema.get('additionalProperties') or {}, root)}>"
    return f"ARRAY<{_json(schema.get('items') or {}, root)}>" if kind == "array" else _JSON[kind]


class RegistryValues:
    """A value that cannot be decoded is null, or with `fail_fast` an error that names it."""

    def __init__(
        self, kind: Any, url: str, schema_type: str, reader: str, *, fail_fast: bool = False
    ) -> None:
        self._kind, self._fail_fast = kind, fail_fast
        self._registry = RegistryClient(url)
        self._decode_one = self._decoder(schema_type, reader)

    def _decoder(self, schema_type: str, reader: str) -> Any:
        if schema_type == "AVRO":
            from ottla.serialization.avro import AvroDeserializer

            return AvroDeserializer(self._registry, reader)
        from ottla.serialization.json_schema import JsonSchemaDeserializer

        return JsonSchemaDeserializer(self._registry, check=False)

    def decode(self, rows: Any) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

        values = []
        for at, data in enumerate(rows.column("value").to_pylist()):
            try:
                values.append(None if data is None else self._decode_one(data))
            except BadValue as error:
                if self._fail_fast:
                    raise BadRecord(f"{_where(rows, at)}: {error}") from error
                values.append(None)
        return pa.array(values, self._kind)


def _where(rows: Any, at: int) -> str:
    told: Mapping[str, Any] = {
        name: rows.column(name)[at].as_py() for name in ("topic", "partition", "offset")
    }
    return f"{told['topic']}-{told['partition']}, offset {told['offset']}"
