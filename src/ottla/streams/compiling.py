"""A graph as the stages of a pipeline: one operator for each sub-topology."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.globals import GlobalTable
from ottla.pipelines.operators import Operator, Step
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.topology import Stage
from ottla.streams.frames import EMPTY, Frame, merged
from ottla.streams.graph import Graph, Placed
from ottla.streams.nodes import Sink, Source
from ottla.streams.nodes.topics import part_of

COLUMNS = ("key", "value", "headers")


def stages(graph: Graph, **timing: object) -> tuple[Stage, ...]:
    """For a pipeline."""
    parts = [part for part in graph.parts() if any(isinstance(placed.node, Source) for placed in part)]
    return tuple(_stage(index, part, timing) for index, part in enumerate(parts))


def global_tables(graph: Graph) -> tuple[GlobalTable, ...]:
    return tuple(
        GlobalTable(table.topic, StoreSpec(name, (("value", "bytes"),), timestamped=True))
        for name, table in graph.globals.items()
    )


def _stage(index: int, part: list[Placed], timing: dict[str, object]) -> Stage:
    inputs = [placed.node.topic for placed in part if isinstance(placed.node, Source)]
    outputs = [placed.node.topic for placed in part if isinstance(placed.node, Sink)]
    return Stage(
        str(index),
        tuple(dict.fromkeys(inputs)),
        _Making(tuple(part)),
        tuple(store for placed in part for store in placed.stores),
        tuple(dict.fromkeys(outputs)),
        columns=COLUMNS,
        **timing,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class _Making:
    part: tuple[Placed, ...]

    def __call__(self) -> "Flow":
        return Flow(self.part)


class Flow(Operator):
    """A sub-topology at work. All records of a step go through it at once, node by node; where frames meet, the order
    of their records decides. Nodes that share state need one record at a time instead."""

    def __init__(self, part: Iterable[Placed]) -> None:
        self._part = tuple(part)
        self._one_by_one = any(placed.node.one_by_one for placed in self._part)

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        slices = [rows.slice(at, 1) for at in range(rows.num_rows)] if self._one_by_one else [rows]
        for part in slices:
            frames: dict[int, Frame] = {}
            for placed in self._part:
                if isinstance(placed.node, Source):
                    mine, order = part_of(part, placed.node.name)
                    frames[placed.number] = placed.node.read(mine, order) if len(order) else EMPTY
            self._through(frames, step)
            if self._one_by_one:
                newest = int(part.column("timestamp").cast(pa.int64()).to_numpy().max()) // 1000
                step.time_ms = max(step.time_ms, newest)

    def advance(self, step: Step) -> None:
        frames: dict[int, Frame] = {}
        for placed in self._part:
            self._run(placed, frames, step)
            due = placed.node.on_time(step)
            if len(due):
                frames[placed.number] = merged([frames[placed.number], due])

    def _through(self, frames: dict[int, Frame], step: Step) -> None:
        for placed in self._part:
            if placed.number not in frames:
                self._run(placed, frames, step)

    def _run(self, placed: Placed, frames: dict[int, Frame], step: Step) -> None:
        node = placed.node
        given = [frames.get(parent, EMPTY) for parent in placed.parents]
        if not any(len(frame) for frame in given):
            frames[placed.number] = EMPTY
        elif node.separate:
            frames[placed.number] = node.run_separate(given, step)
        else:
            sides = [_traced(frames.get(number, EMPTY)) for number in placed.reads]
            frames[placed.number] = node.run(merged(given), step, *sides)


def _traced(frame: Frame) -> Frame:
    return frame if frame.trace is None else frame.trace
