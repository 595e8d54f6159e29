"""A source as a Structured Streaming query: the reader plans and hands out lanes as rows, the writer's tasks step them.

As in `ottla.pipelines.query`: a reader may run twice for one micro-batch, so the work is done in the writer; the
checkpoint is of no importance, the offsets topic decides.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.taskcontext import TaskContext

from ottla.connect.running.base import lanes_of
from ottla.connect.spi import Json, Limit, Source
from ottla.connect.store.formats import canonical
from ottla.connect.store.offsets import Offsets
from ottla.connect.tasks.source import SourceWorker
from ottla.connect.tasks.spec import Spec
from ottla.spark.plain import told_plainly

SCHEMA = "work binary"
_PAUSE_S = (0.01, 1.0)


class Share(InputPartition):
    """The lanes of one Spark task, as text."""

    def __init__(self, content: str) -> None:
        super().__init__(content)


class SourceReader(DataSourceStreamReader):
    """Lives in a process of its own as long as the query."""

    def __init__(self, spec: Spec, tasks: int, stop_file: str) -> None:
        self._spec, self._tasks, self._stop_file = spec, tasks, stop_file
        self._source: Source | None = None
        self._offsets: Offsets | None = None
        self._last: dict[str, Json | None] = {}
        self._pause_s = _PAUSE_S[0]

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0, "lanes": []}

    @told_plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        lanes = self._planned()
        if not lanes:
            return start
        return {
            "plan": start["plan"] + 1,
            "lanes": [[lane, offsets] for lane, offsets in sorted(lanes.items())],
        }

    @told_plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Share]:
        groups: list[list[Any]] = [[] for _ in range(max(1, self._tasks))]
        for index, (lane, partitions) in enumerate(end["lanes"]):
            groups[index % len(groups)].append([lane, partitions])
        return [Share(json.dumps(group)) for group in groups if group] or [Share("")]

    def read(self, partition: Any) -> Iterator[Any]:
        if partition.value:
            column = pa.array([partition.value.encode()], pa.binary())
            yield pa.RecordBatch.from_arrays([column], names=["work"])

    def commit(self, end: dict[str, Any]) -> None:
        """The tasks have committed."""

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()
        if self._offsets is not None:
            self._offsets.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None, "_offsets": None}  # connections do not travel

    def _planned(self) -> dict[int, list[Json]]:
        """Lanes with partitions that have news, or may have. If nothing moved since the last plan, after a pause."""
        if Path(self._stop_file).exists():
            return {}
        if self._source is None or self._offsets is None:
            self._source = self._spec.source()
            self._offsets = Offsets(self._spec.client("consumer"), self._spec.offsets_topic)
        self._offsets.catch_up()
        name, wanted = self._spec.name, []
        now: dict[str, Json | None] = {}
        for partition in self._source.partitions():
            at = now[canonical(partition)] = self._offsets.offset(name, partition)
            latest = self._source.latest(partition)
            if latest is None or at is None or latest != at:
                wanted.append(partition)
        if now == self._last:
            time.sleep(self._pause_s)
            self._pause_s = min(_PAUSE_S[1], 2 * self._pause_s)
        else:
            self._pause_s = _PAUSE_S[0]
        self._last = now
        return lanes_of(wanted)


class Stepped(WriterCommitMessage):
    """Everything is committed by then."""


class SourceWriter(DataSourceStreamArrowWriter):
    def __init__(self, spec: Spec, run_id: str) -> None:
        self._spec, self._run_id = spec, run_id

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Stepped:
        context = TaskContext.get()
        retried = context is not None and context.attemptNumber() > 0
        for rows in iterator:
            for content in rows.column("work").to_pylist():
                for lane, partitions in json.loads(content):
                    _worker(self._spec, self._run_id).run(lane, partitions, Limit(), retried=retried)
        return Stepped()

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """The tasks have committed."""

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """What a task left open is aborted by its next attempt."""


def format_of(spec: Spec, run_id: str, tasks: int, stop_file: str) -> type[DataSource]:
    """The data source of one run of a connector, to be registered with a session."""

    class SourceFormat(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"ottla-source-{run_id}"

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: Any) -> Any:
            return SourceReader(spec, tasks, stop_file)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return SourceWriter(spec, run_id)

    return SourceFormat


_workers: dict[tuple[int, str], SourceWorker] = {}


def _worker(spec: Spec, run_id: str) -> SourceWorker:
    """The one of this run; those of earlier runs in this process end. Not inherited by a fork."""
    worker = _workers.get((os.getpid(), run_id))
    if worker is None:
        for key, other in list(_workers.items()):
            if key[0] == os.getpid() and other.spec.name == spec.name:
                _workers.pop(key).close()
        worker = _workers[os.getpid(), run_id] = SourceWorker(spec)
    return worker
