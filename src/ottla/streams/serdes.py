"""Bytes to values and back, for whole columns. A column is an Arrow array, or a list of Python values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import arrow_cells, arrow_column, known_cells, numpy_column, taken
from ottla.pipelines.state.store import fixed_cells
from ottla.streams.errors import BadValue

Column = Any  # pa.Array or list


class Windowed(NamedTuple):
    """A key and a window of it, in milliseconds. The end of a session is the time of its last record."""

    key: Any
    start: int
    end: int


_WINDOWED = ("windowed key", "start", "end")


def windowed(keys: Column, starts: Any, ends: Any) -> Column:
    """Keys with windows, as a column."""
    if isinstance(keys, pa.Array):
        return pa.StructArray.from_arrays([keys, *map(arrow_column, (starts, ends))], names=list(_WINDOWED))
    bounds = (np.asarray(starts).tolist(), np.asarray(ends).tolist())
    return [Windowed(*cells) for cells in zip(keys, *bounds, strict=True)]


def is_windowed(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and tuple(field.name for field in kind) == _WINDOWED


class Serde:
    """Nulls are nulls on both sides."""

    name = "bytes"
    kind: Any = None  # the Arrow type of decoded columns; None if they are lists of Python values

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
            return arrow_cells(column, kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            raise BadValue(f"a value does not fit serde {self.name}: {error}") from error


class StringSerde(Serde):
    name = "string"
    kind = pa.string()

    def decode(self, cells: pa.Array) -> Column:
        """A view that is checked: of a few cells it takes an eighth of the time of a cast."""
        texts = cells.view(pa.string())
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise BadValue(f"a value does not fit serde {self.name}: {error}") from error
        return texts

    def encode(self, column: Column) -> pa.Array:
        return self._array(column, pa.string()).view(pa.binary())


class NumberSerde(Serde):
    """Big-endian, as Java's serializers write numbers."""

    def __init__(self, name: str, kind: pa.DataType, layout: str) -> None:
        self.name, self.kind, self._layout = name, kind, np.dtype(layout)
        self._native = self._layout.newbyteorder("=")

    def decode(self, cells: pa.Array) -> Column:
        if not cells.null_count:
            return arrow_column(self._numbers(cells), self.kind)
        known = known_cells(cells)
        numbers = np.zeros(len(cells), self._native)
        numbers[known] = self._numbers(cells.drop_null())
        return arrow_column(numbers, self.kind, known)

    def encode(self, column: Column) -> pa.Array:
        if self._layout.kind == "i" and not isinstance(column, pa.Array):
            self._refuse_fractions(column)
        numbers, size = self._array(column, self.kind), self._layout.itemsize
        if not numbers.null_count:
            cells = numpy_column(numbers).astype(self._layout)
            return fixed_cells(cells.view(np.uint8), len(cells), size)
        known = known_cells(numbers)
        cells = np.frombuffer(numbers.buffers()[1], self._native, len(known), size * numbers.offset)
        filled = fixed_cells(cells[known].astype(self._layout).view(np.uint8), int(known.sum()), size)
        return filled.take(arrow_column(np.cumsum(known) - 1, known=known))

    def _refuse_fractions(self, column: list[Any]) -> None:
        """Arrow would cut off what is behind the point. Nearly always no value is a float, which the types tell."""
        if any(issubclass(kind, float) for kind in set(map(type, column))):
            for value in column:
                if isinstance(value, float) and value != int(value):
                    raise BadValue(f"a value does not fit serde {self.name}: {value} is not a whole number")

    def _numbers(self, cells: pa.Array) -> Any:
        """Of cells without nulls: they lie one behind the other."""
        count, size = len(cells), self._layout.itemsize
        if not count:
            return np.empty(0, self._native)
        _, edges, data = cells.buffers()
        starts = np.frombuffer(edges, np.int32, count + 1, 4 * cells.offset)
        if (np.diff(starts) != size).any():
            raise BadValue(f"a value of serde {self.name} has {size} bytes; these are of another kind")
        return np.frombuffer(data, self._layout, count, int(starts[0])).astype(self._native)


bytes_ = Serde()
string = StringSerde()
int32 = NumberSerde("int32", pa.int32(), ">i4")
int64 = NumberSerde("int64", pa.int64(), ">i8")
float64 = NumberSerde("float64", pa.float64(), ">f8")


def objects(column: Column) -> list[Any]:
    """As Python values."""
    if not isinstance(column, pa.Array):
        return column  # type: ignore[no-any-return]
    if is_windowed(column.type):
        keys = objects(column.field(0))
        return [
            Windowed(*cells)
            for cells in zip(keys, *(column.field(i).to_pylist() for i in (1, 2)), strict=True)
        ]
    return column.to_pylist()  # type: ignore[no-any-return]


def arrow(column: Column) -> pa.Array:
    """As an Arrow array; its type is found from the values."""
    return column if isinstance(column, pa.Array) else pa.array(column)


def pick(column: Column, places: Any) -> Column:
    """The values at these places, in this order."""
    if isinstance(column, pa.Array):
        return taken(column, np.asarray(places, np.int64))
    return [column[place] for place in places]


def milliseconds(stamps: pa.Array) -> Any:
    """Of a column of timestamps, as numbers. (A cast takes ten times as long.)"""
    if not len(stamps):
        return np.empty(0, np.int64)
    return np.frombuffer(stamps.buffers()[1], np.int64, len(stamps), 8 * stamps.offset) // 1000


def joined(columns: Sequence[Column]) -> Column:
    """One after the other."""
    if all(isinstance(column, pa.Array) for column in columns) and len({str(c.type) for c in columns}) == 1:
        return pa.concat_arrays(list(columns))
    return [value for column in columns for value in objects(column)]
