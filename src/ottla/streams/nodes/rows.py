"""The rows of a store, for nodes that work value by value."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.streams.frames import Frame
from ottla.streams.serdes import Serde, objects


class Rows:
    """A store with one `bytes` column as values behind keys, for a node that works value by value."""

    def __init__(self, step: Step, store: str, key: Serde, value: Serde) -> None:
        self._store, self._key, self._value = step.stores[store], key, value
        self._known: dict[bytes, Any] = {}
        self._times: dict[bytes, int] = {}
        self._changed: set[bytes] = set()

    def places(self, keys: Any, *, create: bool = True) -> list[bytes]:
        """A place for each key; what is stored there is read at once."""
        cells = self._key.encode(keys)
        distinct = cells.unique()
        rows = self._store.find(distinct)
        there = rows >= 0
        known = distinct.filter(pa.array(there)).to_pylist()
        values = objects(self._value.decode(self._store.values(rows[there]))) if known else []
        self._known.update(zip(known, values, strict=True))
        self._times.update(zip(known, self._store.times[rows[there]].tolist(), strict=True))
        return cells.to_pylist()  # type: ignore[no-any-return]

    def get(self, place: bytes) -> Any:
        return self._known.get(place)

    def put(self, place: bytes, value: Any, at: int, *, latest: bool = True) -> int:
        """The row's time: that of the record, or the latest of all its records."""
        self._known[place] = value
        self._times[place] = max(at, self._times.get(place, at)) if latest else at
        self._changed.add(place)
        return self._times[place]

    def write(self) -> None:
        """Puts what changed into the store."""
        kept = [place for place in self._changed if self._known[place] is not None]
        gone = [place for place in self._changed if self._known[place] is None]
        if gone:
            rows = self._store.find(pa.array(gone, pa.binary()))
            self._store.delete(rows[rows >= 0])
        if kept:
            rows = self._store.rows(pa.array(kept, pa.binary()))
            self._store.put_values(rows, self._value.encode([self._known[place] for place in kept]))
            self._store.times[rows] = [self._times[place] for place in kept]


def latest(changes: Frame, places: Any) -> Frame:
    """One change for each place: from the value before the first to the one after the last."""
    first: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for at, place in enumerate(places):
        first.setdefault(place, at)
        last[place] = at
    order = sorted(last.values())
    olds = objects(changes.olds)
    begun = {last[place]: olds[first[place]] for place in last}
    found = changes.take(np.array(order, np.int64))
    return Frame(found.keys, found.values, found.times, [begun[at] for at in order])
