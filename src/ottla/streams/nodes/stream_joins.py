"""Two streams by key and time: records that are near each other."""

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_cells
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.windows import split_stored_window_keys, stored_window_keys
from ottla.streams.errors import BadTopology
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.base import SeparateNode
from ottla.streams.nodes.by_key import ByKey
from ottla.streams.nodes.joins import INNER, LEFT, OUTER
from ottla.streams.nodes.pairing import PUT, Pairing
from ottla.streams.serdes import Serde, objects

_MIN = ".min"  # behind a store's name: a mark that is kept from step to step
ARRAYS_FROM = 8  # records in a step


@frozen_with_dict
class JoinWindows:
    """A record of the left stream meets those of the right one from `before_ms` before it to `after_ms` behind it."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0 or self.grace_ms < 0:
            raise BadTopology(f"a join needs a time of 0 or more to look around, not {self}")

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms


@frozen_with_dict
class StreamJoin(SeparateNode):
    """Left is the first parent. What found nothing comes out when it can find nothing more: its time, the window and
    the grace have passed; at once if that is so when it comes."""

    key: Serde
    left: Serde
    right: Serde
    function: Callable[[Any, Any], Any]
    windows: JoinWindows
    how: str
    stores: tuple[str, str]
    waiting: str  # the store of those that have found nothing yet

    def specs(self) -> tuple[StoreSpec, ...]:
        sides = [
            StoreSpec(name, (("value", "bytes"),), windowed=True, timestamped=True) for name in self.stores
        ]
        waiting = StoreSpec(self.waiting, (("value", "bytes"),))
        return tuple(sides) if self.how == INNER else (*sides, waiting)

    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        # A single record is quicker by itself than in arrays: TestDriver has nothing else.
        pairing = Pairing(self, step, frames) if sum(map(len, frames)) >= ARRAYS_FROM else None
        if pairing is None or not pairing.fits:
            return self.record_by_record(frames, step)
        return self.in_arrays(pairing, frames, step)

    def in_arrays(self, pairing: Pairing, frames: list[Frame], step: Step) -> Frame:
        """Who waits for a partner changes with every record; what a record meets does not depend on it."""
        if self.how == INNER:
            out = pairing.inner()
        else:
            joining = _Joining(self, step, frames, pairing.near())
            joining.take_all(frames)
            joining.write()
            out = joining.out.frame()
        pairing.write()
        self._expire(step)
        return out

    def record_by_record(self, frames: list[Frame], step: Step) -> Frame:
        joining = _Joining(self, step, frames)
        joining.take_all(frames)
        joining.write()
        self._expire(step)
        return joining.out.frame()

    def on_time(self, step: Step) -> Frame:
        """The wall clock lets go of what found nothing, as a record of that time would."""
        if step.moved_ms is None or self.stores[0] not in step.marks:
            return EMPTY
        step.marks[self.stores[0]] = max(step.moved_ms, step.marks[self.stores[0]])
        joining = _Joining(self, step, [EMPTY, EMPTY])
        if self.how != INNER:
            joining.let_go(0, None, 0, all_sides=True)
        joining.write()
        self._expire(step)
        return joining.out.frame()

    def _expire(self, step: Step) -> None:
        """Each stream's records by its own time: the other one may be ahead."""
        for name in self.stores:
            store, newest = step.stores[name], step.marks.get(name + PUT, -1)
            rows = store.expired(newest - self.windows.size_ms - self.windows.grace_ms + 1)
            if len(rows):
                store.delete(rows)


def _records(frame: Frame) -> list[tuple[Any, Any, int, Any]]:
    headers = frame.headers or [None] * len(frame)
    return list(zip(objects(frame.keys), objects(frame.values), frame.times.tolist(), headers, strict=True))


class _Out:
    def __init__(self) -> None:
        self._cells: list[tuple[Any, Any, int, int, Any]] = []

    def add(self, key: Any, value: Any, at: int, moment: int, headers: Any) -> None:
        self._cells.append((key, value, at, moment, headers))

    def frame(self) -> Frame:
        if not self._cells:
            return EMPTY
        keys, values, times, order, headers = (list(column) for column in zip(*self._cells, strict=True))
        has = any(row is not None for row in headers)
        return framed(keys, values, times, order=order, headers=headers if has else None)


class _Side:
    """The records of one stream by key, in the order of their times."""

    def __init__(self, node: StreamJoin, step: Step, side: int, cells: pa.Array) -> None:
        value = (node.left, node.right)[side]
        self.name = node.stores[side]
        self._marks, self._retention = step.marks, node.windows.size_ms + node.windows.grace_ms
        self.rows = ByKey(step.stores[self.name], value, split_stored_window_keys, stored_window_keys, cells)
        self._times = {key: sorted(marks) for key, marks in self.rows.rows.items()}

    def near(self, key: bytes, from_ms: int, to_ms: int) -> list[tuple[int, Any]]:
        """Times and values; what is older than the window and its grace is as if it were gone."""
        oldest = self._marks.get(self.name + PUT, -1) - self._retention + 1
        times, rows = self._times[key], self.rows.rows[key]
        begin = bisect_left(times, (max(0, from_ms, oldest), 0))
        return [(mark[0], rows[mark][0]) for mark in times[begin : bisect_left(times, (to_ms + 1, 0))]]

    def put(self, key: bytes, value: Any, at: int) -> None:
        newest = self._marks[self.name + PUT] = max(at, self._marks.get(self.name + PUT, -1))
        if at <= newest - self._retention:
            return
        times = self._times[key]
        place = bisect_left(times, (at + 1, 0))
        number = place - bisect_left(times, (at, 0))
        self.rows.put(key, (at, number), value, at)
        times.insert(place, (at, number))


class _Joining:
    """One record after the other. In the store of those that wait a key is: time, side, number, key."""

    def __init__(
        self,
        node: StreamJoin,
        step: Step,
        frames: list[Frame],
        near: list[list[tuple[int, Any]]] | None = None,
    ) -> None:
        """`near` is what records meet if that is known; else the stores are looked at and written here."""
        self._node, self._step, self.out, self._near = node, step, _Out(), near
        self._cells = [node.key.encode(frame.keys).cast(pa.binary()) for frame in frames]
        whole = pa.concat_arrays(self._cells).drop_null()
        self._sides = [_Side(node, step, side, whole) for side in (0, 1)] if near is None else []
        self._waiting = _Waiting(node, step.stores[node.waiting]) if node.how != INNER else None

    def take_all(self, frames: list[Frame]) -> None:
        sides = [side for side, frame in enumerate(frames) for _ in range(len(frame))]
        order = np.concatenate([frame.order for frame in frames])
        records = [record for frame in frames for record in _records(frame)]
        places = [cell for cells in self._cells for cell in cells.to_pylist()]
        for at in np.argsort(order, kind="stable").tolist():
            near = None if self._near is None else self._near[at]
            self._take(sides[at], places[at], records[at], int(order[at]), near)

    def _take(
        self,
        side: int,
        place: bytes,
        record: tuple[Any, Any, int, Any],
        moment: int,
        near: list[tuple[int, Any]] | None,
    ) -> None:
        """`place` are the bytes of its key."""
        node, marks, clock = self._node, self._step.marks, self._node.stores[0]
        key, value, at, headers = record
        marks[clock] = max(at, marks.get(clock, -1))
        outer = node.how == OUTER or (node.how == LEFT and side == 0)
        if key is None and value is not None and outer:
            self.out.add(key, self._joined_value(side, value, None), at, moment, headers)
            return
        if key is None or value is None:
            return
        if at == marks[clock] and self._waiting is not None:
            self.let_go(side, headers, moment)
        before, after = node.windows.before_ms, node.windows.after_ms
        if side == 1:
            before, after = after, before
        if self._sides:
            near = self._sides[1 - side].near(place, at - before, max(0, at + after))
        assert near is not None
        for when, other in near:
            if self._waiting is not None:
                self._waiting.remove(when, 1 - side, place)
            self.out.add(key, self._joined_value(side, value, other), max(at, when), moment, headers)
        if outer and not near:
            if max(0, at + after) < marks[clock]:
                self.out.add(key, self._joined_value(side, value, None), at, moment, headers)
            else:
                assert self._waiting is not None
                low = marks.get(clock + _MIN)
                marks[clock + _MIN] = at if low is None else min(low, at)
                self._waiting.add(at, side, place, value)
        if self._sides:
            self._sides[side].put(place, value, at)

    def let_go(self, side: int, headers: Any, moment: int, *, all_sides: bool = False) -> None:
        """Of those that wait: what can find nothing more at this time."""
        node, marks, clock, waiting = self._node, self._step.marks, self._node.stores[0], self._waiting
        assert waiting is not None
        now, grace, low = marks[clock], node.windows.grace_ms, marks.get(clock + _MIN)
        after = node.windows.after_ms if side == 0 else node.windows.before_ms
        if not all_sides and (low is None or low + after + grace >= now):
            return
        marks.pop(clock + _MIN, None)
        is_open = [False, False]
        for at, from_side, place, value in waiting.oldest():
            marks[clock + _MIN] = at
            if all(is_open):
                break
            look_ahead = node.windows.after_ms if from_side == 0 else node.windows.before_ms
            if at + look_ahead + grace >= now:
                is_open[from_side] = True
                continue
            key = objects(node.key.decode(arrow_cells([place], pa.binary())))[0]
            self.out.add(key, self._joined_value(from_side, value, None), at, moment, headers)
            waiting.remove(at, from_side, place)

    def write(self) -> None:
        for side in self._sides:
            side.rows.write()
        if self._waiting is not None:
            self._waiting.write()

    def _joined_value(self, side: int, mine: Any, other: Any) -> Any:
        return self._node.function(mine, other) if side == 0 else self._node.function(other, mine)


_HEAD = 8 + 1 + 4  # time, side, number


class _Waiting:
    """Records that have found nothing yet, in the order of time, side and key."""

    def __init__(self, node: StreamJoin, store: KeyedStore) -> None:
        self._node, self._store = node, store
        self._values: dict[tuple[int, int, bytes], list[Any]] = {}
        self._sorted: list[
            tuple[int, int, bytes]
        ] = []  # the right side before the left one, as in Kafka Streams
        self._stored: dict[tuple[int, int, bytes], int] = {}
        self._changed: set[tuple[int, int, bytes]] = set()
        rows = np.flatnonzero(store.alive())
        if not len(rows):
            return
        cells = store.keys(rows).to_pylist()
        for flag, serde in ((1, node.left), (0, node.right)):
            mine = sorted((cell, at) for at, cell in enumerate(cells) if cell[8] == flag)
            encoded = store.values(rows[np.array([at for _, at in mine], np.int64)])
            for (cell, _), value in zip(mine, objects(serde.decode(encoded)), strict=True):
                place = (int.from_bytes(cell[:8]), flag, cell[_HEAD:])
                self._values.setdefault(place, []).append(value)
                self._stored[place] = self._stored.get(place, 0) + 1
        self._sorted = sorted(self._values)

    def add(self, at: int, side: int, key: bytes, value: Any) -> None:
        place = (at, 1 - side, key)
        if place not in self._values:
            insort(self._sorted, place)
        self._values.setdefault(place, []).append(value)
        self._changed.add(place)

    def remove(self, at: int, side: int, key: bytes) -> None:
        place = (at, 1 - side, key)
        if self._values.pop(place, None) is not None:
            self._sorted.remove(place)
            self._changed.add(place)

    def oldest(self) -> list[tuple[int, int, bytes, Any]]:
        return [
            (at, 1 - flag, key, value)
            for at, flag, key in self._sorted
            for value in self._values[at, flag, key]
        ]

    def write(self) -> None:
        """A place that has changed is written whole."""
        for place in sorted(self._changed):
            values = self._values.get(place, [])
            stored = self._stored.get(place, 0)
            if stored > len(values):
                gone = arrow_cells(
                    [_cell(place, number) for number in range(len(values), stored)], pa.binary()
                )
                rows = self._store.find(gone)
                self._store.delete(rows[rows >= 0])
            if values:
                serde = self._node.left if place[1] else self._node.right
                cells = arrow_cells([_cell(place, number) for number in range(len(values))], pa.binary())
                self._store.put_values(self._store.rows(cells), serde.encode(values))


def _cell(place: tuple[int, int, bytes], number: int) -> bytes:
    at, flag, key = place
    return at.to_bytes(8) + bytes([flag]) + number.to_bytes(4) + key
