"""Key bytes to row numbers, and heaps of entries of variable size, over arrays that may be mapped files."""

import os
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state import kernel
from ottla.pipelines.state.arrays import Array, Arrays, Ints, Truths

SLOT = np.dtype([("hash", np.uint32), ("row", np.uint32)])
_SEED, _ROWS_USED, _LIVE, _FREE_ROW, _KEYS_USED, _KEYS_GARBAGE, _VALUES_USED, _VALUES_GARBAGE = range(8)
_COUNTERS = 16
_ROWS_FIRST = 1024
_ROWS_LIMIT = 0xFFFF_FFFE
_HEAP_FIRST = 32 * _ROWS_FIRST
_LENGTH_BYTES = 4
_ARROW_BYTES_MAX = 0x7FFF_FFFF


class Full(Exception):
    """No more keys than the limit."""


class Table:
    """Rows are numbered from 0; a deleted row's number is given to a later key. Deleted keys leave no trace."""

    def __init__(self, arrays: Arrays, functions: Any = kernel) -> None:
        self._arrays, self._functions = arrays, functions
        self.counters: Ints = arrays.open("counters", np.dtype(np.int64), _COUNTERS)
        self._slots = arrays.open("slots", SLOT, 2 * _ROWS_FIRST)
        self._offsets: Ints = arrays.open("key-offsets", np.dtype(np.int64), _ROWS_FIRST)
        self._heap = arrays.open("keys", np.dtype(np.uint8), _HEAP_FIRST)
        if not self.counters[_SEED]:  # a secret: nobody can choose keys that collide
            self.counters[_SEED] = (int.from_bytes(os.urandom(8)) >> 2) + 1

    def __len__(self) -> int:
        return int(self.counters[_LIVE])

    @property
    def rows_used(self) -> int:
        """All rows are below this; some of them may be free."""
        return int(self.counters[_ROWS_USED])

    def alive(self) -> Truths:
        return self._offsets[: self.rows_used] > 0

    def are_alive(self, rows: Ints) -> Truths:
        """Rows beyond all that are used are not."""
        if len(rows) and rows.min() >= 0 and rows.max() < self.rows_used:
            return self._offsets[rows] > 0  # nearly always, and quicker
        within = (rows >= 0) & (rows < self.rows_used)
        return within & (self._offsets[np.where(within, rows, 0)] > 0)

    def find(self, keys: Any) -> Ints:
        """-1 for a key that has no row."""
        offsets, data, start = cells(keys)
        rows = np.empty(len(keys), np.int64)
        self._functions.find(*self._parts(), rows, offsets, data, start, len(keys))
        return rows

    def assign(self, keys: Any, limit: int | None = None) -> tuple[Ints, Ints]:
        """The rows of all keys, and those of them that are new."""
        offsets, data, start = cells(keys)
        most = _ROWS_LIMIT if limit is None else limit
        rows, done, created = np.empty(len(keys), np.int64), 0, []
        new = np.empty(len(keys), np.int64)
        while True:
            done, creations = self._functions.assign(
                *self._parts(), rows, new, offsets, data, start, done, len(keys), most
            )
            created.append(new[:creations])
            if done == len(keys):
                return rows, np.concatenate(created) if len(created) > 1 else created[0]
            if len(self) >= most:
                raise Full
            new = np.empty(len(keys) - done, np.int64)
            self._make_room(keys[done].as_buffer().size)

    def keys(self, rows: Ints) -> Any:
        return gather(self._functions, self._offsets, self._heap, rows)

    def delete(self, rows: Ints) -> int:
        """How many rows were alive."""
        return int(self._functions.delete(*self._parts(), rows))

    def _parts(self) -> tuple[Array, Array, Array, Array]:
        return self.counters, self._slots, self._offsets, self._heap

    def _make_room(self, key_bytes: int) -> None:
        """For one more key in whatever is full."""
        if (len(self) + 1) * 8 > len(self._slots) * 5:
            old = self._slots.copy()
            self._slots = self._arrays.grow("slots", 2 * len(old))
            self._slots[:] = 0
            self._functions.rehash(self._slots, old)
        if not self.counters[_FREE_ROW] and self.rows_used == len(self._offsets):
            self._offsets = self._arrays.grow("key-offsets", 2 * len(self._offsets))
        counters = self.counters[_KEYS_USED : _KEYS_GARBAGE + 1]
        if counters[0] + _LENGTH_BYTES + key_bytes > len(self._heap):
            self._heap = heap_with_room(
                self._functions, self._arrays, "keys", counters, self._offsets, self._heap, key_bytes
            )


class Values:
    """An entry of variable size for each row of a table; empty until it is put."""

    def __init__(self, arrays: Arrays, counters: Ints, functions: Any = kernel) -> None:
        self._arrays, self._functions = arrays, functions
        self._counters = counters[_VALUES_USED : _VALUES_GARBAGE + 1]
        self._offsets: Ints = arrays.open("value-offsets", np.dtype(np.int64), _ROWS_FIRST)
        self._heap = arrays.open("values", np.dtype(np.uint8), _HEAP_FIRST)

    def grow(self, rows: int) -> None:
        if rows > len(self._offsets):
            self._offsets = self._arrays.grow("value-offsets", max(rows, 2 * len(self._offsets)))

    def get(self, rows: Ints) -> Any:
        return gather(self._functions, self._offsets, self._heap, rows)

    def put(self, rows: Ints, values: Any) -> None:
        """Of a row that is there several times the last value stays."""
        offsets, data, start = cells(values)
        done = 0
        while True:
            done = self._functions.put(
                self._counters, self._offsets, self._heap, rows, offsets, data, start, done, len(values)
            )
            if done == len(values):
                return
            self._heap = heap_with_room(
                self._functions,
                self._arrays,
                "values",
                self._counters,
                self._offsets,
                self._heap,
                values[done].as_buffer().size,
            )

    def delete(self, rows: Ints) -> None:
        """`rows` has no row twice."""
        with_entry = rows[self._offsets[rows] > 0]
        size = self._functions.measure(self._offsets, self._heap, with_entry)
        self._counters[1] += size + _LENGTH_BYTES * len(with_entry)
        self._offsets[with_entry] = 0


def gather(functions: Any, offsets: Ints, heap: Array, rows: Ints) -> Any:
    """Entries of rows as a binary array."""
    rows = np.ascontiguousarray(rows, np.int64)
    size = functions.measure(offsets, heap, rows)
    if size > _ARROW_BYTES_MAX:
        raise OverflowError(f"{len(rows)} entries have {size} bytes; ask for fewer rows at once")
    edges, data = np.empty(len(rows) + 1, np.int32), np.empty(size, np.uint8)
    functions.gather(edges, data, offsets, heap, rows)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(edges), pa.py_buffer(data)])


def heap_with_room(
    functions: Any, arrays: Arrays, name: str, counters: Ints, offsets: Ints, heap: Array, size: int
) -> Array:
    """Without its garbage if that is half of it, else twice as large."""
    used, garbage = counters.tolist()
    if 2 * garbage >= used:
        counters[0] = functions.pack(offsets, heap, heap[:used].copy(), np.flatnonzero(offsets > 0))
        counters[1] = 0
    needed = int(counters[0]) + _LENGTH_BYTES + size
    return arrays.grow(name, max(2 * len(heap), needed)) if needed > len(heap) else heap


def cells(array: Any) -> tuple[Any, Any, int]:
    """Offsets, bytes and first cell of a binary array."""
    _, offsets, data = array.buffers()
    if not len(array):
        return np.zeros(1, np.int32), b"", 0
    return offsets, b"" if data is None else data, array.offset


def split(array: Any, size: int, *, at_end: bool = False, functions: Any = kernel) -> tuple[Array, Any]:
    """`size` bytes from the front or the end of each cell, one after the other, and a binary array of the rest."""
    offsets, data, start = cells(array)
    edges = np.frombuffer(offsets, np.int32)
    rest_bytes = int(edges[start + len(array)]) - int(edges[start]) - size * len(array)
    if rest_bytes < 0:
        raise ValueError(f"{len(array)} cells of {size} bytes or more were expected, and they are shorter")
    fixed, out = np.empty(size * len(array), np.uint8), np.empty(rest_bytes, np.uint8)
    out_offsets = np.empty(len(array) + 1, np.int32)
    functions.split(fixed, out_offsets, out, offsets, data, start, len(array), size, at_end)
    rest = pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(out_offsets), pa.py_buffer(out)]
    )
    return fixed, rest
