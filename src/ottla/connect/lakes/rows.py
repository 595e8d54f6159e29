"""Records as Arrow tables: the schema of the values becomes the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import schema as schemas
from ottla.connect.errors import DataError
from ottla.connect.schema import Schema
from ottla.connect.spi import SinkRecord
from ottla.connect.sql import columns as kinds

_ARROW = {
    kinds.BOOLEAN: pa.bool_(), kinds.SMALL: pa.int16(), kinds.INTEGER: pa.int32(), kinds.LONG: pa.int64(),
    kinds.SINGLE: pa.float32(), kinds.DOUBLE: pa.float64(), kinds.TEXT: pa.string(), kinds.BYTES: pa.binary(),
    kinds.DATE: pa.date32(), kinds.TIME: pa.time64("us"), kinds.TIMESTAMP: pa.timestamp("us"),
    kinds.ZONED: pa.timestamp("us", "UTC"), kinds.JSON: pa.string(), kinds.UUID: pa.string(),
}  # fmt: skip
_POSITION = (
    ("__topic", pa.string()),
    ("__partition", pa.int32()),
    ("__offset", pa.int64()),
    ("__timestamp", pa.int64()),
)
_DIGITS_MAX = 38


def tables(records: Sequence[SinkRecord], *, with_position: bool) -> list[pa.Table]:
    """In order; a new table begins where the schema changes. Null values (tombstones) are left out."""
    runs: list[tuple[Schema | None, list[SinkRecord]]] = []
    for record in records:
        if record.value is None:
            continue
        if not runs or runs[-1][0] is not record.value_schema:
            runs.append((record.value_schema, []))
        runs[-1][1].append(record)
    return [_table(schema, run, with_position) for schema, run in runs]


def one_table(records: Sequence[SinkRecord], *, with_position: bool) -> pa.Table:
    """Schemas that differ are joined: columns of all of them, and of a number's types the wider one."""
    try:
        shown = tables(records, with_position=with_position)
        return pa.concat_tables(shown, promote_options="permissive") if shown else pa.table({})
    except pa.ArrowException as error:
        raise DataError(f"records of one batch have schemas that do not fit together: {error}") from error


def _table(schema: Schema | None, records: list[SinkRecord], with_position: bool) -> pa.Table:
    table = _values(schema, [record.value for record in records])
    if with_position:
        columns: tuple[list[Any], ...] = (
            [record.topic for record in records],
            [(record.original or (None, record.partition))[1] for record in records],
            [record.offset for record in records],
            [record.timestamp_ms for record in records],
        )
        for (name, kind), column in zip(_POSITION, columns, strict=True):
            table = table.append_column(name, pa.array(column, kind))
    return table


def _values(schema: Schema | None, values: list[Any]) -> pa.Table:
    try:
        if schema is None:
            rows = (
                values
                if all(isinstance(value, dict) for value in values)
                else [{"value": value} for value in values]
            )
            return pa.Table.from_pylist(rows)
        if schema.type != schemas.STRUCT:
            schema, values = schemas.struct(None, {"value": schema}), [{"value": value} for value in values]
        arrays, fields = [], []
        for field in schema.fields:
            kind, convert = arrow_type(field.schema)
            column = [value.get(field.name) for value in values]
            shown = (
                column if convert is None else [None if each is None else convert(each) for each in column]
            )
            arrays.append(pa.array(shown, kind))
            fields.append(pa.field(field.name, kind, field.schema.optional))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    except (pa.ArrowException, OverflowError) as error:
        raise DataError(f"records do not fit into columns: {error}") from error


def arrow_type(schema: Schema) -> tuple[Any, Callable[[Any], Any] | None]:
    """Arrow's type, and what makes a value of it; None if it is one already."""
    match schema.type:
        case schemas.STRUCT if schema.name not in kinds.LOGICAL_NAMES:
            inner = [
                (field.name, *arrow_type(field.schema), field.schema.optional) for field in schema.fields
            ]
            kind = pa.struct([pa.field(name, each, optional) for name, each, _, optional in inner])
            makers = {name: convert for name, _, convert, _ in inner if convert}
            return kind, (lambda value: _struct(value, makers)) if makers else None
        case schemas.ARRAY if schema.values is not None:
            element, convert = arrow_type(schema.values)
            return pa.list_(element), _each(convert) if convert else None
        case schemas.MAP if schema.keys is not None and schema.values is not None:
            key, value = arrow_type(schema.keys), arrow_type(schema.values)
            return pa.map_(key[0], value[0]), _pairs(key[1], value[1])
    column = kinds.column("", schema)
    if column.kind != kinds.DECIMAL:
        return _ARROW[column.kind], column.convert
    scale = (schema.parameters or {}).get(schemas.SCALE)
    if scale is None:
        return pa.string(), lambda value: str(column.convert(value) if column.convert else value)
    digits = column.precision[0] if column.precision else _DIGITS_MAX
    return pa.decimal128(min(digits, _DIGITS_MAX), int(scale)), column.convert


def _struct(value: dict[str, Any], makers: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    return {
        name: makers[name](each) if name in makers and each is not None else each
        for name, each in value.items()
    }


def _each(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: [None if each is None else convert(each) for each in value]


def _pairs(key: Callable[[Any], Any] | None, value: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def pairs(items: dict[Any, Any]) -> list[tuple[Any, Any]]:
        return [
            (key(name) if key else name, value(each) if value and each is not None else each)
            for name, each in items.items()
        ]

    return pairs
