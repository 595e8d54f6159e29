"""What the client has decoded, as Spark expects it: the selected columns, and values decoded by a schema."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.spark.json_values import JsonValues
from ottla.spark.options import ReadOptions, Registered

if TYPE_CHECKING:
    from ottla.spark.registry_values import RegistryValues

Shape = Callable[[pa.RecordBatch], pa.RecordBatch]


def shape(options: ReadOptions, schema: Any) -> Shape:
    """From what the client decodes to exactly what Spark expects."""
    columns = list(options.columns)
    values: JsonValues | RegistryValues | None = None
    if (options.value_schema or options.registered) and "value" in columns:
        from pyspark.sql.pandas.types import to_arrow_type

        kind = to_arrow_type(schema["value"].dataType, timezone="UTC")
        if options.registered is None:
            values = JsonValues(kind, fail_fast=options.fail_fast)
        else:
            values = _registered(options.registered, kind, options.fail_fast)

    def shaped(rows: pa.RecordBatch) -> pa.RecordBatch:
        picked = rows.select(columns)
        if "headers" in columns:
            picked = _with(picked, "headers", _null_where_empty(picked.column("headers")))
        if values is None:
            return picked
        if not options.tell_errors:
            return _with(picked, "value", values.decode(rows))
        assert not isinstance(values, JsonValues), "valueMode=column goes with a registry"
        decoded, reasons = values.decode_telling(rows)
        bad = pc.is_valid(reasons)
        raw = pc.if_else(bad, rows.column("value"), pa.scalar(None, pa.binary()))
        picked = _with(picked, "value", decoded)
        return picked.append_column("valueError", reasons).append_column("valueBytes", raw)

    return shaped


def _registered(of: Registered, kind: Any, fail_fast: bool) -> "RegistryValues":
    from ottla.spark.registry_values import RegistryValues, struct_text

    _, reader = struct_text(of)
    return RegistryValues(kind, of.url, of.schema_type, reader, fail_fast=fail_fast, subject=of.subject)


def _with(rows: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return rows.set_column(rows.schema.get_field_index(name), pa.field(name, column.type), column)


def _null_where_empty(headers: pa.ListArray) -> pa.ListArray:
    """A record without headers has null there, as with Spark's own source."""
    empty = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(empty, pa.scalar(None, headers.type), headers)
