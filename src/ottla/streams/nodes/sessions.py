"""Session windows: a row for each key and session; a record may begin a session, lengthen one or join several."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.pipelines.state.windows import session_keys, split_session_keys
from ottla.streams.errors import BadTopology
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.aggregates import Folding, compacted
from ottla.streams.nodes.base import BATCH, keyed, observed
from ottla.streams.nodes.by_key import ByKey
from ottla.streams.nodes.windows import SESSION, Closing
from ottla.streams.serdes import Serde, Windowed


@dataclass(frozen=True)
class Sessions:
    """A session ends when `gap_ms` pass without a record of its key."""

    gap_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if not (self.gap_ms > 0 and self.grace_ms >= 0):
            raise BadTopology(f"sessions need a gap above 0 and a grace of 0 or more, not {self}")


@dataclass
class SessionAggregate(Closing):
    """`merger(key, aggregate, other)` makes one aggregate of two sessions'."""

    store: str
    key: Serde
    keeping: Folding
    merger: Callable[[Any, Any, Any], Any]
    windows: Sessions
    emit: str = BATCH
    traced: bool = False
    closes: bool = True
    stored_as: str = SESSION

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        self.drop_closed(step)
        frame = keyed(frame)
        if not len(frame):
            return EMPTY
        before = step.marks.get(self.store, -1)
        reached = observed(step, self.store, frame.times)
        cells = self.key.encode(frame.keys)
        sessions = ByKey(step.stores[self.store], self.keeping.value, _split, _joined, cells)
        out = _Out()
        walked = zip(
            cells.to_pylist(), frame.pairs(), frame.times.tolist(), reached.tolist(), frame.order, strict=True
        )
        for place, (key, value), at, now, moment in walked:
            self._take(sessions, out, place, key, value, at, before, now, moment)
            before = now
        sessions.write()
        return out.changes(self.key, self.emit, self.keeping)

    def _take(
        self,
        sessions: ByKey,
        out: "_Out",
        place: bytes,
        key: Any,
        value: Any,
        at: int,
        before: int,
        now: int,
        moment: int,
    ) -> None:
        gap, length = self.windows.gap_ms, self.windows.gap_ms + self.windows.grace_ms
        near = sorted(
            (end, start)
            for start, end in sessions.rows[place]
            if end >= at - gap and start <= at + gap and end > before - length
        )
        aggregate, start, end = self.keeping.initial(), at, at
        for other_end, other_start in near:
            aggregate = self.merger(key, aggregate, sessions.rows[place][other_start, other_end][0])
            start, end = min(start, other_start), max(end, other_end)
        if end < now - length:
            return  # late
        if (start, end) != (at, at):
            for other_end, other_start in near:
                old, _ = sessions.rows[place][other_start, other_end]
                sessions.remove(place, (other_start, other_end))
                out.add(Windowed(key, other_start, other_end), None, old, moment)
        aggregate = self.keeping.function(key, value, aggregate)
        # Kafka Streams calls a session new that a record with its only time changes; to tell what a step has changed in
        # all, its value before is needed.
        known = sessions.rows[place].get((start, end)) if self.emit == BATCH else None
        if aggregate is None:
            sessions.remove(place, (start, end))
        else:
            sessions.put(place, (start, end), aggregate, at)
        out.add(Windowed(key, start, end), aggregate, None if known is None else known[0], moment)

    def closed(self, step: Step) -> Any:
        store = step.stores[self.store]
        rows = np.flatnonzero(store.alive())
        if not len(rows):
            return rows
        cells = store.keys(rows)
        _, _, ends = split_session_keys(cells)
        is_closed = ends <= step.marks[self.store] - self.windows.gap_ms - self.windows.grace_ms
        rows, cells, ends = rows[is_closed], cells.filter(pa.array(is_closed)), ends[is_closed]
        by_end = pa.table({"end": ends, "key": cells})
        return rows[pc.sort_indices(by_end, [("end", "ascending"), ("key", "ascending")]).to_numpy()]

    def windows_of(self, cells: pa.Array) -> tuple[pa.Array, Any, Any]:
        return split_session_keys(cells)


class _Out:
    """Changes as they come."""

    def __init__(self) -> None:
        self._keys: list[Windowed] = []
        self._news: list[Any] = []
        self._olds: list[Any] = []
        self._order: list[int] = []

    def add(self, key: Windowed, new: Any, old: Any, moment: int) -> None:
        self._keys.append(key)
        self._news.append(new)
        self._olds.append(old)
        self._order.append(moment)

    def changes(self, key: Serde, emit: str, keeping: Folding) -> Frame:
        from ottla.streams.windowed_serdes import SessionSerde

        if not self._keys:
            return EMPTY
        times = [window.end for window in self._keys]
        news, olds = keeping.results(self._news), keeping.results(self._olds)
        found = framed(list(self._keys), news, times, order=self._order, olds=olds)
        return compacted(found, SessionSerde(key).encode(self._keys), emit)


def _split(cells: pa.Array) -> tuple[pa.Array, Any, Any]:
    return split_session_keys(cells)


def _joined(keys: pa.Array, starts: Any, ends: Any) -> pa.Array:
    return session_keys(keys, starts, ends)
