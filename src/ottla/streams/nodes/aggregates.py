"""Tables from the records of a stream: one row for each key."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import BATCH, EVERY, Node, complete
from ottla.streams.nodes.rows import Rows, latest
from ottla.streams.serdes import Serde


@dataclass(frozen=True)
class Aggregate(Node):
    """A table of `function(key, value, aggregate)` for each key; records without key or value are left out.

    `emit="batch"` gives one change for each key and step, `emit="every"` one for each record.
    """

    store: str
    key: Serde
    value: Serde  # of the aggregate
    initial: Callable[[], Any]
    function: Callable[[Any, Any, Any], Any]
    emit: str = BATCH

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = complete(frame)
        if not len(frame):
            return EMPTY
        table = Rows(step, self.store, self.key, self.value)
        places = table.places(frame.keys)
        olds: list[Any] = []
        news: list[Any] = []
        times: list[int] = []
        pairs = frame.pairs()
        for place, (key, value), at in zip(places, pairs, frame.times.tolist(), strict=True):
            old = table.get(place)
            begun = self.initial() if old is None else old
            new = self.function(key, value, begun)
            times.append(table.put(place, new, at))
            olds.append(old)
            news.append(new)
        table.write()
        changes = Frame(frame.keys, news, np.array(times, np.int64), olds)
        return changes if self.emit == EVERY else latest(changes, places)


@dataclass(frozen=True)
class Count(Node):
    """How many records each key has; for whole columns at once."""

    store: str
    key: Serde
    emit: str = BATCH

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = complete(frame)
        if not len(frame):
            return EMPTY
        store = step.stores[self.store]
        rows = store.rows(self.key.encode(frame.keys))
        counts, times = store["n"], store.times
        before, times_before = counts[rows], times[rows]
        np.add.at(counts, rows, 1)
        np.maximum.at(times, rows, frame.times)
        store.touch(rows)
        if self.emit == EVERY:
            return _numbered(frame, rows, before, times_before)
        changes = Frame(frame.keys, pa.array(counts[rows]), times[rows], _or_none(before))
        return latest(changes, rows.tolist())


def _numbered(frame: Frame, rows: Any, before: Any, times_before: Any) -> Frame:
    """Each record's own count, and the latest time of its key by then."""
    seen: dict[int, tuple[int, int]] = {}
    news, times = [], []
    known = zip(before.tolist(), times_before.tolist(), strict=True)
    for row, begun, at in zip(rows.tolist(), known, frame.times.tolist(), strict=True):
        count, latest_at = seen.get(row, begun)
        seen[row] = count + 1, max(latest_at, at)
        news.append(count + 1)
        times.append(max(latest_at, at))
    olds = [count - 1 if count > 1 else None for count in news]
    return Frame(frame.keys, pa.array(news, pa.int64()), np.array(times, np.int64), olds)


def _or_none(before: Any) -> list[int | None]:
    return [count or None for count in before.tolist()]
