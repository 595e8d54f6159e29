"""Transforms of whole columns: one that only moves values is applied once, to a record that holds columns.

Such a transform never looks at a value, so it does with a column what it would do with each of its values. Values that
it adds (a static field, the topic's name) are the same for all records.
"""

from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect.arrow import schema_of
from ottla.connect.errors import DataError
from ottla.connect.schema import Schema
from ottla.connect.spi import SourceRecord


class Column(NamedTuple):
    """The values of one field in all records of a batch."""

    array: Any

    def masked(self, replacement: str | None) -> "Column":
        """As MaskField does with each value; nulls stay. Types that it would look at more closely are refused."""
        kind = self.array.type
        if pa.types.is_string(kind):
            filling: Any = replacement or ""
        elif replacement is None and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            filling = pa.scalar(0).cast(kind)
        else:
            raise NotAsColumns(f"a field of type {kind}")
        return Column(pc.if_else(self.array.is_null(), pa.scalar(None, kind), filling))


class NotAsColumns(DataError):
    """The records of the batch must be transformed one by one."""


def record_of(rows: pa.RecordBatch, topic: str) -> SourceRecord:
    """All records of a batch at once. A time or a partition of its own is not the same for all of them."""
    if not set(rows.schema.names) <= {"key", "value"}:
        raise NotAsColumns("records with a time or a partition")
    value, value_schema = _side(rows, "value")
    key, key_schema = _side(rows, "key") if "key" in rows.schema.names else (None, None)
    return SourceRecord(topic, value, value_schema, key, key_schema)


def _side(rows: pa.RecordBatch, name: str) -> tuple[Any, Schema | None]:
    array = rows.column(name)
    if array.null_count:
        raise NotAsColumns(f"a {name} that is null in some records")
    return _tree(array), schema_of(array.type, optional=False)


def _tree(array: Any) -> Any:
    """A struct as a dict of its fields. One that is missing in some records stays a column."""
    if not pa.types.is_struct(array.type) or array.null_count:
        return Column(array)
    return {array.type.field(i).name: _tree(column) for i, column in enumerate(array.flatten())}
