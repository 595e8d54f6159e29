"""Changes of a table that are held back: until their window closes, or for a time."""

import heapq
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.errors import OttlaError
from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_cells
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.streams.change_serde import ChangeSerde
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.base import Node, observed
from ottla.streams.serdes import Column, Serde, objects
from ottla.streams.windowed_serdes import parts

EMIT, FAIL = "emit", "fail"


class BufferFull(OttlaError):
    """More is held back than may be."""


class Held(NamedTuple):
    since: int  # the time by which it is let go
    at: int  # its own timestamp
    change: tuple[Any, Any]


@frozen_with_dict
class Suppress(Node):
    """The last change of each key, `limit_ms` after the time of the first one that was held back; of a table with
    windows (`until_closed`), that long after the window's end. Time is that of the changes that come here.

    With more than `max_records` the oldest are let go early (`on_full="emit"`), or it is an error ("fail").
    """

    store: str
    key: Serde
    inner: Serde
    limit_ms: int
    until_closed: bool = False
    max_records: int | None = None
    on_full: str = EMIT

    @property
    def value(self) -> Serde:
        return ChangeSerde(self.inner)

    def spec(self) -> StoreSpec:
        return StoreSpec(
            self.store, (("since", "int64"), ("stamp", "int64"), ("change", "bytes")), time="since"
        )

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        reached = observed(step, self.store, frame.times)
        cells = self.key.encode(frame.keys)
        buffer = _Buffer(self, step.stores[self.store], cells, int(reached[-1]))
        since = self._since(frame)
        changes = zip(objects(frame.values), objects(frame.olds), strict=True)
        walked = zip(
            cells.to_pylist(), since, changes, frame.times.tolist(), reached, frame.order, strict=True
        )
        for place, when, change, at, now, moment in walked:
            buffer.hold(place, when, at, change)
            buffer.let_go(int(now), int(moment))
        return buffer.released(self.key)

    def on_time(self, step: Step) -> Frame:
        if step.moved_ms is None or self.store not in step.marks:
            return EMPTY
        now = step.marks[self.store] = max(step.moved_ms, step.marks[self.store])
        buffer = _Buffer(self, step.stores[self.store], arrow_cells([], pa.binary()), now)
        buffer.let_go(now, 0)
        return buffer.released(self.key)

    def _since(self, frame: Frame) -> list[int]:
        if not self.until_closed:
            return frame.times.tolist()  # type: ignore[no-any-return]
        _, _, ends = parts(frame.keys)
        return ends.tolist()  # type: ignore[no-any-return]


class _Buffer:
    """What is held back, as far as this step can let it go or change it."""

    def __init__(self, node: Suppress, store: KeyedStore, cells: pa.Array, now: int) -> None:
        self._node, self._store = node, store
        self._held: dict[bytes, Held] = {}
        self._queue: list[tuple[int, bytes]] = []
        self._changed: set[bytes] = set()
        self._out: list[tuple[bytes, Held, int]] = []
        self._load(cells, now)
        self._count = len(store)

    def hold(self, place: bytes, since: int, at: int, change: tuple[Any, Any]) -> None:
        before = self._held.get(place)
        if before is None:
            self._count += 1
            heapq.heappush(self._queue, (since, place))
        self._held[place] = Held(since if before is None else before.since, at, change)
        self._changed.add(place)

    def let_go(self, now: int, moment: int) -> None:
        node = self._node
        while self._queue and self._queue[0][0] <= now - node.limit_ms:
            self._pop(moment)
        if node.max_records is None or self._count <= node.max_records:
            return
        if node.on_full == FAIL:
            raise BufferFull(
                f"suppress {node.store} holds {self._count} records, and max_records is {node.max_records}: raise it, "
                'or let go of the oldest with on_full="emit"'
            )
        while self._count > node.max_records:
            self._pop(moment)

    def released(self, key: Serde) -> Frame:
        self._write()
        out = [entry for entry in self._out if not (self._node.until_closed and entry[1].change[0] is None)]
        if not out:
            return EMPTY
        keys: Column = key.decode(arrow_cells([place for place, _, _ in out], pa.binary()))
        news, olds = ([held.change[i] for _, held, _ in out] for i in (0, 1))
        times, order = [held.at for _, held, _ in out], [moment for _, _, moment in out]
        return framed(keys, news, times, order=order, olds=olds)

    def _pop(self, moment: int) -> None:
        _, place = heapq.heappop(self._queue)
        self._out.append((place, self._held.pop(place), moment))
        self._changed.add(place)
        self._count -= 1

    def _load(self, cells: pa.Array, now: int) -> None:
        store, node = self._store, self._node
        due = store.expired(now - node.limit_ms + 1)
        if node.max_records is not None:
            due = np.flatnonzero(store.alive())
        present_rows = store.find(cells.unique())
        rows = np.unique(np.concatenate([due, present_rows[present_rows >= 0]]))
        if not len(rows):
            return
        changes = node.value.decode(store.values(rows))
        numbers = (store["since"][rows].tolist(), store["stamp"][rows].tolist())
        for place, since, at, change in zip(store.keys(rows).to_pylist(), *numbers, changes, strict=True):
            self._held[place] = Held(since, at, change)
            heapq.heappush(self._queue, (since, place))

    def _write(self) -> None:
        present = [place for place in self._changed if place in self._held]
        gone = [place for place in self._changed if place not in self._held]
        if gone:
            rows = self._store.find(arrow_cells(gone, pa.binary()))
            self._store.delete(rows[rows >= 0])
        if present:
            held = [self._held[place] for place in present]
            rows = self._store.rows(arrow_cells(present, pa.binary()))
            self._store["since"][rows] = [change.since for change in held]
            self._store["stamp"][rows] = [change.at for change in held]
            self._store.put_values(rows, self._node.value.encode([change.change for change in held]))
