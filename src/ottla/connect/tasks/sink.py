"""A sink as a pipeline: a stage for each topic, whose operator writes to the other side before the step commits."""

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.settings import ConsumerSettings, Settings
from ottla.client.values import TopicPartition
from ottla.connect.errors import DataError
from ottla.connect.spi import Sink, SinkBatch, SinkRecord
from ottla.connect.tasks.conversion import SinkConversion, to_rows
from ottla.connect.tasks.handling import Failure, error_headers
from ottla.connect.tasks.source import topic_row
from ottla.connect.tasks.spec import Spec
from ottla.pipelines.operators import Operator, Step
from ottla.pipelines.topology import EVENTS, Pipeline, Stage

log = logging.getLogger(__name__)
Failed = list[tuple[dict[str, Any], Failure]]  # raw records, and what went wrong with each
COLUMNS = ("key", "value", "offset", "timestampType", "headers")


def pipeline(
    spec: Spec, topics: Sequence[str], run_id: str, topic_ids: Mapping[str, str] | None = None
) -> Pipeline:
    """The group is Connect's; its offsets are the positions. `topic_ids` go beside the sink's own positions."""
    known = topic_ids or {}
    outputs = tuple(filter(None, (dead_letters(spec), spec.status_topic)))
    stages = tuple(
        Stage(
            topic,
            (topic,),
            partial(SinkOperator, spec, topic, run_id, known.get(topic)),
            outputs=outputs,
            clock=EVENTS,
            columns=COLUMNS,
        )
        for topic in topics
    )
    own = spec.client("consumer")
    start = "latest" if own.pop("auto.offset.reset", "earliest") == "latest" else "earliest"
    records_max = int(own.pop("max.poll.records", 50_000))
    return Pipeline(spec.group, stages, _for_every_client(spec, own), start=start, records_max=records_max)


def _for_every_client(spec: Spec, own: Mapping[str, Any]) -> dict[str, Any]:
    """A sink's step has a producer and an admin client beside its reader: settings of consumers alone are left out."""
    common, consumers = (
        {field.name for field in dataclasses.fields(kind)} for kind in (Settings, ConsumerSettings)
    )
    common_settings = {}
    for name, value in own.items():
        key = name.replace(".", "_")
        if key in consumers and key not in common:
            log.warning("connector %s: consumer.override.%s has no effect on a sink", spec.name, name)
        else:
            common_settings[name] = value
    return common_settings


def dead_letters(spec: Spec) -> str | None:
    return spec.config.get("errors.deadletterqueue.topic.name") or None


class SinkOperator(Operator):
    def __init__(self, spec: Spec, topic: str, run_id: str, topic_id: str | None = None) -> None:
        self._spec, self._topic = spec, topic
        self._shared = _shared(spec, run_id)
        if topic_id is not None:
            self._shared.know_topic(topic, topic_id)
        self._is_reported = False

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
        if status is not None and not self._is_reported:
            self._is_reported = True
            step.emit(status, topic_row(self._topic, self._spec.name))

    def _letters(self, where: TopicPartition, failed: Failed) -> pa.RecordBatch:
        explained = self._shared.explains
        rows = []
        for row, failure in failed:
            headers = [(header["key"], header["value"]) for header in row.get("headers") or ()]
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
        self._step: tuple[TopicPartition, pa.RecordBatch, Failed] | None = None  # while the sink commits
        if self._conversion.handling.tolerant:
            self.sink.refused = self._refuse

    def know_topic(self, topic: str, topic_id: str) -> None:
        with self.lock:
            self.sink.topic_ids = {**self.sink.topic_ids, topic: topic_id}

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
                self._step = where, rows, failed
                self.sink.commit({where: end})
        except BaseException:
            self.sink.rollback()
            raise
        finally:
            self._step = None
        failed.sort(key=lambda row: row[0]["offset"])  # as they are in the topic

    def _refuse(self, record: SinkRecord, problem: Exception) -> None:
        assert self._step is not None
        where, rows, failed = self._step
        failure = Failure("TASK_PUT", type(self.sink).__name__, problem)
        self._conversion.handling.report(failure, f"{where} offset {record.offset}")
        row = rows.filter(pc.equal(rows.column("offset"), record.offset))
        failed.append((row.to_pylist()[0], failure))

    def _write(
        self,
        where: TopicPartition,
        rows: pa.RecordBatch,
        end: int,
        failed: Failed,
    ) -> None:
        conversion = self._conversion

        def records() -> Sequence[SinkRecord]:
            converted, wrong = conversion.records(where, rows)
            failed.extend(wrong)
            return converted

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
            converted, wrong = self._conversion.records(where, row)
            failed.extend(wrong)
            offset = row.column("offset")[0].as_py()
            try:
                if converted:
                    records: Callable[[], list[SinkRecord]] = partial(list, converted)
                    self.sink.write(SinkBatch(where, records, offset, offset + 1, None))
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
