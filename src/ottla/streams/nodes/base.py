"""What every node has, and what the kinds of nodes share."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import known_cells
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.serdes import Column

Function = Callable[..., Any]
EVERY, BATCH = "every", "batch"


class _Base:
    """A `one_by_one` node shares state with others: its sub-topology is given one record at a time. A node that
    `takes_every` change is given a table's trace instead of the last changes of a step."""

    one_by_one = False
    takes_every = False

    def on_time(self, step: Step) -> Frame:
        """What is due now: `step.moved_ms` is how far the wall clock has moved the task, None if it did not."""
        return EMPTY


class Node(_Base, ABC):
    """Its parents' records of a step come in one frame, by their order."""

    @abstractmethod
    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        """The frame for its children. `sides` are this step's changes in the other nodes' stores that it reads."""


class SeparateNode(_Base, ABC):
    """Its parents' records of a step come in a frame for each parent."""

    @abstractmethod
    def run_separate(self, frames: list[Frame], step: Step) -> Frame:
        """The frame for its children."""


AnyNode = Node | SeparateNode


class PassThrough(Node):
    """Shown in the topology; does nothing by itself."""

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return frame


def present(column: Column) -> Any:
    """Which values are not null."""
    if isinstance(column, pa.Array):
        return known_cells(column)
    if not any(map(operator.is_, column, repeat(None))):  # nearly always, and three times as quick
        return np.ones(len(column), bool)
    return np.fromiter((value is not None for value in column), bool, len(column))


def keyed(frame: Frame) -> Frame:
    """Records with a key."""
    has_key = present(frame.keys)
    return frame if has_key.all() else frame.where(has_key)


def complete(frame: Frame) -> Frame:
    """Records with a key and a value: as in Kafka Streams the others say nothing to an aggregate or an inner join."""
    is_complete = present(frame.keys) & present(frame.values)
    return frame if is_complete.all() else frame.where(is_complete)


def observed(step: Step, name: str, times: Any) -> Any:
    """The stream time of a node at each of its records: the greatest timestamp that has reached it by then.

    Each node has its own, as in Kafka Streams: a filter before a window holds the window's time back.
    """
    reached = np.maximum.accumulate(np.maximum(times, step.marks.get(name, -1)))
    if len(reached):
        step.marks[name] = int(reached[-1])
    return reached
