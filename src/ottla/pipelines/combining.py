"""Less to send through a repartition topic: rows of one key become one row before they are written.

Only what gives the same result in any order and grouping: sums of integers, least, greatest, counts. A sum of floats
depends on the order, so it is refused.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.errors import BadTopology

_FUNCTIONS = {"sum": "sum", "min": "min", "max": "max", "count": "count"}


def combine(rows: pa.Table | pa.RecordBatch, by: Sequence[str], **columns: tuple[str, str]) -> pa.Table:
    """A row for each value of the columns `by` (a key, a key and a window), with the greatest timestamp.

    `combine(rows, ["key"], n=("value", "count"), total=("cents", "sum"))` gives key, n, total, timestamp.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    wanted: list[tuple[str, str]] = []
    for name, (column, function) in columns.items():
        if function not in _FUNCTIONS:
            raise BadTopology(f"{name}: {function!r} cannot be combined; {', '.join(_FUNCTIONS)} can")
        if function == "sum" and not pa.types.is_integer(table.schema.field(column).type):
            raise BadTopology(f"{name}: a sum of {table.schema.field(column).type} depends on the order")
        wanted.append((column, function))
    grouped = table.group_by(list(by)).aggregate([*wanted, ("timestamp", "max")])
    combined: dict[str, Any] = {name: grouped[name] for name in by}
    for name, (column, function) in columns.items():
        combined[name] = grouped[f"{column}_{function}"]
    return pa.table({**combined, "timestamp": grouped["timestamp_max"]})
