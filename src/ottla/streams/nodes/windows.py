"""Tables from the records of a stream: one row for each key and window of fixed size, and windows that close."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.aggregate import Windows
from ottla.pipelines.operators import Step
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.windows import split_stored_window_keys, stored_window_keys
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.aggregates import Keeping, given_out
from ottla.streams.nodes.base import BATCH, EVERY, Node, keyed, observed
from ottla.streams.serdes import Serde, pick, windowed

SESSION = "session"


class Closing(Node, ABC):
    """What all nodes with windows share: rows leave the store when their window takes no more records.

    A node that gives each window once when it closes (`Final`) takes the rows out itself: then `closes` is False.
    """

    store: str
    key: Serde
    keeping: Keeping
    closes: bool
    stored_as: str | None = None

    @property
    def value(self) -> Serde:
        return getattr(self.keeping, "shown", None) or self.keeping.value

    @abstractmethod
    def closed(self, step: Step) -> Any:
        """The rows of windows that take no more records, by end and key."""

    @abstractmethod
    def windows_of(self, cells: pa.Array) -> tuple[pa.Array, Any, Any]:
        """Keys, starts and ends from the store's keys."""

    def on_time(self, step: Step) -> Frame:
        if step.moved_ms is not None:
            step.marks[self.store] = max(step.moved_ms, step.marks.get(self.store, -1))
            self.drop_closed(step)
        return EMPTY

    def drop_closed(self, step: Step) -> None:
        """Called before the records of a step: what was closed by those of the last one."""
        if self.closes and self.store in step.marks:
            rows = self.closed(step)
            if len(rows):
                step.stores[self.store].delete(rows)


@dataclass
class WindowedAggregate(Closing):
    """Tumbling and hopping windows. Records without value count, as in Kafka Streams; those without key do not."""

    store: str
    key: Serde
    keeping: Keeping
    windows: Windows
    emit: str = BATCH
    traced: bool = False
    closes: bool = True

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        self.drop_closed(step)
        frame = keyed(frame)
        return self.take(frame, step, observed(step, self.store, frame.times)) if len(frame) else EMPTY

    def take(self, frame: Frame, step: Step, reached: Any) -> Frame:
        """Records with keys, and the time at each of them."""
        index, starts = self.windows.of(frame.times)
        is_open = self.windows.are_open(starts, reached[index])
        index, starts = index[is_open], starts[is_open]
        if not len(index):
            return EMPTY
        expanded = frame.take(index)
        cells = stored_window_keys(self.key.encode(expanded.keys), starts)
        every = self.emit == EVERY or self.traced
        changes = self.keeping.update(step.stores[self.store], cells, expanded, every=every)
        starts = starts[changes.index]
        keys = windowed(pick(expanded.keys, changes.index), starts, starts + self.windows.size_ms)
        results = replace(
            expanded.take(changes.index),
            keys=keys,
            values=changes.news,
            olds=changes.olds,
            times=changes.times,
        )
        return given_out(results, cells, self.emit, self.keeping, traced=self.traced)

    def closed(self, step: Step) -> Any:
        store = step.stores[self.store]
        before = step.marks[self.store] - self.windows.grace_ms - self.windows.size_ms + 1
        rows = store.expired(before)
        if not len(rows):
            return rows
        by_start = pa.table({"start": store.window_starts[rows], "key": store.keys(rows)})
        return rows[pc.sort_indices(by_start, [("start", "ascending"), ("key", "ascending")]).to_numpy()]

    def windows_of(self, cells: pa.Array) -> tuple[pa.Array, Any, Any]:
        keys, starts, _ = split_stored_window_keys(cells)
        return keys, starts, starts + self.windows.size_ms


@dataclass
class Final(Node):
    """Each window of `node` once, when it takes no more records; its row leaves the store then."""

    node: Closing

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return self._taken(step, frame.order[-1])

    def on_time(self, step: Step) -> Frame:
        return self._taken(step, 0)

    def _taken(self, step: Step, moment: int) -> Frame:
        node = self.node
        if node.store not in step.marks:
            return EMPTY
        rows = node.closed(step)
        if not len(rows):
            return EMPTY
        store = step.stores[node.store]
        keys, starts, ends = node.windows_of(store.keys(rows))
        values, times = node.value.decode(store.encoded(rows)), store.times[rows]
        store.delete(rows)
        window_keys = windowed(node.key.decode(keys), starts, ends)
        at = ends if node.stored_as == SESSION else times
        return framed(window_keys, values, at, order=np.full(len(rows), moment), olds=[None] * len(rows))
