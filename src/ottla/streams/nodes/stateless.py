"""Nodes that look at records alone, without state."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.frames import Frame
from ottla.streams.nodes.base import Function, Node
from ottla.streams.serdes import arrow, objects


@dataclass(frozen=True)
class Filter(Node):
    test: Function | Expression
    keep: bool = True

    def run(self, frame: Frame, step: Step) -> Frame:
        if isinstance(self.test, Expression):
            found = self.test.of(frame.values)
            truth = found.fill_null(False).to_numpy(zero_copy_only=False)
        else:
            truth = np.fromiter((bool(self.test(*pair)) for pair in frame.pairs()), bool, len(frame))
        return frame.where(truth == self.keep)


@dataclass(frozen=True)
class MapValues(Node):
    function: Function | Expression

    def run(self, frame: Frame, step: Step) -> Frame:
        if isinstance(self.function, Expression):
            return frame.with_values(self.function.of(frame.values))
        return frame.with_values([self.function(value) for value in objects(frame.values)])


@dataclass(frozen=True)
class FlatMapValues(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        lists = [list(self.function(value)) for value in objects(frame.values)]
        found = frame.take(frame.repeated([len(each) for each in lists]))
        return found.with_values([value for each in lists for value in each])


@dataclass(frozen=True)
class FlatMap(Node):
    """`function(key, value)` gives pairs."""

    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def run(self, frame: Frame, step: Step) -> Frame:
        lists = [list(self.function(*pair)) for pair in frame.pairs()]
        found = frame.take(frame.repeated([len(each) for each in lists]))
        pairs = [pair for each in lists for pair in each]
        return found.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@dataclass(frozen=True)
class Map(Node):
    """`function(key, value)` gives a pair."""

    function: Callable[[Any, Any], tuple[Any, Any]]

    def run(self, frame: Frame, step: Step) -> Frame:
        pairs = [self.function(*pair) for pair in frame.pairs()]
        return frame.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@dataclass(frozen=True)
class SelectKey(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        return frame.with_keys([self.function(*pair) for pair in frame.pairs()])


@dataclass(frozen=True)
class Peek(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        for pair in frame.pairs():
            self.function(*pair)
        return frame


@dataclass(frozen=True)
class MapBatches(Node):
    """`function` takes and gives an Arrow batch with the columns key, value and timestamp (milliseconds)."""

    function: Callable[[pa.RecordBatch], pa.RecordBatch]

    def run(self, frame: Frame, step: Step) -> Frame:
        columns = [arrow(frame.keys), arrow(frame.values), pa.array(frame.times, pa.int64())]
        found = self.function(pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))
        missing = {"key", "value", "timestamp"} - set(found.schema.names)
        if missing:
            raise BadTopology(f"map_batches: the batch has no column {', '.join(sorted(missing))}")
        times = found.column("timestamp").to_numpy()
        return Frame(found.column("key"), found.column("value"), times)


@dataclass(frozen=True)
class Merge(Node):
    def run(self, frame: Frame, step: Step) -> Frame:
        return frame
