"""A graph as the stages of a pipeline: one operator for each sub-topology."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import WALL_MARK, Operator, Step
from ottla.pipelines.topology import Stage
from ottla.streams.frames import EMPTY, Frame, merged
from ottla.streams.graph import Graph, Placed
from ottla.streams.guarding import Guard, Policy, shown
from ottla.streams.nodes import Sink, Source
from ottla.streams.nodes.processor import Process
from ottla.streams.serdes import milliseconds


def stages(graph: Graph, policy: Policy, **timing: object) -> tuple[Stage, ...]:
    """For a pipeline."""
    return tuple(_stage(index, part, policy, timing) for index, part in enumerate(graph.parts()))


def _stage(index: int, part: list[Placed], policy: Policy, timing: dict[str, object]) -> Stage:
    inputs = [placed.node.topic for placed in part if isinstance(placed.node, Source)]
    outputs = [placed.node.topic for placed in part if isinstance(placed.node, Sink)]
    return Stage(
        str(index),
        tuple(dict.fromkeys(inputs)),
        _Making(tuple(part), policy),
        tuple(store for placed in part for store in placed.stores),
        tuple(dict.fromkeys([*outputs, *policy.outputs])),
        columns=("key", "value", "headers", *policy.columns),
        **timing,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class _Making:
    part: tuple[Placed, ...]
    policy: Policy

    def __call__(self) -> "Flow":
        return Flow(self.part, self.policy)


class Flow(Operator):
    """A sub-topology at work. Records of several topics go through it in their merged order, run by run."""

    def __init__(self, part: Iterable[Placed], policy: Policy) -> None:
        self._guard = Guard(policy)
        self._part = tuple(part)
        self._names = {placed.node.name for placed in self._part if isinstance(placed.node, Process)}

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        for topic, run in runs(rows):
            self._run(topic, run, step)
            # The next records meet the time that these have brought.
            step.time_ms = max(step.time_ms, int(milliseconds(run.column("timestamp")).max()))

    def advance(self, step: Step) -> None:
        self._drop_marks(step)
        frames: dict[int, Frame] = {}
        for placed in self._part:
            given = merged([frames[parent] for parent in placed.parents])
            made = self._guard.run(placed.node, given, step)
            frames[placed.number] = merged([made, self._guard.on_time(placed.node, step)])
        step.show(**shown(step))

    def _drop_marks(self, step: Step) -> None:
        """Those of nodes that an earlier version of the application had."""
        for mark in [mark for mark in step.marks if mark.startswith(WALL_MARK)]:
            if mark.removeprefix(WALL_MARK).rpartition(":")[0] not in self._names:
                del step.marks[mark]

    def _run(self, topic: str, rows: pa.RecordBatch, step: Step) -> None:
        frames: dict[int, Frame] = {}
        for placed in self._part:
            node = placed.node
            if isinstance(node, Source):
                frames[placed.number] = self._guard.read(node, rows, step) if node.name == topic else EMPTY
            else:
                given = merged([frames[parent] for parent in placed.parents])
                frames[placed.number] = self._guard.run(node, given, step)


def runs(rows: pa.RecordBatch) -> list[tuple[str, pa.RecordBatch]]:
    """Neighbours of one topic."""
    topics = rows.column("topic")
    if not rows.num_rows:
        return []
    if rows.num_rows == 1 or len(pc.unique(topics)) == 1:
        return [(topics[0].as_py(), rows)]
    names = topics.to_pylist()
    edges = [0, *(at for at in range(1, len(names)) if names[at] != names[at - 1]), len(names)]
    return [(names[a], rows.slice(a, b - a)) for a, b in pairwise(edges)]
