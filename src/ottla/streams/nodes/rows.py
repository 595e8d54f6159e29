"""The rows of a store, for nodes that work value by value."""

import copy
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import arrow_cells, arrow_column
from ottla.pipelines.state.store import KeyedStore
from ottla.streams.serdes import Serde, objects

_PLAIN = (str, int, float, bytes, bool, tuple, type(None))


class Rows:
    """A store with one `bytes` column: values behind places, the bytes of keys. What changes is written at the end."""

    def __init__(self, store: KeyedStore, value: Serde) -> None:
        self._store, self._value = store, value
        self._known: dict[bytes, Any] = {}
        self._times: dict[bytes, int] = {}
        self._changed: dict[bytes, None] = {}

    def load(self, cells: pa.Array) -> list[bytes]:
        """A place for each key; what is stored there is read at once."""
        distinct = cells.unique()
        rows = self._store.find(distinct)
        there = rows >= 0
        known = distinct.filter(arrow_column(there)).to_pylist()
        if known:
            values = objects(self._value.decode(self._store.encoded(rows[there])))
            self._known.update(zip(known, values, strict=True))
            if self._store.spec.timestamped:
                self._times.update(zip(known, self._store.times[rows[there]].tolist(), strict=True))
        return cells.to_pylist()  # type: ignore[no-any-return]

    def get(self, place: bytes) -> Any:
        return self._known.get(place)

    def time(self, place: bytes) -> int:
        return self._times.get(place, -1)

    def put(self, place: bytes, value: Any, at: int) -> None:
        """None deletes."""
        self._known[place] = value
        self._times[place] = at
        self._changed[place] = None

    def write(self) -> None:
        """Puts what changed into the store."""
        present = [place for place in self._changed if self._known[place] is not None]
        gone = [place for place in self._changed if self._known[place] is None]
        if gone:
            rows = self._store.find(arrow_cells(gone, pa.binary()))
            self._store.delete(rows[rows >= 0])
        if present:
            rows = self._store.rows(arrow_cells(present, pa.binary()))
            self._store.put_values(rows, self._value.encode([self._known[place] for place in present]))
            if self._store.spec.timestamped:
                self._store.times[rows] = [self._times[place] for place in present]
        self._changed = {}


def own(value: Any) -> Any:
    """A value that a user's function may change in place without changing what others see."""
    return value if isinstance(value, _PLAIN) else copy.deepcopy(value)


def own_all(values: list[Any]) -> list[Any]:
    """`own` for each; plain values, the usual case, are known by their types at once."""
    if all(issubclass(kind, _PLAIN) for kind in set(map(type, values))):
        return values.copy()
    return list(map(own, values))


def last_of_each(places: Any) -> tuple[Any, Any]:
    """For each distinct number: the index where it is first, and where it is last; by the latter."""
    numbers = np.asarray(places)
    count = len(numbers)
    if count < 2:
        return np.arange(count), np.arange(count)
    size = int(numbers.max()) + 1
    if size > 64 * count:  # few of many: sorting them is quicker than room for all
        numbers = np.unique(numbers, return_inverse=True)[1]
        size = int(numbers.max()) + 1
    first, last = np.empty(size, np.int64), np.empty(size, np.int64)
    last[numbers] = np.arange(count)  # of indices that are there twice numpy takes the last
    first[numbers[::-1]] = np.arange(count - 1, -1, -1)
    ends = np.flatnonzero(last[numbers] == np.arange(count))
    return first[numbers[ends]], ends
