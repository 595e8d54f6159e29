"""Values with schemas of a registry as a struct column, read with the subject's latest schema when the query starts.

Values that were written with other versions are brought to that one as Avro says.
"""

import json
from collections.abc import Callable, Mapping
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
Decode = Callable[[Any], tuple[Any, list[str | None]]]
"""A column of bytes to one of structs, and for each value why it could not be decoded."""
_JSON = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "null": "VOID"}


def struct_text(url: str, subject: str, schema_type: str) -> tuple[str, str]:
    """The type of the value in Spark's words, and the schema itself."""
    registry = RegistryClient(url)
    latest = registry.version(subject, form="serialized" if schema_type == "PROTOBUF" else "")
    if latest.schema_type != schema_type:
        raise OptionError(f"subject {subject} has a schema of type {latest.schema_type}, not {schema_type}")
    if schema_type == "PROTOBUF":
        from ottla.spark import protobuf_values

        return protobuf_values.struct_text(protobuf_values.message_of(registry, latest)), latest.schema
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
        self,
        kind: Any,
        url: str,
        schema_type: str,
        reader: str,
        *,
        fail_fast: bool = False,
        subject: str | None = None,
    ) -> None:
        """`subject` is where `reader` comes from: values that were written with it are decoded all at once."""
        self._kind, self._fail_fast = kind, fail_fast
        self._registry = RegistryClient(url)
        self._decode_all = self._decoder(schema_type, reader, subject)

    def _decoder(self, schema_type: str, reader: str, subject: str | None) -> Decode:
        if schema_type == "AVRO":
            return self._avro(reader, subject)
        if schema_type == "PROTOBUF":
            from ottla.serialization.protobuf import ProtobufDeserializer
            from ottla.spark.protobuf_values import plain

            return self._one_by_one(ProtobufDeserializer(self._registry, build=plain))
        from ottla.serialization.json_schema import JsonSchemaDeserializer

        return self._one_by_one(JsonSchemaDeserializer(self._registry, check=False))

    def _avro(self, reader: str, subject: str | None) -> Decode:
        from ottla.serialization.arrow import AvroColumn

        column = AvroColumn(self._registry, reader, self._kind)
        if subject is not None:
            registered = self._registry.lookup(subject, reader)
            column.knows(registered.schema_id, bool(registered.references))
        return column.decode

    def _one_by_one(self, decode: Callable[[bytes], Any]) -> Decode:
        def decode_all(values: Any) -> tuple[Any, list[str | None]]:
            import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

            decoded: list[Any] = []
            reasons: list[str | None] = []
            for data in values.to_pylist():
                reason = value = None
                try:
                    value = None if data is None else decode(data)
                except BadValue as error:
                    reason = str(error)
                decoded.append(value)
                reasons.append(reason)
            return pa.array(decoded, self._kind), reasons

        return decode_all

    def decode(self, rows: Any) -> Any:
        return self.decode_telling(rows)[0]

    def decode_telling(self, rows: Any) -> tuple[Any, Any]:
        """The values, and for those that cannot be decoded why not; null where all is well."""
        import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

        values, reasons = self._decode_all(rows.column("value"))
        if self._fail_fast:
            for at, reason in enumerate(reasons):
                if reason is not None:
                    raise BadRecord(f"{_where(rows, at)}: {reason}")
        return values, pa.array(reasons, pa.string())


def _where(rows: Any, at: int) -> str:
    told: Mapping[str, Any] = {
        name: rows.column(name)[at].as_py() for name in ("topic", "partition", "offset")
    }
    return f"{told['topic']}-{told['partition']}, offset {told['offset']}"
