"""Where a store's arrays live: named, of one item type each, growing. Here in memory; `files` has mapped ones."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

Array = npt.NDArray[Any]
PAGE_BYTES = 4096


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


def arrow_column(values: Array, kind: Any = None) -> Any:
    """Numbers as an Arrow array, without a copy. (`pa.array` looks at what it is given with the help of pandas: for a
    few rows that takes ten times as long.)"""
    cells = np.ascontiguousarray(values)
    found = pa.from_numpy_dtype(cells.dtype) if kind is None else kind
    return pa.Array.from_buffers(found, len(cells), [None, pa.py_buffer(cells)])


def _zeros(dtype: np.dtype[Any], rows: int) -> Array:
    base, shape = dtype.base, dtype.shape  # a vector column is an array of two dimensions
    return np.zeros((rows, *shape), base)
