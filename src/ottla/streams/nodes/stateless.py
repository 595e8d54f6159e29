"""Nodes that look at records alone, without state."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.frames import Frame
from ottla.streams.nodes.base import Function, Node, keyed
from ottla.streams.serdes import arrow, objects


@dataclass(frozen=True)
class Filter(Node):
    test: Function | Expression
    keep: bool = True

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return frame.where(truth(self.test, frame) == self.keep)


class HasKey(Node):
    """Before an internal topic, which has no place for records without key."""

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return keyed(frame)


def truth(test: Function | Expression, frame: Frame) -> Any:
    """For each record; null counts as false."""
    if isinstance(test, Expression):
        return test.of(frame.values).fill_null(False).to_numpy(zero_copy_only=False)
    return np.fromiter((bool(test(key, value)) for key, value in frame.zipped()), bool, len(frame))


@dataclass(frozen=True)
class MapValues(Node):
    function: Function | Expression

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if isinstance(self.function, Expression):
            return frame.with_values(self.function.of(frame.values))
        function = self.function
        return frame.with_values([function(value) for value in objects(frame.values)])


@dataclass(frozen=True)
class FlatMapValues(Node):
    function: Function

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        lists = [list(self.function(value)) for value in objects(frame.values)]
        found = frame.take(frame.repeated([len(values) for values in lists]))
        return found.with_values([value for values in lists for value in values])


@dataclass(frozen=True)
class FlatMap(Node):
    """`function(key, value)` gives pairs."""

    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        lists = [list(self.function(*pair)) for pair in frame.pairs()]
        found = frame.take(frame.repeated([len(pairs) for pairs in lists]))
        pairs = [pair for pairs in lists for pair in pairs]
        return found.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@dataclass(frozen=True)
class Map(Node):
    """`function(key, value)` gives a pair."""

    function: Callable[[Any, Any], tuple[Any, Any]]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        pairs = [self.function(*pair) for pair in frame.pairs()]
        return frame.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@dataclass(frozen=True)
class SelectKey(Node):
    """By `function(key, value)`, or an expression over the value."""

    function: Function | Expression

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if isinstance(self.function, Expression):
            return frame.with_keys(self.function.of(frame.values))
        function = self.function
        return frame.with_keys([function(key, value) for key, value in frame.zipped()])


@dataclass(frozen=True)
class Peek(Node):
    function: Function

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        for pair in frame.pairs():
            self.function(*pair)
        return frame


@dataclass(frozen=True)
class Print(Node):
    """In the words of Kafka's `Printed`: [label]: key, value."""

    label: str

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        for key, value in frame.pairs():
            sys.stdout.write(f"[{self.label}]: {key}, {value}\n")
        return frame


@dataclass(frozen=True)
class MapBatches(Node):
    """`function` takes and gives an Arrow batch with the columns key, value and timestamp (milliseconds).

    Headers stay with their records only if as many come out as went in.
    """

    function: Callable[[pa.RecordBatch], pa.RecordBatch]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        columns = [arrow(frame.keys), arrow(frame.values), pa.array(frame.times, pa.int64())]
        found = self.function(pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))
        missing = {"key", "value", "timestamp"} - set(found.schema.names)
        if missing:
            raise BadTopology(f"map_batches: the batch has no column {', '.join(sorted(missing))}")
        times = found.column("timestamp").to_numpy()
        same = found.num_rows == len(frame)
        last = np.full(len(times), frame.order[-1] if len(frame) else 0, np.int64)
        return Frame(
            found.column("key"),
            found.column("value"),
            times,
            frame.order if same else last,
            headers=frame.headers if same else None,
        )


@dataclass(frozen=True)
class Merge(Node):
    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return frame


@dataclass(frozen=True)
class Branch(Node):
    """Numbers the first test that holds; records that none takes have the number behind the last."""

    tests: tuple[Function | Expression, ...]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        branch = np.full(len(frame), len(self.tests), np.int64)
        for number, test in enumerate(self.tests):
            left = np.flatnonzero(branch == len(self.tests))
            if not len(left):
                break
            holds = truth(test, frame.take(left))
            branch[left[holds]] = number
        return replace(frame, branch=branch)


@dataclass(frozen=True)
class BranchChild(Node):
    number: int

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return replace(frame.where(frame.branch == self.number), branch=None)
