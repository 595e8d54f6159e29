"""What every node has, and what the kinds of nodes share."""

import operator
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.serdes import Column

Function = Callable[..., Any]
EVERY, BATCH = "every", "batch"


class Node:
    """`run` is given what the parents made of the records of a step, and gives what its children get.

    A node that reads the stores of other nodes is also given their changes in this step (`sides`). A `separate` node
    is given a frame for each parent instead of all in one. A `one_by_one` node shares state with others: its
    sub-topology is given one record at a time.
    """

    separate = False
    one_by_one = False

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        raise NotImplementedError

    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        raise NotImplementedError

    def on_time(self, step: Step) -> Frame:
        """What is due now: `step.moved_ms` is how far the wall clock has moved the task, None if it did not."""
        return EMPTY


class PassThrough(Node):
    """Shown in the topology; does nothing by itself."""

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return frame


def present(column: Column) -> Any:
    """Which values are not null."""
    if isinstance(column, pa.Array):
        if not column.null_count:
            return np.ones(len(column), bool)
        return column.is_valid().to_numpy(zero_copy_only=False)
    if not any(map(operator.is_, column, repeat(None))):  # nearly always, and three times as quick
        return np.ones(len(column), bool)
    return np.fromiter((value is not None for value in column), bool, len(column))


def keyed(frame: Frame) -> Frame:
    """Records with a key."""
    found = present(frame.keys)
    return frame if found.all() else frame.where(found)


def complete(frame: Frame) -> Frame:
    """Records with a key and a value: as in Kafka Streams the others say nothing to an aggregate or an inner join."""
    found = present(frame.keys) & present(frame.values)
    return frame if found.all() else frame.where(found)


def observed(step: Step, name: str, times: Any) -> Any:
    """The stream time of a node at each of its records: the greatest timestamp that has reached it by then.

    Each node has its own, as in Kafka Streams: a filter before a window holds the window's time back.
    """
    reached = np.maximum.accumulate(np.maximum(times, step.marks.get(name, -1)))
    if len(reached):
        step.marks[name] = int(reached[-1])
    return reached
