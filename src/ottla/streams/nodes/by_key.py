"""Rows of a store whose keys hold a time, found by key: for sessions, sliding windows and joins of streams.

A store has no order: the rows of a step's keys are collected in one pass over all rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import arrow_cells, arrow_column
from ottla.pipelines.state.store import KeyedStore
from ottla.streams.serdes import Serde, objects

Split = Callable[[pa.Array], tuple[pa.Array, Any, Any]]
Join = Callable[[pa.Array, Any, Any], pa.Array]
Mark = tuple[int, int]  # of a window or session: its two numbers in the store's key
Row = tuple[Any, int]  # value, time


class ByKey:
    """For each key its rows by the two numbers that the store's keys end in. What changes is written at the end."""

    def __init__(self, store: KeyedStore, value: Serde, split: Split, join: Join, keys: pa.Array) -> None:
        self._store, self._value, self._join = store, value, join
        self.rows: dict[bytes, dict[Mark, Row]] = {key: {} for key in keys.unique().to_pylist()}
        self._changed: dict[tuple[bytes, Mark], None] = {}
        alive = np.flatnonzero(store.alive())
        if not len(alive):
            return
        plain, firsts, seconds = split(store.keys(alive))
        mine = pc.is_in(plain, value_set=keys.unique()).to_numpy(zero_copy_only=False)
        rows_of_keys = alive[mine]
        if not len(rows_of_keys):
            return
        values = objects(value.decode(store.encoded(rows_of_keys)))
        times = store.times[rows_of_keys].tolist() if store.spec.timestamped else [0] * len(rows_of_keys)
        marks = zip(firsts[mine].tolist(), seconds[mine].tolist(), strict=True)
        for key, mark, *row in zip(
            plain.filter(arrow_column(mine)).to_pylist(), marks, values, times, strict=True
        ):
            self.rows[key][mark] = (row[0], row[1])

    def put(self, key: bytes, mark: Mark, value: Any, at: int) -> None:
        self.rows[key][mark] = (value, at)
        self._changed[key, mark] = None

    def remove(self, key: bytes, mark: Mark) -> None:
        self.rows[key].pop(mark, None)
        self._changed[key, mark] = None

    def write(self) -> None:
        present = [(key, mark) for key, mark in self._changed if mark in self.rows[key]]
        gone = [(key, mark) for key, mark in self._changed if mark not in self.rows[key]]
        if gone:
            rows = self._store.find(self._cells(gone))
            self._store.delete(rows[rows >= 0])
        if present:
            rows = self._store.rows(self._cells(present))
            cells = [self.rows[key][mark] for key, mark in present]
            self._store.put_values(rows, self._value.encode([value for value, _ in cells]))
            if self._store.spec.timestamped:
                self._store.times[rows] = [at for _, at in cells]
        self._changed = {}

    def _cells(self, places: list[tuple[bytes, Mark]]) -> pa.Array:
        keys = arrow_cells([key for key, _ in places], pa.binary())
        firsts, seconds = (np.array([mark[i] for _, mark in places], np.int64) for i in (0, 1))
        return self._join(keys, firsts, seconds)
