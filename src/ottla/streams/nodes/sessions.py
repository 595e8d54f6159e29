"""Session windows: a row for each key and session; a record may begin a session, lengthen one or join several."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import arrow_column
from ottla.pipelines.state.windows import session_keys, split_session_keys
from ottla.streams.errors import BadTopology
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.aggregates import Folding, compacted
from ottla.streams.nodes.base import BATCH, keyed, observed
from ottla.streams.nodes.by_key import ByKey, Mark
from ottla.streams.nodes.rows import own
from ottla.streams.nodes.windows import SESSION, Closing
from ottla.streams.serdes import Serde, Windowed


@frozen_with_dict
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
        out, growing = _Out(), _Growing(self, sessions)
        quick = self.emit == BATCH and not self.traced  # else every change is asked for
        walked = zip(
            cells.to_pylist(),
            frame.zipped(),
            frame.times.tolist(),
            reached.tolist(),
            frame.order.tolist(),
            strict=True,
        )
        for place, (key, value), at, now, moment in walked:
            if not (quick and growing.take(place, key, value, at, before, now, moment)):
                growing.settle(place, out)
                self._take(sessions, out, place, key, value, at, before, now, moment)
            before = now
        growing.settle_all(out)
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
            aggregate = self.merger(key, aggregate, own(sessions.rows[place][other_start, other_end][0]))
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
        rows, cells, ends = rows[is_closed], cells.filter(arrow_column(is_closed)), ends[is_closed]
        by_end = pa.table({"end": ends, "key": cells})
        return rows[pc.sort_indices(by_end, [("end", "ascending"), ("key", "ascending")]).to_numpy()]

    def windows_of(self, cells: pa.Array) -> tuple[pa.Array, Any, Any]:
        return split_session_keys(cells)


@dataclass(slots=True)
class _Grown:
    """A session that is the last one of its key. `known` is how the store has it."""

    start: int
    end: int
    aggregate: Any
    known: Mark | None
    key: Any = None
    first: int = -1  # the moment in which it began to grow
    last: int = -1


class _Growing:
    """The usual case: a record lengthens the last session of its key, or is the first of its key. Only the
    session as it is at the end of a step is emitted and stored, not each length in between.

    Other sessions of the key need not be looked at: two that take records are always more than the gap apart.
    """

    def __init__(self, node: SessionAggregate, sessions: ByKey) -> None:
        self._gap, self._length = node.windows.gap_ms, node.windows.gap_ms + node.windows.grace_ms
        self._keeping, self._merger, self._sessions = node.keeping, node.merger, sessions
        self._grown: dict[bytes, _Grown] = {}

    def take(self, place: bytes, key: Any, value: Any, at: int, before: int, now: int, moment: int) -> bool:
        """Whether the record was such a one."""
        if at < now - self._length:
            return False
        keeping, grown = self._keeping, self._grown.get(place)
        if grown is None:
            grown = self._last(place, at)
        if grown.first >= 0 or grown.known is not None:
            if grown.aggregate is None or not grown.end <= at <= grown.end + self._gap:
                return False
            if grown.end <= before - self._length:
                return False
            begun = self._merger(key, keeping.initial(), grown.aggregate)
        else:
            begun = keeping.initial()
        grown.aggregate = keeping.function(key, value, begun)
        grown.end, grown.last = at, moment
        if grown.first < 0:
            grown.first, grown.key = moment, key
            self._grown[place] = grown
        return True

    def _last(self, place: bytes, at: int) -> _Grown:
        rows = self._sessions.rows[place]
        if not rows:
            return _Grown(at, at, None, None)
        mark = max(rows)
        return _Grown(*mark, own(rows[mark][0]), mark)

    def settle(self, place: bytes, out: "_Out") -> None:
        """Before another record looks at the sessions of this key."""
        grown = self._grown.pop(place, None)
        if grown is None:
            return
        old, mark = None, (grown.start, grown.end)
        if grown.known is not None:
            old, _ = self._sessions.rows[place][grown.known]
            if grown.known != mark:
                self._sessions.remove(place, grown.known)
                out.add(Windowed(grown.key, *grown.known), None, old, grown.first)
                old = None
        if grown.aggregate is None:
            self._sessions.remove(place, mark)
        else:
            self._sessions.put(place, mark, grown.aggregate, grown.end)
        out.add(Windowed(grown.key, *mark), grown.aggregate, old, grown.last)

    def settle_all(self, out: "_Out") -> None:
        for place in list(self._grown):
            self.settle(place, out)


class _Out:
    """Changes, by their moments in the end."""

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
        changed = framed(self._keys, news, times, order=self._order, olds=olds)
        changed = changed.take(np.argsort(changed.order, kind="stable"))
        return compacted(changed, SessionSerde(key).encode(changed.keys), emit)


def _split(cells: pa.Array) -> tuple[pa.Array, Any, Any]:
    return split_session_keys(cells)


def _joined(keys: pa.Array, starts: Any, ends: Any) -> pa.Array:
    return session_keys(keys, starts, ends)
