"""A graph as the stages of a pipeline: one operator for each sub-topology."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.globals import GlobalTable
from ottla.pipelines.operators import WALL_MARK, Operator, Step
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.topology import Stage
from ottla.streams.frames import EMPTY, Frame, merged
from ottla.streams.graph import Graph, Placed
from ottla.streams.guarding import Guard, Policy, shown
from ottla.streams.nodes import Node, SeparateNode, Sink, Source
from ottla.streams.nodes.foreign import ForeignJoin
from ottla.streams.nodes.processor import Process
from ottla.streams.nodes.topics import part_of
from ottla.streams.serdes import milliseconds

COLUMNS = ("key", "value", "headers")


def stages(graph: Graph, policy: Policy, **timing: object) -> tuple[Stage, ...]:
    """For a pipeline."""
    parts = [part for part in graph.parts() if any(isinstance(placed.node, Source) for placed in part)]
    return tuple(_stage(index, part, policy, timing) for index, part in enumerate(parts))


def global_tables(graph: Graph) -> tuple[GlobalTable, ...]:
    return tuple(
        GlobalTable(table.topic, StoreSpec(name, (("value", "bytes"),), timestamped=True))
        for name, table in graph.globals.items()
    )


def _stage(index: int, part: list[Placed], policy: Policy, timing: dict[str, object]) -> Stage:
    inputs = [placed.node.topic for placed in part if isinstance(placed.node, Source)]
    outputs = [placed.node.topic for placed in part if isinstance(placed.node, Sink)]
    return Stage(
        str(index),
        tuple(dict.fromkeys(inputs)),
        _Making(tuple(part), policy),
        tuple(store for placed in part for store in placed.stores),
        tuple(dict.fromkeys([*outputs, *policy.outputs])),
        columns=(*COLUMNS, *policy.columns),
        # There a row must come before the answer to it, whatever their times are.
        abreast=not any(isinstance(placed.node, ForeignJoin) for placed in part),
        **timing,  # type: ignore[arg-type]
    )


@frozen_with_dict
class _Making:
    part: tuple[Placed, ...]
    policy: Policy

    def __call__(self) -> "Flow":
        return Flow(self.part, self.policy)


class Flow(Operator):
    """A sub-topology at work. All records of a step go through it at once, node by node; where frames meet, the order
    of their records decides. Nodes that share state need one record at a time instead."""

    def __init__(self, part: Iterable[Placed], policy: Policy) -> None:
        self._part = tuple(part)
        self._guard = Guard(policy)
        self._names = {placed.node.name for placed in self._part if isinstance(placed.node, Process)}
        self._one_by_one = any(placed.node.one_by_one for placed in self._part)
        self._timed = {p.number for p in self._part if type(p.node).on_time is not Node.on_time}
        self._sources = [(placed, placed.node) for placed in self._part if isinstance(placed.node, Source)]
        self._several = len({source.name for _, source in self._sources}) > 1

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        slices = [rows.slice(at, 1) for at in range(rows.num_rows)] if self._one_by_one else [rows]
        for part in slices:
            frames: dict[int, Frame] = {}
            self._guard.begin(part)
            for placed, source in self._sources:
                mine, order = part_of(part, source.name) if self._several else (part, np.arange(len(part)))
                frames[placed.number] = self._guard.read(source, mine, order, step) if len(order) else EMPTY
            self._through(frames, step)
            if self._one_by_one:
                step.time_ms = max(step.time_ms, int(milliseconds(part.column("timestamp")).max()))

    def advance(self, step: Step) -> None:
        self._drop_marks(step)
        self._guard.begin(None)
        frames: dict[int, Frame] = {}
        for placed in self._part if self._timed else ():
            if frames:
                self._run(placed, frames, step)
            due = self._guard.on_time(placed.node, step) if placed.number in self._timed else EMPTY
            if len(due):
                frames[placed.number] = merged([frames.get(placed.number, EMPTY), due])
        step.show(**shown(step))

    def _drop_marks(self, step: Step) -> None:
        """Those of nodes that an earlier version of the application had."""
        for mark in [mark for mark in step.marks if mark.startswith(WALL_MARK)]:
            if mark.removeprefix(WALL_MARK).rpartition(":")[0] not in self._names:
                del step.marks[mark]

    def _through(self, frames: dict[int, Frame], step: Step) -> None:
        for placed in self._part:
            if placed.number not in frames:
                self._run(placed, frames, step)

    def _run(self, placed: Placed, frames: dict[int, Frame], step: Step) -> None:
        node = placed.node
        inputs = [frames.get(parent, EMPTY) for parent in placed.parents]
        if node.takes_every:
            inputs = [_traced(frame) for frame in inputs]
        if not any(len(frame) for frame in inputs):
            frames[placed.number] = EMPTY
        elif isinstance(node, SeparateNode):
            frames[placed.number] = self._guard.run_separate(node, inputs, step)
        else:
            sides = [_traced(frames.get(number, EMPTY)) for number in placed.reads]
            frames[placed.number] = self._guard.run(node, merged(inputs), step, *sides)


def _traced(frame: Frame) -> Frame:
    return frame if frame.trace is None else frame.trace
