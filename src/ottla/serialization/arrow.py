"""Avro values as Arrow columns: what `poll_arrow` read, decoded by a registry's schemas.

`pyruhvro` decodes whole columns where it is installed, for schemas of the kinds that it knows; else fastavro does,
value by value. Both give the same, and a value that the first cannot read is left to the second, which says why.
"""

import json
import struct
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.serialization.avro import AvroDeserializer
from ottla.serialization.framing import PREFIX_BYTES, BadValue
from ottla.serialization.registry_client import RegistryClient

try:
    import pyruhvro  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:
    pyruhvro = None

_PREFIX = struct.Struct(">bi")
_TYPES = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_BYTES_MAX = 2**31 - 1


class ArrowDecoder:
    """`decode(consumer.poll_arrow(1.0))` has a struct in the column value, by the subject's latest schema.

    A value that cannot be decoded raises `BadValue` with its place, or is null with `permissive=True`.
    """

    def __init__(self, registry: RegistryClient, subject: str, *, permissive: bool = False) -> None:
        latest = registry.version(subject)
        if latest.schema_type != "AVRO":
            raise BadValue(f"subject {subject} has a schema of type {latest.schema_type}; Arrow decodes Avro")
        self._permissive = permissive
        self._column = AvroColumn(registry, latest.schema, arrow_type(json.loads(latest.schema)))
        self._column.knows(latest.schema_id, bool(latest.references))

    def __call__(self, rows: Any) -> Any:
        values, reasons = self._column.decode(rows.column("value"))
        if not self._permissive:
            for at, reason in enumerate(reasons):
                if reason is not None:
                    place = [rows.column(name)[at].as_py() for name in ("topic", "partition", "offset")]
                    raise BadValue(f"{place[0]}-{place[1]}, offset {place[2]}: {reason}")
        at = rows.schema.get_field_index("value")
        return rows.set_column(at, pa.field("value", values.type), values)


class AvroColumn:
    """A column of values with ids before them to one of structs, all read as `reader` says."""

    def __init__(self, registry: RegistryClient, reader: str, kind: Any) -> None:
        self._decode_one = AvroDeserializer(registry, reader)
        self._reader, self._kind = reader, kind
        self._own_id: int | None = None  # of the reader's schema, if values of it can be decoded at once

    def knows(self, schema_id: int, has_references: bool) -> None:
        """The reader's schema has this id: values with it are what it says, without evolution."""
        if pyruhvro is not None and not has_references and is_known(json.loads(self._reader)):
            self._own_id = schema_id

    def decode(self, values: Any) -> tuple[Any, list[str | None]]:
        """The column, and for each value why it is null though it was none; None where all is well."""
        own = self._at_once(values)
        return own if own is not None else self._one_by_one(values)

    def _at_once(self, values: Any) -> tuple[Any, list[str | None]] | None:
        if self._own_id is None or not len(values):
            return None
        prefix = pa.scalar(_PREFIX.pack(0, self._own_id), pa.binary())
        values = values.cast(pa.binary())
        is_own = pc.equal(pc.binary_slice(values, 0, PREFIX_BYTES), prefix).fill_null(False)
        if not pc.all(is_own).as_py():
            return None
        payloads = pc.binary_slice(values, PREFIX_BYTES, _BYTES_MAX).to_pylist()
        try:
            decoded = pyruhvro.deserialize_array(payloads, self._reader)
            return _cast(decoded.to_struct_array(), self._kind), [None] * len(values)
        except (ValueError, TypeError, pa.ArrowException):
            return None  # one by one tells which it is

    def _one_by_one(self, values: Any) -> tuple[Any, list[str | None]]:
        decoded: list[Any] = []
        reasons: list[str | None] = []
        for data in values.to_pylist():
            reason = value = None
            try:
                value = None if data is None else self._decode_one(data)
            except BadValue as error:
                reason = str(error)
            decoded.append(value)
            reasons.append(reason)
        return pa.array(decoded, self._kind), reasons


def _cast(array: Any, kind: Any) -> Any:
    """By the names of fields. Times come without their zone, which is UTC."""
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        columns = [_cast(array.field(field.name), field.type) for field in fields]
        return pa.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())
    return array.cast(kind)


def is_known(schema: Any) -> bool:
    """Whether pyruhvro decodes values of the schema, as fastavro does. Its record must be the outermost."""
    return isinstance(schema, dict) and schema.get("type") == "record" and _is_known(schema)


def _is_known(schema: Any) -> bool:
    if isinstance(schema, list):
        return len(schema) == 2 and schema[0] == "null" and _is_known(schema[1])
    if isinstance(schema, str):
        return schema in _TYPES and schema not in ("null", "bytes")
    kind, logical = schema.get("type"), schema.get("logicalType")
    if kind == "record":
        return all(_is_known(field["type"]) for field in schema["fields"])
    if kind == "array":
        return isinstance(schema["items"], str) and _is_known(schema["items"])
    if kind == "map":
        return isinstance(schema["values"], str) and _is_known(schema["values"])
    if kind == "enum":
        return True
    return (
        isinstance(kind, str)
        and logical in (None, "date", "timestamp-millis", "timestamp-micros")
        and _is_known(kind)
    )


def arrow_type(schema: Any, named: dict[str, Any] | None = None) -> Any:
    """The type of a column that holds values of an Avro schema."""
    named = {} if named is None else named
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise BadValue("a union of several types has no column type")
        return arrow_type(branches[0], named)
    if isinstance(schema, str):
        kind = _TYPES.get(schema, named.get(schema.rpartition(".")[2]))
        if kind is None:
            raise BadValue(f"the type {schema} holds itself or is not known")
        return kind
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return pa.list_(arrow_type(schema["items"], named))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(schema["values"], named))
    if kind not in ("record", "enum", "fixed"):
        return arrow_type(kind, named)
    if kind == "record":
        fields = [pa.field(field["name"], arrow_type(field["type"], named)) for field in schema["fields"]]
        made = pa.struct(fields)
    else:
        made = pa.string() if kind == "enum" else pa.binary()
    named[schema["name"].rpartition(".")[2]] = made
    return made
