"""Where a store's arrays live: named, of one item type each, growing. Here in memory; `files` has mapped ones."""

import contextlib
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Ints = npt.NDArray[np.int64]
    Truths = npt.NDArray[np.bool_]
else:
    Array = Ints = Truths = np.ndarray
PAGE_BYTES = 4096
_FEW = 1024  # with more, `pa.array` is the quicker one
_VERY_FEW = 32  # for these no function of Arrow is worth an import of pyarrow.compute
_DTYPES: dict[Any, np.dtype[Any]] = {
    pa.int32(): np.dtype(np.int32),
    pa.int64(): np.dtype(np.int64),
    pa.float64(): np.dtype(np.float64),
}
_PLAIN = {pa.binary(): bytes, pa.string(): str, pa.int32(): int, pa.int64(): int, pa.float64(): float}


class Arrays(Protocol):
    """The arrays of one store. New items are zero. A view of an array is good until that array grows."""

    def open(self, name: str, dtype: np.dtype[Any], rows: int) -> Array:
        """The array as it is, or a new one of at least `rows` items."""

    def grow(self, name: str, rows: int) -> Array:
        """The same items and zeros behind them, at least `rows` together."""

    @property
    def nbytes(self) -> int: ...


class MemoryArrays:
    """In this process alone."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def open(self, name: str, dtype: np.dtype[Any], rows: int) -> Array:
        if name not in self._arrays:
            self._arrays[name] = _zeros(dtype, rows)
        return self._arrays[name]

    def grow(self, name: str, rows: int) -> Array:
        old = self._arrays[name]
        grown = np.zeros((rows, *old.shape[1:]), old.dtype)
        grown[: len(old)] = old
        self._arrays[name] = grown
        return grown

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())


def arrow_column(values: Array, kind: Any = None, known: Array | None = None) -> Any:
    """Numbers as an Arrow array, without a copy, or truth values; null where `known` is false.

    `pa.array` asks pandas what it was given: for a few rows that takes ten times as long, and the first call imports
    pandas, which takes longer than everything else before the first record."""
    cells = np.ascontiguousarray(values)
    arrow_type = pa.from_numpy_dtype(cells.dtype) if kind is None else kind
    data = _bits(cells) if cells.dtype == np.bool_ else pa.py_buffer(cells)
    return pa.Array.from_buffers(arrow_type, len(cells), [None if known is None else _bits(known), data])


def arrow_cells(values: Sequence[Any], kind: Any) -> Any:
    """What `pa.array` makes of Python values, without pandas if they are few and plain (see `arrow_column`)."""
    plain = _PLAIN.get(kind) if len(values) <= _FEW else None
    if plain is not None and all(value is None or type(value) is plain for value in values):
        with contextlib.suppress(
            OverflowError, UnicodeEncodeError
        ):  # `pa.array` says what is wrong with them
            return _laid_out(values, kind, plain)
    return pa.array(values, kind)


def numpy_column(column: Any) -> Array:
    """Numbers without nulls as a numpy array, without a copy. (`to_numpy` imports pandas, see `arrow_column`.)"""
    dtype = _DTYPES.get(column.type)
    if dtype is None or column.null_count:
        return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    if not len(column):
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), dtype.itemsize * column.offset)


def codes_of(cells: Any) -> tuple[Array, Any]:
    """For bytes without nulls: a number for each distinct cell, and the cells behind the numbers."""
    if len(cells) > _VERY_FEW:
        encoded = cells.dictionary_encode()
        return numpy_column(encoded.indices), encoded.dictionary
    numbers: dict[bytes, int] = {}
    codes = [numbers.setdefault(cell, len(numbers)) for cell in cells.to_pylist()]
    return np.array(codes, np.int32), arrow_cells(list(numbers), cells.type)


def taken(column: Any, places: Array, known: Array | None = None) -> Any:
    """The cells of an Arrow array at these places; null where `known` is false."""
    if len(column) <= _VERY_FEW >= len(places) and column.type in _PLAIN:
        cells = column.to_pylist()
        wanted = [True] * len(places) if known is None else known.tolist()
        picked = [
            cells[place] if is_known else None
            for place, is_known in zip(places.tolist(), wanted, strict=True)
        ]
        return arrow_cells(picked, column.type)
    return column.take(arrow_column(places, known=known))


def known_cells(column: Any) -> Array:
    """Which cells of an Arrow array are not null."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    bits, first = column.buffers()[0], column.offset % 8
    if bits is None:  # an array of nothing but nulls, without a type
        return np.zeros(len(column), np.bool_)
    octets = np.frombuffer(bits, np.uint8, offset=column.offset // 8)
    return np.unpackbits(octets, count=first + len(column), bitorder="little")[first:].view(np.bool_)


def _laid_out(values: Sequence[Any], kind: Any, plain: type) -> Any:
    known = [value is not None for value in values]
    valid = None if all(known) else np.array(known)
    if plain in (int, float):
        numbers = [0 if value is None else value for value in values]
        return arrow_column(np.array(numbers, _DTYPES[kind]), kind, valid)
    cells = [b"" if value is None else value.encode() if plain is str else value for value in values]
    edges = np.array([0, *accumulate(map(len, cells))], np.int32)
    buffers = [None if valid is None else _bits(valid), pa.py_buffer(edges), pa.py_buffer(b"".join(cells))]
    return pa.Array.from_buffers(kind, len(cells), buffers)


def _bits(truth: Array) -> Any:
    return pa.py_buffer(np.packbits(truth, bitorder="little"))


def _zeros(dtype: np.dtype[Any], rows: int) -> Array:
    base, shape = dtype.base, dtype.shape  # a vector column is an array of two dimensions
    return np.zeros((rows, *shape), base)
