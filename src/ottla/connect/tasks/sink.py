"""A sink as a pipeline: a stage for each topic, whose operator writes to the other side before the step commits."""

import os
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.values import TopicPartition
from ottla.connect.errors import DataError
from ottla.connect.spi import Sink, SinkBatch, SinkRecord
from ottla.connect.tasks.conversion import SinkConversion, to_rows
from ottla.connect.tasks.handling import Failure, error_headers
from ottla.connect.tasks.source import topic_row
from ottla.connect.tasks.spec import Spec
from ottla.pipelines.operators import Operator, Step
from ottla.pipelines.topology import EVENTS, Pipeline, Stage

Failed = list[tuple[dict[str, Any], Failure]]  # raw records, and what went wrong with each
COLUMNS = ("key", "value", "offset", "timestampType", "headers")


def pipeline(spec: Spec, topics: Sequence[str], run_id: str) -> Pipeline:
    """The group is Connect's; its offsets are the positions."""
    outputs = tuple(filter(None, (dead_letters(spec), spec.status_topic)))
    stages = tuple(
        Stage(
            topic,
            (topic,),
            partial(SinkOperator, spec, topic, run_id),
            outputs=outputs,
            clock=EVENTS,
            columns=COLUMNS,
        )
        for topic in topics
    )
    own = spec.client("consumer")
    start = "latest" if own.pop("auto.offset.reset", "earliest") == "latest" else "earliest"
    records_max = int(own.pop("max.poll.records", 50_000))
    return Pipeline(spec.group, stages, own, start=start, records_max=records_max)


def dead_letters(spec: Spec) -> str | None:
    return spec.config.get("errors.deadletterqueue.topic.name") or None


class SinkOperator(Operator):
    def __init__(self, spec: Spec, topic: str, run_id: str) -> None:
        self._spec, self._topic = spec, topic
        self._shared = _shared(spec, run_id)
        self._told = False

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        where = TopicPartition(self._topic, step.task.partition)
        failed: Failed = []
        with self._shared.lock:
            self._shared.step(where, rows, failed)
        self._emit(step, where, failed)

    def _emit(self, step: Step, where: TopicPartition, failed: Failed) -> None:
        letters, status = dead_letters(self._spec), self._spec.status_topic
        if failed and letters:
            step.emit(letters, self._letters(where, failed))
        if status is not None and not self._told:
            self._told = True
            step.emit(status, topic_row(self._topic, self._spec.name))

    def _letters(self, where: TopicPartition, failed: Failed) -> pa.RecordBatch:
        explained = self._shared.explains
        rows = []
        for row, failure in failed:
            headers = [(each["key"], each["value"]) for each in row.get("headers") or ()]
            if explained:
                headers += error_headers(failure, *where, row["offset"], self._spec.name, 0)
            rows.append({"key": row["key"], "value": row["value"], "headers": headers})
        return to_rows(rows)


class SharedSink:
    """The sink of one run of a connector in this process: all its topic partitions write through it, one at a time."""

    def __init__(self, spec: Spec) -> None:
        self.lock = threading.Lock()
        config = spec.parsed()
        self.explains = config["errors.deadletterqueue.context.headers.enable"]
        self._conversion = SinkConversion(config)
        self.sink: Sink = spec.sink()

    def step(self, where: TopicPartition, rows: pa.RecordBatch, failed: Failed) -> None:
        end = rows.column("offset")[-1].as_py() + 1
        handling = self._conversion.handling
        try:
            positions = handling.retried(self.sink.positions, [where])
            begin = (positions or {}).get(where)
            if begin is not None:
                rows = rows.filter(pc.greater_equal(rows.column("offset"), begin))
            if rows.num_rows:
                handling.retried(self._write, where, rows, end, failed)
            if begin is None or begin < end:
                self.sink.commit({where: end})
        except BaseException:
            self.sink.rollback()
            raise

    def _write(
        self,
        where: TopicPartition,
        rows: pa.RecordBatch,
        end: int,
        failed: Failed,
    ) -> None:
        conversion = self._conversion

        def records() -> Sequence[SinkRecord]:
            made, wrong = conversion.records(where, rows)
            failed.extend(wrong)
            return made

        failed.clear()  # of an earlier try
        begin = rows.column("offset")[0].as_py()
        batch = SinkBatch(where, records, begin, end, lambda: conversion.columns(where, rows))
        try:
            self.sink.write(batch)
        except DataError:
            if not conversion.handling.tolerant:
                raise
            self._one_by_one(where, rows, failed)

    def _one_by_one(
        self,
        where: TopicPartition,
        rows: pa.RecordBatch,
        failed: Failed,
    ) -> None:
        """A sink refused a batch because of its records: all but the bad ones are written."""
        self.sink.rollback()
        self.sink.positions([where])
        failed.clear()
        for index in range(rows.num_rows):
            row = rows.slice(index, 1)
            made, wrong = self._conversion.records(where, row)
            failed.extend(wrong)
            offset = row.column("offset")[0].as_py()
            try:
                if made:
                    self.sink.write(SinkBatch(where, lambda made=made: made, offset, offset + 1, None))  # type: ignore[misc]
            except DataError as problem:
                failure = Failure("TASK_PUT", type(self.sink).__name__, problem)
                self._conversion.handling.report(failure, f"{where} offset {offset}")
                failed.append((row.to_pylist()[0], failure))

    def close(self) -> None:
        self.sink.close()


_sinks: dict[tuple[int, str], SharedSink] = {}


def _shared(spec: Spec, run_id: str) -> SharedSink:
    """The one of this run; those of earlier runs in this process are closed. Not inherited by a fork."""
    place = os.getpid(), run_id
    if place not in _sinks:
        close_runs(spec.name)
        _sinks[place] = SharedSink(spec)
        _names[place] = spec.name
    return _sinks[place]


_names: dict[tuple[int, str], str] = {}


def close_runs(name: str) -> None:
    for place in [place for place, other in _names.items() if other == name and place[0] == os.getpid()]:
        _names.pop(place)
        _sinks.pop(place).close()
