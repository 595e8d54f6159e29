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


def parquet_table(records: Sequence[SinkRecord], *, with_position: bool) -> pa.Table:
    """Objects without fields are null: Parquet has no type for them."""
    table = one_table(records, with_position=with_position)
    for index, field in enumerate(table.schema):
        known = _with_fields(field)
        if known.type != field.type:
            cells = [_without_empty(cell, field.type) for cell in table.column(index).to_pylist()]
            table = table.set_column(index, known, pa.array(cells, known.type))
    return table


def _with_fields(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pa.field(field.name, pa.null())
        return field.with_type(pa.struct([_with_fields(part) for part in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_with_fields(kind.value_field)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(kind.key_field, _with_fields(kind.item_field)))
    return field


def _without_empty(cell: Any, kind: pa.DataType) -> Any:
    if cell is None:
        return None
    if pa.types.is_struct(kind):
        filled = {part.name: _without_empty(cell[part.name], part.type) for part in kind}
        return filled or None
    if pa.types.is_list(kind):
        return [_without_empty(item, kind.value_type) for item in cell]
    if pa.types.is_map(kind):
        return [(key, _without_empty(item, kind.item_type)) for key, item in cell]
    return cell


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
            # All their fields: from_pylist would take those of the first row alone.
            names = dict.fromkeys(name for row in rows for name in row)
            return pa.table({name: [row.get(name) for row in rows] for name in names})
        if schema.type != schemas.STRUCT:
            schema, values = schemas.struct(None, {"value": schema}), [{"value": value} for value in values]
        arrays, fields = [], []
        for field in schema.fields:
            kind, convert = arrow_type(field.schema)
            column = [value.get(field.name) for value in values]
            shown = (
                column if convert is None else [None if cell is None else convert(cell) for cell in column]
            )
            arrays.append(pa.array(shown, kind))
            fields.append(pa.field(field.name, kind, field.schema.optional))
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    except (pa.ArrowException, ValueError, ArithmeticError) as error:
        raise DataError(f"records do not fit into columns: {error}") from error


def arrow_type(schema: Schema) -> tuple[Any, Callable[[Any], Any] | None]:
    """Arrow's type, and what makes a value of it; None if it is one already."""
    match schema.type:
        case schemas.STRUCT if schema.name not in kinds.LOGICAL_NAMES:
            inner = [
                (field.name, *arrow_type(field.schema), field.schema.optional) for field in schema.fields
            ]
            kind = pa.struct([pa.field(name, type_, optional) for name, type_, _, optional in inner])
            makers = {name: convert for name, _, convert, _ in inner if convert}
            return kind, (lambda value: _struct(value, makers)) if makers else None
        case schemas.ARRAY if schema.values is not None:
            element, convert = arrow_type(schema.values)
            return pa.list_(element), _of_items(convert) if convert else None
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
        name: makers[name](item) if name in makers and item is not None else item
        for name, item in value.items()
    }


def _of_items(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: [None if item is None else convert(item) for item in value]


def _pairs(key: Callable[[Any], Any] | None, value: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    def pairs(items: dict[Any, Any]) -> list[tuple[Any, Any]]:
        return [
            (key(name) if key else name, value(item) if value and item is not None else item)
            for name, item in items.items()
        ]

    return pairs
