"""Nodes that look at records alone, without state."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_column
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.frames import Frame
from ottla.streams.nodes.base import Function, Node, keyed
from ottla.streams.serdes import arrow, objects


@frozen_with_dict
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
    answers = map(test, objects(frame.keys), objects(frame.values))
    return np.fromiter(map(bool, answers), bool, len(frame))


@frozen_with_dict
class MapValues(Node):
    function: Function | Expression

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if isinstance(self.function, Expression):
            return frame.with_values(self.function.of(frame.values))
        return frame.with_values(list(map(self.function, objects(frame.values))))


@frozen_with_dict
class FlatMapValues(Node):
    function: Function

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        counts, values = _flattened(map(self.function, objects(frame.values)))
        return frame.spread(counts, values)


def _flattened(results: Iterable[Iterable[Any]]) -> tuple[Any, list[Any]]:
    """How many each gave, and all that they gave. No result outlives its turn: with hundreds of thousands of small
    lists, Python's garbage collector would be the larger part of the work."""
    counts: list[int] = []
    flat: list[Any] = []
    for some in results:
        before = len(flat)
        flat.extend(some)
        counts.append(len(flat) - before)
    return np.array(counts, np.int64), flat


@frozen_with_dict
class FlatMap(Node):
    """`function(key, value)` gives pairs."""

    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        counts, pairs = _flattened(map(self.function, objects(frame.keys), objects(frame.values)))
        return frame.spread(counts, [value for _, value in pairs], [key for key, _ in pairs])


@frozen_with_dict
class Map(Node):
    """`function(key, value)` gives a pair."""

    function: Callable[[Any, Any], tuple[Any, Any]]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        pairs = [self.function(*pair) for pair in frame.pairs()]
        return frame.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@frozen_with_dict
class SelectKey(Node):
    """By `function(key, value)`, or an expression over the value."""

    function: Function | Expression

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        if isinstance(self.function, Expression):
            return frame.with_keys(self.function.of(frame.values))
        return frame.with_keys(list(map(self.function, objects(frame.keys), objects(frame.values))))


@frozen_with_dict
class Peek(Node):
    function: Function

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        for pair in frame.pairs():
            self.function(*pair)
        return frame


@frozen_with_dict
class Print(Node):
    """In the words of Kafka's `Printed`: [label]: key, value."""

    label: str

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        for key, value in frame.pairs():
            sys.stdout.write(f"[{self.label}]: {key}, {value}\n")
        return frame


@frozen_with_dict
class MapBatches(Node):
    """`function` takes and gives an Arrow batch with the columns key, value and timestamp (milliseconds).

    Headers stay with their records only if as many come out as went in.
    """

    function: Callable[[pa.RecordBatch], pa.RecordBatch]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        columns = [arrow(frame.keys), arrow(frame.values), arrow_column(frame.times)]
        batch = self.function(pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))
        missing = {"key", "value", "timestamp"} - set(batch.schema.names)
        if missing:
            raise BadTopology(f"map_batches: the batch has no column {', '.join(sorted(missing))}")
        times = batch.column("timestamp").to_numpy()
        same = batch.num_rows == len(frame)
        last = np.full(len(times), frame.order[-1] if len(frame) else 0, np.int64)
        return Frame(
            batch.column("key"),
            batch.column("value"),
            times,
            frame.order if same else last,
            headers=frame.headers if same else None,
        )


@frozen_with_dict
class Merge(Node):
    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return frame


@frozen_with_dict
class Branch(Node):
    """Numbers the first test that holds; records that none takes have the number behind the last."""

    tests: tuple[Function | Expression, ...]

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        branch = np.full(len(frame), len(self.tests), np.int64)
        for number, test in enumerate(self.tests):
            undecided = np.flatnonzero(branch == len(self.tests))
            if not len(undecided):
                break
            holds = truth(test, frame.take(undecided))
            branch[undecided[holds]] = number
        return replace(frame, branch=branch)


@frozen_with_dict
class BranchChild(Node):
    number: int

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return replace(frame.where(frame.branch == self.number), branch=None)
