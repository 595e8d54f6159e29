"""Sliding windows: a window for each record that ends with it, and one that begins right behind it if others follow.

Two records are in one window if their times differ by `difference_ms` at most. Which windows there are, and in which
order they change, is Kafka Streams' (KIP-450), so a record that comes late finds the same windows.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.windows import split_stored_window_keys, stored_window_keys
from ottla.streams.errors import BadTopology
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.aggregates import Folding, compacted
from ottla.streams.nodes.base import BATCH, EVERY, complete, observed
from ottla.streams.nodes.by_key import ByKey
from ottla.streams.nodes.rows import own
from ottla.streams.nodes.windows import WindowedAggregate
from ottla.streams.serdes import Windowed
from ottla.streams.windowed_serdes import WindowedSerde


@frozen_with_dict
class Sliding:
    difference_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if not (self.difference_ms >= 0 and self.grace_ms >= 0):
            raise BadTopology(f"sliding windows need times of 0 or more, not {self}")

    @property
    def size_ms(self) -> int:
        return self.difference_ms


@dataclass
class SlidingAggregate(WindowedAggregate):
    """Records without key or value are left out."""

    keeping: Folding
    windows: Sliding  # type: ignore[assignment]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        self.drop_closed(step)
        frame = complete(frame)
        if not len(frame):
            return EMPTY
        reached = observed(step, self.store, frame.times)
        cells = self.key.encode(frame.keys)
        rows = ByKey(step.stores[self.store], self.keeping.value, _split, _joined, cells)
        out = _Changes(self, rows)
        walked = zip(
            cells.to_pylist(), frame.pairs(), frame.times.tolist(), reached.tolist(), frame.order, strict=True
        )
        for place, (key, value), at, now, moment in walked:
            out.take(place, key, value, at, now - self.windows.grace_ms, moment)
        rows.write()
        return out.changes()

    def closed(self, step: Step) -> Any:
        """A sliding window's end is part of it. The windows before one that is open must stay: a record may look back
        over two of them."""
        store = step.stores[self.store]
        oldest_ms = step.marks[self.store] - self.windows.grace_ms - 3 * self.windows.difference_ms
        return store.expired(oldest_ms)


class _Changes:
    """Takes one record after the other."""

    def __init__(self, node: SlidingAggregate, rows: ByKey) -> None:
        self._node, self._rows = node, rows
        self._size = node.windows.difference_ms
        self._keys: list[Windowed] = []
        self._news: list[Any] = []
        self._olds: list[Any] = []
        self._times: list[int] = []
        self._order: list[int] = []

    def take(self, place: bytes, key: Any, value: Any, at: int, closes: int, moment: int) -> None:
        if at + self._size < closes:
            return  # late
        self._record = (place, key, value, at, closes, moment)
        if at < self._size:
            self._early(place, at)
        else:
            self._usual(place, at)

    def changes(self) -> Frame:
        node = self._node
        if not self._keys:
            return EMPTY
        news, olds = node.keeping.results(self._news), node.keeping.results(self._olds)
        changed = framed(list(self._keys), news, self._times, order=self._order, olds=olds)
        cells = WindowedSerde(node.key, self._size).encode(self._keys)
        return changed if node.emit == EVERY else compacted(changed, cells, BATCH)

    def _usual(self, place: bytes, at: int) -> None:
        """From the newest window backwards."""
        starts = sorted(
            (s for s, _ in self._rows.rows[place] if at - 2 * self._size <= s <= at + 1), reverse=True
        )
        seen: set[int] = set()
        right: Any = None
        left: Any = None
        previous: int | None = None
        left_exists = right_exists = False
        for start in starts:
            seen.add(start)
            row = self._rows.rows[place][start, 0]
            end = start + self._size
            if start == at + 1:
                right_exists = True
            elif end > at:
                right = row if right is None else right
                self._update(start, row)
            elif end == at:
                left_exists = True
                self._update(start, row)
                if row[1] >= at:
                    return  # the record before had the same time, so all windows are there
                previous = row[1]
            else:
                left, previous = row, row[1]
                break
        self._create(at, seen, right, left, left_exists, right_exists, previous)

    def _create(
        self,
        at: int,
        seen: set[int],
        right: Any,
        left: Any,
        left_exists: bool,
        right_exists: bool,
        previous: int | None,
    ) -> None:
        if previous is not None and previous + 1 not in seen and previous + 1 + self._size >= at:
            self._update(previous + 1, (self._node.keeping.initial(), at))
        if not left_exists:
            not_empty = previous is not None and at - self._size <= previous
            begun = left[0] if not_empty else self._node.keeping.initial()
            self._update(at - self._size, (begun, at))
        if not right_exists:
            self._create_right(at, right)

    def _early(self, place: bytes, at: int) -> None:
        """Windows that would begin before time zero are one, which begins there."""
        starts = sorted(s for s, _ in self._rows.rows[place] if 0 <= s <= at + 1)
        first: Any = None
        right: Any = None
        previous: int | None = None
        for start in starts:
            row = self._rows.rows[place][start, 0]
            if start == 0:
                first = row
                previous = row[1] if row[1] < at else None
            elif start <= at:
                right = row
                self._update(start, row)
        if right is None and first is not None and first[1] > at:
            right = first
        if at + 1 not in starts:
            self._create_right(at, right)
        if previous is not None and previous + 1 not in starts:
            self._update(previous + 1, (self._node.keeping.initial(), at))
        self._update(0, first if first is not None else (self._node.keeping.initial(), at))

    def _create_right(self, at: int, right: Any) -> None:
        """The window right behind the record, if later records are known."""
        if right is not None and right[1] > at:
            place, key, _, _, _, moment = self._record
            self._rows.put(place, (at + 1, 0), *right)
            self._add(Windowed(key, at + 1, at + 1 + self._size), right[0], None, right[1], moment)

    def _update(self, start: int, row: tuple[Any, int]) -> None:
        place, key, value, at, closes, moment = self._record
        if start + self._size < closes:
            return  # late
        old, when = row
        new = self._node.keeping.function(key, value, own(old))
        time_ms = at if old is None else max(at, when)
        if new is None:
            self._rows.remove(place, (start, 0))
        else:
            self._rows.put(place, (start, 0), new, time_ms)
        self._add(Windowed(key, start, start + self._size), new, old, time_ms, moment)

    def _add(self, key: Windowed, new: Any, old: Any, at: int, moment: int) -> None:
        self._keys.append(key)
        self._news.append(new)
        self._olds.append(old)
        self._times.append(at)
        self._order.append(moment)


def _split(cells: pa.Array) -> tuple[pa.Array, Any, Any]:
    return split_stored_window_keys(cells)


def _joined(keys: pa.Array, starts: Any, sequences: Any) -> pa.Array:
    return stored_window_keys(keys, starts, sequences)
