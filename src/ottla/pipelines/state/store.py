"""Rows of columns behind keys, and the changes to them as records of a changelog."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.errors import OttlaError
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state import kernel
from ottla.pipelines.state.arrays import Array, Arrays, Ints, MemoryArrays, Truths, arrow_cells, arrow_column
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.table import Full, Table, Values, split
from ottla.pipelines.state.windows import split_stored_window_keys

_ROWS_FIRST = 1024
_STARTS = "window-starts"
_TIMES = "row-times"
CHANGES = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)


_NO_CHANGES = pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in CHANGES.types], schema=CHANGES)


class StoreFull(OttlaError):
    """A store has as many rows as it may have."""


class BadChange(OttlaError):
    """A record of a changelog does not fit its store."""


class KeyedStore:
    """A row for each key. Columns are numpy arrays, written in place; `touch` tells which rows were written.

    A column is good until `rows` or `apply` creates rows: ask for the rows first, then for the column, because writes
    to an old column may be lost. A row's number is good until the row is deleted.
    """

    def __init__(self, spec: StoreSpec, arrays: Arrays | None = None, functions: Any = kernel) -> None:
        self.spec, self._functions = spec, functions
        self._encoded = spec.encoded
        self._arrays = arrays if arrays is not None else MemoryArrays()
        self._table = Table(self._arrays, functions)
        self._columns: dict[str, Array] = {
            name: self._arrays.open(f"column-{name}", dtype, _ROWS_FIRST) for name, dtype in spec.fixed
        }
        if spec.windowed:
            self._starts: Ints = self._arrays.open(_STARTS, np.dtype(np.int64), _ROWS_FIRST)
        if spec.timestamped:
            self._times: Ints = self._arrays.open(_TIMES, np.dtype(np.int64), _ROWS_FIRST)
        self._values = Values(self._arrays, self._table.counters, functions) if spec.variable else None
        self._touched: list[Ints] = []
        self._deleted: list[Any] = []  # their keys

    def __len__(self) -> int:
        return len(self._table)

    @property
    def nbytes(self) -> int:
        """Of memory or disk, with the room for more."""
        return self._arrays.nbytes

    def __getitem__(self, column: str) -> Array:
        """The column over all rows; those of free rows are zero."""
        return self._columns[column][: self._table.rows_used]

    # -- rows --------------------------------------------------------------------------------------

    def rows(self, keys: Any) -> Ints:
        """The rows of keys. A new key gets a row of zeros, which counts as touched."""
        return self.rows_and_new(keys)[0]

    def rows_and_new(self, keys: Any) -> tuple[Ints, Ints]:
        """The rows of keys, and those of them that are new, each once."""
        rows, created = self._assign(_binary(keys), self.spec.max_rows)
        if len(created):
            self._touched.append(created)
        return rows, created

    def find(self, keys: Any) -> Ints:
        """The rows of keys, -1 for a key that has none."""
        return self._table.find(_binary(keys))

    def keys(self, rows: Any) -> Any:
        picked = self._living(rows)
        return self._table.keys(picked)

    def alive(self) -> Truths:
        """Which of the rows below the highest one are in use."""
        return self._table.alive()

    def values(self, rows: Any) -> Any:
        """The variable column, as a binary array."""
        return self._variable().get(self._living(rows))

    def encoded(self, rows: Any) -> Any:
        """The values of rows as the changelog has them: all columns, as a binary array."""
        return self._encode(self._living(rows))

    def put_values(self, rows: Any, values: Any) -> None:
        """Sets the variable column and touches the rows; of a row that is there twice the last value stays."""
        picked, cells = self._living(rows), _binary(values)
        if len(picked) != len(cells):
            raise ValueError(f"{len(cells)} values for {len(picked)} rows")
        self._variable().put(picked, cells)
        self._touched.append(picked)

    def touch(self, rows: Any) -> Ints:
        """These rows were written; gives them in order, each once."""
        distinct = self._distinct(self._living(rows))
        self._touched.append(distinct)
        return distinct

    def delete(self, rows: Any) -> None:
        """Rows that are there twice, or free already, do no harm."""
        picked = _ints(rows)
        if len(picked) and not (picked.min() >= 0 and picked.max() < self._table.rows_used):
            raise IndexError(f"store {self.spec.name} was asked to delete rows that it never had")
        picked = self._distinct(picked)
        picked = picked[self._table.are_alive(picked)]
        if len(picked):
            self._deleted.append(self._table.keys(picked))
            self._remove(picked)

    @property
    def window_starts(self) -> Ints:
        """Of a windowed store, over all rows."""
        return self._starts[: self._table.rows_used]

    @property
    def times(self) -> Ints:
        """Of a timestamped store, over all rows: milliseconds, written in place like a column; 0 for a new row."""
        return self._times[: self._table.rows_used]

    # -- time --------------------------------------------------------------------------------------

    def expired(self, before_ms: int) -> Ints:
        """Rows whose time is before."""
        return np.flatnonzero(self.alive() & (self._time() < before_ms))

    def between(self, from_ms: int, to_ms: int) -> Ints:
        """Rows with from_ms <= time < to_ms."""
        time = self._time()
        return np.flatnonzero(self.alive() & (time >= from_ms) & (time < to_ms))

    def expire(self, now_ms: int) -> int:
        """Deletes the rows that are older than `ttl_ms`; how many."""
        if self.spec.ttl_ms is None:
            return 0
        rows = self.expired(now_ms - self.spec.ttl_ms)
        self.delete(rows)
        return len(rows)

    # -- the changelog -----------------------------------------------------------------------------

    def changes(self, timestamp_ms: int) -> Any:
        """A record for each key that was changed or deleted since the last call, deletions first.

        Their timestamp is `timestamp_ms`, or the row's own if the store is timestamped.
        """
        if not self._touched and not self._deleted:
            return _NO_CHANGES
        gone, rows = self._gone(), self._changed()
        self._touched, self._deleted = [], []
        keys, values = self._table.keys(rows), self._encode(rows)
        if len(gone):
            keys = pa.concat_arrays([gone, keys])
            values = pa.concat_arrays([pa.nulls(len(gone), pa.binary()), values])
        stamps = np.full(len(keys), timestamp_ms, np.int64)
        if self.spec.timestamped:
            stamps[len(gone) :] = self._times[rows]
        return pa.RecordBatch.from_arrays(
            [keys, values, arrow_column(stamps * 1000, CHANGES.types[2])], schema=CHANGES
        )

    def apply(self, keys: Any, values: Any, times: Ints | None = None) -> None:
        """Records of the changelog in their order: a later one wins, one without value deletes.

        A timestamped store also needs their timestamps, in milliseconds.
        """
        keys, values = _binary(keys), _nullable(values)
        if not len(keys):
            return
        rows, _ = self._assign(keys, None)  # what the changelog holds was within the limits once
        last = np.empty(self._table.rows_used, np.int64)
        last[rows] = np.arange(len(rows))  # of indices that are there twice numpy takes the last
        wins = last[rows] == np.arange(len(rows))
        if values.null_count:
            deletes = wins & values.is_null().to_numpy(zero_copy_only=False)
            wins &= ~deletes
            self._remove(rows[deletes])
        if self.spec.timestamped:
            if times is None:
                raise BadChange(f"store {self.spec.name} is timestamped; its records' timestamps are missing")
            self._times[rows[wins]] = times[wins]
        if not wins.all():
            rows, values = rows[wins], values.filter(arrow_column(wins))
        self._decode(rows, values)

    def forget_changes(self) -> None:
        """The next `changes` begins here."""
        self._touched, self._deleted = [], []

    # -- inside ------------------------------------------------------------------------------------

    def _assign(self, keys: Any, limit: int | None) -> tuple[Ints, Ints]:
        try:
            rows, created = self._table.assign(keys, limit)
        except Full:
            raise StoreFull(
                f"store {self.spec.name} is full: it has {len(self)} rows, and max_rows is {limit}; "
                "raise max_rows, or delete or expire rows"
            ) from None
        self._grow(self._table.rows_used)
        if self.spec.windowed and len(created):
            _, starts, _ = split_stored_window_keys(self._table.keys(created))
            self._starts[created] = starts
        return rows, created

    def _grow(self, rows: int) -> None:
        for name, column in self._columns.items():
            if rows > len(column):
                self._columns[name] = self._arrays.grow(f"column-{name}", max(rows, 2 * len(column)))
        if self.spec.windowed and rows > len(self._starts):
            self._starts = self._arrays.grow(_STARTS, max(rows, 2 * len(self._starts)))
        if self.spec.timestamped and rows > len(self._times):
            self._times = self._arrays.grow(_TIMES, max(rows, 2 * len(self._times)))
        if self._values is not None:
            self._values.grow(rows)

    def _remove(self, rows: Ints) -> None:
        """Free rows are zero, so that a new key begins with zeros."""
        for column in self._columns.values():
            column[rows] = 0
        if self.spec.timestamped:
            self._times[rows] = 0
        if self._values is not None:
            self._values.delete(rows)
        self._table.delete(rows)

    def _changed(self) -> Ints:
        """The touched rows that are still alive, each once, in order."""
        if not self._touched:
            return np.empty(0, np.int64)
        rows = self._distinct(np.concatenate(self._touched))
        return rows[self._table.are_alive(rows)]

    def _distinct(self, rows: Ints) -> Ints:
        """In order, each once. numpy's own `unique` takes twenty to sixty times as long."""
        if 32 * len(rows) < self._table.rows_used:
            ordered = np.sort(rows)
            is_first = np.ones(len(ordered), np.bool_)
            np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
            return ordered[is_first]
        is_there = np.zeros(self._table.rows_used, np.bool_)
        is_there[rows] = True
        return np.flatnonzero(is_there)

    def _gone(self) -> Any:
        """The deleted keys, unless they are back."""
        if not self._deleted:
            return ()
        keys = pc.unique(pa.concat_arrays(self._deleted))
        return keys.filter(arrow_column(self._table.find(keys) < 0))

    def _encode(self, rows: Ints) -> Any:
        encoded = self._encoded
        if not encoded.itemsize:
            return self._variable().get(rows)
        cells = np.empty(len(rows), encoded)
        for name, column in self._columns.items():
            cells[name] = column[rows]
        fixed = fixed_cells(cells.view(np.uint8), len(rows), encoded.itemsize)
        if self._values is None:
            return fixed
        return pc.binary_join_element_wise(fixed, self._values.get(rows), b"")

    def _decode(self, rows: Ints, values: Any) -> None:
        """Into rows that are there once, from values without nulls."""
        size = self._encoded.itemsize
        self._check_sizes(values, size)
        if not len(rows):
            return
        rest = values
        if size:
            fixed, rest = split(values, size, functions=self._functions)
            cells = fixed.view(self._encoded)
            for name, column in self._columns.items():
                column[rows] = cells[name]
        if self._values is not None:
            self._values.put(rows, rest)

    def _check_sizes(self, values: Any, size: int) -> None:
        lengths = pc.min_max(pc.binary_length(values)).as_py()
        least, most = lengths["min"], lengths["max"]
        if least is None or (least >= size and (self._values is not None or most == size)):
            return
        wrong = least if least < size else most
        raise BadChange(
            f"a value in the changelog of store {self.spec.name} has {wrong} bytes; {self.spec.signature()} takes "
            f"{size}{' or more' if self._values is not None else ''}: something else wrote to this changelog"
        )

    def _living(self, rows: Any) -> Ints:
        picked = _ints(rows)
        if not self._table.are_alive(picked).all():
            raise IndexError(f"store {self.spec.name} was asked for rows that are not in use")
        return picked

    def _variable(self) -> Values:
        if self._values is None:
            raise TypeError(f"store {self.spec.name} has no column of type bytes")
        return self._values

    def _time(self) -> Ints:
        if self.spec.windowed:
            return self.window_starts
        if self.spec.time is None:
            raise TypeError(f"store {self.spec.name} has no time column")
        return self[self.spec.time]


def fixed_cells(data: Array, count: int, size: int) -> Any:
    """Bytes one after the other as a binary array with cells of one size."""
    edges = np.arange(count + 1, dtype=np.int64) * size
    if edges[-1] > 0x7FFF_FFFF:
        raise OverflowError(f"{count} changed rows have {edges[-1]} bytes; change fewer rows in one step")
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(data)]
    )


def _ints(rows: Any) -> Ints:
    return np.ascontiguousarray(rows, np.int64)


def _binary(array: Any) -> Any:
    """Keys or values as one binary array without nulls."""
    cells = _nullable(array)
    if cells.null_count:
        raise ValueError(f"{cells.null_count} of {len(cells)} keys or values are null; delete rows instead")
    return cells


def _nullable(array: Any) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    elif not isinstance(array, pa.Array):
        array = arrow_cells(array, pa.binary())
    return array if array.type == pa.binary() else array.cast(pa.binary())
