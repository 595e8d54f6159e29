"""Arrow batches of sources: their types as Connect's schemas, their rows as records."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import schema as s
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema
from ottla.connect.spi import Header, SourceRecord

_PLAIN = (
    (pa.types.is_int8, s.INT8), (pa.types.is_int16, s.INT16), (pa.types.is_int32, s.INT32),
    (pa.types.is_int64, s.INT64),
    (pa.types.is_uint8, s.INT16), (pa.types.is_uint16, s.INT32), (pa.types.is_uint32, s.INT64),
    (pa.types.is_float32, s.FLOAT32), (pa.types.is_float64, s.FLOAT64), (pa.types.is_boolean, s.BOOLEAN),
    (pa.types.is_string, s.STRING), (pa.types.is_large_string, s.STRING),
    (pa.types.is_binary, s.BYTES), (pa.types.is_large_binary, s.BYTES),
)  # fmt: skip


def schema_of(kind: Any, optional: bool = True, name: str | None = None) -> Schema | None:
    """None for the type of nulls."""
    for fits, plain in _PLAIN:
        if fits(kind):
            return Schema(plain, optional)
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind):
        return s.timestamp(optional=optional)
    if pa.types.is_date(kind):
        return s.day(optional=optional)
    if pa.types.is_time(kind):
        return s.time_of_day(optional=optional)
    if pa.types.is_decimal(kind):
        return s.decimal(kind.scale, optional=optional)
    if pa.types.is_struct(kind):
        fields = tuple(Field(field.name, _inner(field.type, field.nullable)) for field in kind)
        return Schema(s.STRUCT, optional, name=name, fields=fields)
    if pa.types.is_map(kind):
        return s.map_of(_inner(kind.key_type, False), _inner(kind.item_type, True), optional=optional)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return s.array(_inner(kind.value_type, True), optional=optional)
    raise DataError(f"Arrow's type {kind} has no counterpart among Connect's schemas; cast it first")


def _inner(kind: Any, nullable: bool) -> Schema:
    return schema_of(kind, nullable) or Schema(
        s.STRING, optional=True
    )  # a column of nulls: any optional type fits


def records_of(rows: pa.RecordBatch, topic: str | None) -> Iterator[SourceRecord]:
    """Row by row, for what has no path for columns."""
    names = rows.schema.names
    key_schema = (
        schema_of(rows.column("key").type, rows.column("key").null_count > 0) if "key" in names else None
    )
    values = rows.column("value")
    value_schema = schema_of(values.type, values.null_count > 0)
    for row in rows.to_pylist():
        where = row.get("topic") or topic
        if where is None:
            raise DataError("a row has no topic: give the batch a topic or a column topic")
        stamp = row.get("timestamp")
        yield SourceRecord(
            where,
            _plain(values.type, row["value"]),
            value_schema,
            _plain(rows.column("key").type, row["key"]) if "key" in names else None,
            key_schema,
            tuple(
                Header(header["key"], header["value"], Schema(s.BYTES)) for header in row.get("headers") or ()
            ),
            None if stamp is None else s.millis(stamp),
            row.get("partition"),
        )


def _plain(kind: Any, value: Any) -> Any:
    """Maps come as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {key: _plain(kind.item_type, item) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_plain(kind.value_type, element) for element in value]
    return value
