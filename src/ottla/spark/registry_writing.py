"""A struct column as values with a registered schema: the driver registers it, workers write with its id."""

import io
import json
from collections.abc import Callable
from typing import Any

from ottla.serialization.framing import with_id
from ottla.serialization.registry_client import RegistryClient, RegistryRefused
from ottla.spark.errors import BadValue, SchemaError
from ottla.spark.options import Registered

_AVRO = {
    "string": "string",
    "binary": "bytes",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "void": "null",
}
_AVRO_LOGICAL = {
    "date": ("int", "date"),
    "timestamp": ("long", "timestamp-micros"),
    "timestamp_ntz": ("long", "local-timestamp-micros"),
}
_JSON = {
    "string": "string",
    "tinyint": "integer",
    "smallint": "integer",
    "int": "integer",
    "bigint": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
}


def registered_id(of: Registered, schema: Any) -> tuple[int, str]:
    """The id and text of the schema that the column `value` is written with; it is registered if it is new."""
    if "value" not in schema.fieldNames():
        raise SchemaError("there is no column value; select struct(...) as value")
    kind = schema["value"].dataType
    if kind.typeName() != "struct":
        raise SchemaError(
            f"column value is {kind.simpleString()}; valueFormat wants a struct: struct(*) as value"
        )
    registry = RegistryClient(of.url)
    if of.schema_type == "PROTOBUF":
        return _protobuf_id(of, kind, registry)
    text = json.dumps(avro_of(kind, "topLevelRecord") if of.schema_type == "AVRO" else json_of(kind))
    return registry.register(of.subject, text, of.schema_type).schema_id, text


def _protobuf_id(of: Registered, kind: Any, registry: RegistryClient) -> tuple[int, str]:
    from ottla.spark.protobuf_writing import file_text, is_same

    try:
        latest = registry.version(of.subject, form="serialized")
    except RegistryRefused as error:
        if error.status != 404:
            raise
        text = file_text(kind, None)
        return registry.register(of.subject, text, of.schema_type).schema_id, text
    if latest.schema_type != "PROTOBUF":
        raise SchemaError(f"subject {of.subject} has a schema of type {latest.schema_type}, not PROTOBUF")
    text = file_text(kind, latest.schema)
    if is_same(text, latest.schema):
        return latest.schema_id, text
    return registry.register(of.subject, text, of.schema_type).schema_id, text


def avro_of(kind: Any, name: str) -> Any:
    """As Spark's own `to_avro` maps types. Every field may be null, which is also its default."""
    word = kind.typeName()
    if word == "struct":
        fields = [
            {
                "name": field.name,
                "type": ["null", avro_of(field.dataType, f"{name}_{field.name}")],
                "default": None,
            }
            for field in kind.fields
        ]
        return {"type": "record", "name": name, "fields": fields}
    if word == "array":
        return {"type": "array", "items": ["null", avro_of(kind.elementType, name)]}
    if word == "map":
        if kind.keyType.typeName() != "string":
            raise SchemaError(f"a map in Avro has strings as keys, not {kind.keyType.simpleString()}")
        return {"type": "map", "values": ["null", avro_of(kind.valueType, name)]}
    if word == "decimal":
        decimal = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", **decimal}
    if word in _AVRO_LOGICAL:
        primitive, logical = _AVRO_LOGICAL[word]
        return {"type": primitive, "logicalType": logical}
    return _known(kind, _AVRO)


def json_of(kind: Any) -> Any:
    word = kind.typeName()
    if word == "struct":
        properties = {field.name: _or_null(json_of(field.dataType)) for field in kind.fields}
        return {"type": "object", "properties": properties}
    if word == "array":
        return {"type": "array", "items": _or_null(json_of(kind.elementType))}
    if word == "map":
        return {"type": "object", "additionalProperties": _or_null(json_of(kind.valueType))}
    return {"type": _known(kind, _JSON)}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _known(kind: Any, types: dict[str, str]) -> str:
    word = kind.simpleString().split(" collate")[0]
    if word not in types:
        raise SchemaError(f"a column of type {word} has no schema; cast it before writing")
    return types[word]


class ValueEncoder:
    """In a worker: batches whose column `value` is a struct become such whose values are bytes."""

    def __init__(self, schema_type: str, schema_id: int, schema: str) -> None:
        self._schema_id = schema_id
        self._encode = _writer(schema_type, schema)

    def __call__(self, rows: Any) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

        at = rows.schema.get_field_index("value")
        values = [None if value is None else self._value(value) for value in rows.column(at).to_pylist()]
        return rows.set_column(at, pa.field("value", pa.binary()), pa.array(values, pa.binary()))

    def _value(self, value: Any) -> bytes:
        try:
            return with_id(self._schema_id, self._encode(value))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise BadValue(f"a value does not fit the schema {self._schema_id}: {error}") from error


def _writer(schema_type: str, schema: str) -> Callable[[Any], bytes]:
    if schema_type == "PROTOBUF":
        from ottla.spark import protobuf_writing

        return protobuf_writing.writer(schema)
    return _avro_writer(schema) if schema_type == "AVRO" else _json_text


def _avro_writer(text: str) -> Callable[[Any], bytes]:
    import fastavro

    schema = fastavro.parse_schema(json.loads(text))

    def encode(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, _with_maps(value))
        return out.getvalue()

    return encode


def _with_maps(value: Any) -> Any:
    """Arrow gives a map as a list of pairs."""
    if isinstance(value, dict):
        return {name: _with_maps(item) for name, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {name: _with_maps(item) for name, item in value}
        return [_with_maps(item) for item in value]
    return value


def _json_text(value: Any) -> bytes:
    return json.dumps(_with_maps(value), ensure_ascii=False, separators=(",", ":")).encode()
