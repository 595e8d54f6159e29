"""Tables from the records of a stream: one row for each key and window."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.aggregate import COUNT, WindowedAggregate, Windows
from ottla.pipelines.aggregate import Aggregate as Counted
from ottla.pipelines.operators import Step
from ottla.pipelines.state.windows import split_stored_window_keys
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Node, complete
from ottla.streams.serdes import Serde, objects


@dataclass(frozen=True)
class WindowedCount(Node):
    """How many records each key has in each window. A window's row leaves the store when the window has closed.

    Keys of what comes out are pairs of a key and the window's start. `final`: once, when the window has closed.
    """

    store: str
    key: Serde
    windows: Windows
    final: bool = False

    @property
    def aggregate(self) -> WindowedAggregate:
        return WindowedAggregate(self.store, self.windows, (Counted("n", COUNT),), timestamped=True)

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = complete(frame)
        store = step.stores[self.store]
        updated = self.aggregate.update(store, self.key.encode(frame.keys), frame.times, {}, step.time_ms)
        if self.final:
            return EMPTY
        keys, starts, _ = split_stored_window_keys(store.keys(updated.rows))
        return self._frame(keys, starts, store["n"][updated.rows], store.times[updated.rows])

    def on_time(self, step: Step) -> Frame:
        closed = self.aggregate.take_closed(step.stores[self.store], step.time_ms)
        if not self.final or not len(closed.starts):
            return EMPTY
        return self._frame(closed.keys, closed.starts, closed.columns["n"], closed.times)

    def _frame(self, keys: pa.Array, starts: Any, counts: Any, times: Any) -> Frame:
        pairs = list(zip(objects(self.key.decode(keys)), starts.tolist(), strict=True))
        return Frame(pairs, pa.array(counts), times)
