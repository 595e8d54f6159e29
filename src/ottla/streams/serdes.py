"""Bytes to values and back, for whole columns. A column is an Arrow array, or a list of Python values."""

import json as json_text
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.windows import split_window_keys, window_keys
from ottla.streams.errors import BadTopology, BadValue

Column = Any  # pa.Array or list
_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "double": pa.float64(),
    "float": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}


class Serde:
    """Nulls are nulls on both sides."""

    name = "bytes"

    def decode(self, cells: pa.Array) -> Column:
        return cells

    def encode(self, column: Column) -> pa.Array:
        return self._array(column, pa.binary())

    def __repr__(self) -> str:
        return self.name

    def _array(self, column: Column, kind: pa.DataType) -> pa.Array:
        try:
            if isinstance(column, pa.Array):
                return column if column.type == kind else column.cast(kind)
            return pa.array(column, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise BadValue(f"a value does not fit serde {self.name}: {error}") from error


class StringSerde(Serde):
    name = "string"

    def decode(self, cells: pa.Array) -> Column:
        return self._array(cells, pa.string())

    def encode(self, column: Column) -> pa.Array:
        return self._array(column, pa.string()).view(pa.binary())


class NumberSerde(Serde):
    """Big-endian, as Java's serializers write numbers."""

    def __init__(self, name: str, kind: pa.DataType, layout: str) -> None:
        self.name, self._kind, self._layout = name, kind, np.dtype(layout)

    def decode(self, cells: pa.Array) -> Column:
        size = self._layout.itemsize
        wrong = pc.any(pc.not_equal(pc.binary_length(cells), size)).as_py()
        if wrong:
            raise BadValue(f"a value of serde {self.name} has {size} bytes; these are of another kind")
        filled = pc.fill_null(cells, bytes(size))
        data = b"".join(filled.to_pylist())
        numbers = pa.array(np.frombuffer(data, self._layout).astype(self._layout.newbyteorder("=")))
        return pc.if_else(cells.is_valid(), numbers, pa.scalar(None, self._kind))

    def encode(self, column: Column) -> pa.Array:
        if self._layout.kind == "i" and not isinstance(column, pa.Array):
            for value in column:  # Arrow would cut off what is behind the point
                if isinstance(value, float) and value != int(value):
                    raise BadValue(f"a value does not fit serde {self.name}: {value} is not a whole number")
        numbers = self._array(column, self._kind)
        data = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(self._layout).tobytes()
        size = self._layout.itemsize
        cells = pa.Array.from_buffers(pa.binary(size), len(numbers), [None, pa.py_buffer(data)]).cast(
            pa.binary()
        )
        return pc.if_else(numbers.is_valid(), cells, pa.scalar(None, pa.binary()))


class JsonSerde(Serde):
    """Any JSON as Python values; with a schema ("pulse int, ward string") objects as Arrow structs, far quicker."""

    name = "json"

    def __init__(self, kind: pa.StructType | None = None) -> None:
        self._kind = kind

    def __call__(self, schema: str) -> "JsonSerde":
        return JsonSerde(pa.struct([_field(text) for text in schema.split(",")]))

    def decode(self, cells: pa.Array) -> Column:
        if self._kind is not None:
            from ottla.spark.json_values import JsonValues  # its package takes a tenth of a second to import

            rows = pa.RecordBatch.from_arrays([cells], names=["value"])
            return JsonValues(self._kind).decode(rows)
        try:
            return [None if cell is None else json_text.loads(cell) for cell in cells.to_pylist()]
        except ValueError as error:
            raise BadValue(f"a value is not JSON: {error}") from error

    def encode(self, column: Column) -> pa.Array:
        try:
            return pa.array([_dumped(value) for value in objects(column)], pa.binary())
        except TypeError as error:
            raise BadValue(f"a value cannot be written as JSON: {error}") from error


def _dumped(value: Any) -> bytes | None:
    return (
        None if value is None else json_text.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    )


def _field(text: str) -> pa.Field:
    name, _, kind = text.strip().partition(" ")
    if kind.strip().lower() not in _TYPES:
        raise BadTopology(f"json schema {text.strip()!r}: a field is a name and one of {', '.join(_TYPES)}")
    return pa.field(name, _TYPES[kind.strip().lower()])


class WindowedSerde(Serde):
    """Pairs of a key and its window's start, in the bytes of Kafka Streams' TimeWindowedSerializer."""

    def __init__(self, inner: Serde) -> None:
        self.name, self._inner = f"windowed {inner.name}", inner

    def decode(self, cells: pa.Array) -> Column:
        keys, starts = split_window_keys(cells)
        return list(zip(objects(self._inner.decode(keys)), starts.tolist(), strict=True))

    def encode(self, column: Column) -> pa.Array:
        keys, starts = zip(*column, strict=True) if len(column) else ((), ())
        return window_keys(self._inner.encode(list(keys)), np.array(starts, np.int64))


bytes_ = Serde()
string = StringSerde()
int32 = NumberSerde("int32", pa.int32(), ">i4")
int64 = NumberSerde("int64", pa.int64(), ">i8")
float64 = NumberSerde("float64", pa.float64(), ">f8")
json = JsonSerde()


def objects(column: Column) -> list[Any]:
    """As Python values."""
    return column.to_pylist() if isinstance(column, pa.Array) else column  # type: ignore[no-any-return]


def arrow(column: Column) -> pa.Array:
    """As an Arrow array; its type is found from the values."""
    return column if isinstance(column, pa.Array) else pa.array(column)


def pick(column: Column, places: Any) -> Column:
    """The values at these places, in this order."""
    if isinstance(column, pa.Array):
        return column.take(pa.array(places, pa.int64()))
    return [column[place] for place in places]


def milliseconds(stamps: pa.Array) -> Any:
    """Of a column of timestamps, as numbers. (A cast takes ten times as long as a view.)"""
    return stamps.view(pa.int64()).to_numpy() // 1000


def joined(columns: Sequence[Column]) -> Column:
    """One after the other."""
    if all(isinstance(column, pa.Array) for column in columns) and len({str(c.type) for c in columns}) == 1:
        return pa.concat_arrays(list(columns))
    return [value for column in columns for value in objects(column)]
