"""Several streams into one table: each has its own function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame, merged
from ottla.streams.nodes.aggregates import Aggregate
from ottla.streams.nodes.base import Node, complete, keyed, observed
from ottla.streams.nodes.windows import Closing, WindowedAggregate
from ottla.streams.serdes import objects


@dataclass(frozen=True)
class ByStream:
    """The function of the stream that a value came from."""

    functions: tuple[Callable[[Any, Any, Any], Any], ...]

    def __call__(self, key: Any, value: tuple[int, Any], aggregate: Any) -> Any:
        side, inner = value
        return self.functions[side](key, inner, aggregate)


@dataclass(frozen=True)
class Cogroup(Node):
    """Values are numbered by their stream and go into one aggregate in their order."""

    separate = True

    aggregate: Aggregate | Closing

    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        wanted = keyed if isinstance(self.aggregate, Closing) else complete
        numbered = [
            each.with_values([(side, value) for value in objects(each.values)])
            for side, each in enumerate(map(wanted, frames))
        ]
        whole = merged(numbered)
        if not len(whole):
            return EMPTY
        if type(self.aggregate) is not WindowedAggregate:
            return self.aggregate.run(whole, step)
        return self.aggregate.take(whole, step, self._reached(self.aggregate, numbered, step))

    def _reached(self, node: WindowedAggregate, frames: list[Frame], step: Step) -> Any:
        """Each stream has a time of its own. A window is closed when it is for all of them."""
        names = [f"{node.store}.{side}" for side in range(len(frames))]
        times = [observed(step, name, frame.times) for name, frame in zip(names, frames, strict=True)]
        step.marks[node.store] = min(step.marks.get(name, -1) for name in names)
        order = np.argsort(np.concatenate([frame.order for frame in frames]), kind="stable")
        return np.concatenate(times)[order]

    def on_time(self, step: Step) -> Frame:
        return self.aggregate.on_time(step)
