"""JSON values to a struct column, all at once: Arrow's reader does the work, no value becomes an object."""

import json
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.json as arrow_json  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.spark.errors import BadValue

_BLOCK_BYTES_MAX = 1 << 30
_SPACE = " \t\r\n"


class JsonValues:
    """A value that is no JSON object of these fields is null, or with `fail_fast` an error that names it."""

    def __init__(self, kind: pa.StructType, *, fail_fast: bool = False) -> None:
        self._kind = kind
        self._fail_fast = fail_fast
        self._fields = [kind.field(i) for i in range(kind.num_fields)]
        self._parse = arrow_json.ParseOptions(
            explicit_schema=pa.schema(self._fields), unexpected_field_behavior="ignore"
        )

    def decode(self, rows: pa.RecordBatch) -> pa.StructArray:
        return pa.concat_arrays(self._decode(rows)) if rows.num_rows else pa.array([], self._kind)

    def _decode(self, rows: pa.RecordBatch) -> list[pa.Array]:
        try:
            return [self._at_once(rows.column("value"))]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if rows.num_rows == 1:
                return [self._bad(rows, error)]
            # One bad value spoils the whole text: halve until it stands alone.
            middle = rows.num_rows // 2
            return self._decode(rows.slice(0, middle)) + self._decode(rows.slice(middle))

    def _at_once(self, values: pa.Array) -> pa.Array:
        text = values.cast(pa.string())  # refuses what is no UTF-8
        trimmed = pc.ascii_trim(text, characters=_SPACE)
        # Rows that begin and end as objects cannot run into each other: after `}` only `{` may follow, and that
        # only between objects. Arrow's reader also ends the process when all it finds is `null`.
        objects = pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}")).fill_null(False)
        if self._fail_fast and not pc.all(pc.or_(objects, values.is_null())).as_py():
            raise pa.ArrowInvalid("not a JSON object")
        # Line breaks are only legal between tokens, where a space does as well.
        lines = pc.replace_substring(pc.if_else(objects, trimmed, "{}"), "\n", " ")
        joined = pc.binary_join(pa.array([lines], pa.list_(pa.string())), "\n")[0].as_buffer()
        table = arrow_json.read_json(
            pa.BufferReader(joined),
            read_options=arrow_json.ReadOptions(
                use_threads=False, block_size=min(_BLOCK_BYTES_MAX, joined.size + 1)
            ),
            parse_options=self._parse,
        )
        if table.num_rows != len(values):
            raise pa.ArrowInvalid("more than one object")
        columns = [self._column(table, field) for field in self._fields]
        return pa.StructArray.from_arrays(columns, fields=self._fields, mask=pc.invert(objects))

    def _column(self, table: pa.Table, field: pa.Field) -> pa.Array:
        column = table.column(field.name).combine_chunks()
        return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column

    def _bad(self, rows: pa.RecordBatch, error: Exception) -> pa.Array:
        if self._fail_fast:
            raise BadValue(f"{_where(rows)}: the value is not as valueSchema says: {_reason(rows, error)}")
        return pa.nulls(1, self._kind)


def _where(rows: pa.RecordBatch) -> str:
    place = {name: rows.column(name)[0].as_py() for name in ("topic", "partition", "offset")}
    return f"{place['topic']}-{place['partition']}, offset {place['offset']}"


def _reason(rows: pa.RecordBatch, error: Exception) -> str:
    value: Any = rows.column("value")[0].as_py()
    try:
        json.loads(value)
    except ValueError as fault:
        return str(fault)
    return str(error)
