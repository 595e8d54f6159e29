"""A user's processor in the topology."""

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import WALL_MARK, Step
from ottla.pipelines.topology import WALL, TaskId
from ottla.streams.errors import BadTopology
from ottla.streams.frames import EMPTY, Frame, frame
from ottla.streams.nodes.base import Node
from ottla.streams.processors import ALL, Context, Processor, Record, Schedule, StoreDefinition, WindowedStore
from ottla.streams.serdes import objects


@frozen_with_dict
class Process(Node):
    """`make()` gives the processor. `keeps_keys`: what is forwarded has the key of the record at hand."""

    name: str
    make: Callable[[], Processor]
    definitions: tuple[StoreDefinition, ...] = ()
    outputs: tuple[str, ...] = ()
    keeps_keys: bool = False
    one_by_one: bool = False  # it shares a store with another one
    _live: dict[TaskId, tuple[Processor, Context]] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": {}}  # processors are made where they work

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        processor, context = self._at(step)
        columns = (objects(frame.keys), objects(frame.values), frame.times.tolist())
        for key, value, at, headers, place in zip(*columns, frame.header_pairs(), frame.order, strict=True):
            context.record, context.place = Record(key, value, at, headers), int(place)
            step.time_ms = max(step.time_ms, at)
            done = len(context.forwarded)
            processor.process(context.record)
            if self.keeps_keys and any(record.key != key for record, _, _ in context.forwarded[done:]):
                raise BadTopology(f"{self.name}: process_values must not change keys; use process")
        context.record, context.place = None, 0
        return _taken(context)

    def on_time(self, step: Step) -> Frame:
        _, context = self._at(step)
        for number, schedule in enumerate(context.schedules):
            self._punctuate(schedule, number, step)
        for definition in self.definitions:
            if definition.retention_ms is not None:
                store = context.store(definition.name)
                assert isinstance(store, WindowedStore)
                store.expire()
        return _taken(context)

    def _punctuate(self, schedule: Schedule, number: int, step: Step) -> None:
        is_wall = schedule.clock == WALL
        mark = f"{WALL_MARK if is_wall else ''}{self.name}:{number}"
        if schedule.is_cancelled:
            step.marks.pop(mark, None)
            return
        now_ms = step.wall_ms if is_wall else step.time_ms
        # As in Kafka Streams: stream time begins at 0, so the first record is a reason; the wall clock begins now.
        due_ms = step.marks.setdefault(mark, now_ms + schedule.every_ms if is_wall else 0)
        if now_ms >= due_ms:
            step.marks[mark] = schedule.after(due_ms, now_ms)
            schedule.call(now_ms)

    def _at(self, step: Step) -> tuple[Processor, Context]:
        """The processor of this stream task."""
        if step.task not in self._live:
            processor = self.make()
            context = Context(self.definitions, self.outputs, step.task.partition)
            context.begin(step)
            processor.context = context
            processor.init(context)
            self._live[step.task] = processor, context
        processor, context = self._live[step.task]
        context.begin(step)
        return processor, context


@frozen_with_dict
class Child(Node):
    """Of a processor: what was forwarded to the output with this number, or to all."""

    number: int

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        return replace(frame.where((frame.branch == ALL) | (frame.branch == self.number)), branch=None)


def _taken(context: Context) -> Frame:
    forwarded, context.forwarded = context.forwarded, []
    if not forwarded:
        return EMPTY
    records = [record for record, _, _ in forwarded]
    forwarded_frame = frame(
        [record.key for record in records],
        [record.value for record in records],
        [record.time_ms for record in records],
        order=[place for _, _, place in forwarded],
        headers=[_cells(record) for record in records] if any(r.headers for r in records) else None,
    )
    return replace(forwarded_frame, branch=np.array([output for _, output, _ in forwarded]))


def _cells(record: Record) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in record.headers]
