"""The columns of a record in Spark: their types, their selection, and values decoded by a schema."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.spark.json_values import JsonValues
from ottla.spark.options import ReadOptions

_TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
Shape = Callable[[pa.RecordBatch], pa.RecordBatch]


def schema_text(options: ReadOptions) -> str:
    """The schema in Spark's own words; Spark itself parses it."""
    types = {**_TYPES, **({"value": options.value_schema} if options.value_schema else {})}
    return ", ".join(f"`{name}` {types[name]}" for name in options.columns)


def shape(options: ReadOptions, schema: Any) -> Shape:
    """From what the client decodes to exactly what Spark expects."""
    columns = list(options.columns)
    values: JsonValues | None = None
    if options.value_schema and "value" in columns:
        from pyspark.sql.pandas.types import to_arrow_type

        kind = to_arrow_type(schema["value"].dataType, timezone="UTC")
        values = JsonValues(kind, fail_fast=options.fail_fast)

    def shaped(rows: pa.RecordBatch) -> pa.RecordBatch:
        picked = rows.select(columns)
        if values is None:
            return picked
        decoded = values.decode(rows)
        return picked.set_column(columns.index("value"), pa.field("value", decoded.type), decoded)

    return shaped
