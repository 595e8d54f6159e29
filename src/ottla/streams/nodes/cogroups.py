"""Several streams into one table: each has its own function."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame, merged
from ottla.streams.nodes.aggregates import Aggregate
from ottla.streams.nodes.base import SeparateNode, complete, keyed, observed
from ottla.streams.nodes.sliding import SlidingAggregate
from ottla.streams.nodes.windows import Closing, WindowedAggregate
from ottla.streams.serdes import objects


@frozen_with_dict
class ByStream:
    """The function of the stream that a value came from."""

    functions: tuple[Callable[[Any, Any, Any], Any], ...]

    def __call__(self, key: Any, value: tuple[int, Any], aggregate: Any) -> Any:
        side, inner = value
        return self.functions[side](key, inner, aggregate)


@frozen_with_dict
class Cogroup(SeparateNode):
    """Values are numbered by their stream and go into one aggregate in their order."""

    aggregate: Aggregate | Closing
    streams: int

    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        needs_value = isinstance(self.aggregate, Aggregate | SlidingAggregate)
        wanted = complete if needs_value else keyed
        numbered = [
            frame.with_values([(side, value) for value in objects(frame.values)])
            for side, frame in enumerate(map(wanted, frames))
        ]
        whole = merged(numbered)
        if not len(whole):
            return EMPTY
        if type(self.aggregate) is not WindowedAggregate:
            return self.aggregate.run(whole, step)
        self.aggregate.drop_closed(step)
        return self.aggregate.take(whole, step, self._reached(self.aggregate, numbered, step))

    def _reached(self, node: WindowedAggregate, frames: list[Frame], step: Step) -> Any:
        """Each stream has a time of its own. A window is closed when it is for all of them."""
        names = self._names(node)
        times = [observed(step, name, frame.times) for name, frame in zip(names, frames, strict=True)]
        step.marks[node.store] = min(step.marks.get(name, -1) for name in names)
        order = np.argsort(np.concatenate([frame.order for frame in frames]), kind="stable")
        return np.concatenate(times)[order]

    def on_time(self, step: Step) -> Frame:
        if step.moved_ms is not None and type(self.aggregate) is WindowedAggregate:
            for name in self._names(self.aggregate):
                step.marks[name] = max(step.moved_ms, step.marks.get(name, -1))
        return self.aggregate.on_time(step)

    def _names(self, node: WindowedAggregate) -> list[str]:
        """The marks of the streams' times."""
        return [f"{node.store}.{side}" for side in range(self.streams)]
