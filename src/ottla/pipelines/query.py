"""A pipeline as a Structured Streaming query: the source plans and hands out work as rows, the sink's tasks do it.

A reader may run twice for one micro-batch, a writer runs once for each attempt: so the work is done in the writer. One
row carries the work of a Spark task. Rows without content stand for the records behind it, so that Spark's page counts
records; they are filtered out before the writer.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
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
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.taskcontext import TaskContext

from ottla.client.values import GroupMetadata, TopicPartition
from ottla.pipelines.driver import Driver
from ottla.pipelines.planning import records, spread
from ottla.pipelines.stepping import Work
from ottla.pipelines.topology import Pipeline, TaskId
from ottla.spark.plain import told_plainly

SCHEMA = "work binary"


class Share(InputPartition):
    """The work of one Spark task, as plain values."""

    def __init__(self, content: str, count: int) -> None:
        super().__init__((content, count))


class PipelineReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of its own as long as the query. The checkpoint is of no importance: positions decide."""

    def __init__(self, pipeline: Pipeline, tasks: int, stop_file: str) -> None:
        self._pipeline, self._tasks, self._stop_file = pipeline, tasks, stop_file
        self._driver: Driver | None = None
        self._counts: dict[str, int] = {}

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0, "works": []}

    @told_plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        works = self._works()
        if not works:
            return start
        moment = self.driver.moment
        assert moment is not None
        self._counts = {str(work.task): records(work, moment.commits) for work in works}
        return {"plan": start["plan"] + 1, "works": [_packed(work) for work in works]}

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self.driver.freeze()

    @told_plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Share]:
        driver = self.driver
        member = driver.member()
        # A plan from a checkpoint may be of an earlier version of the pipeline.
        works = [work for work in map(_unpacked, end["works"]) if work.task in driver.layout]
        return [self._share(group, member) for group in spread(works, self._tasks)] or [Share("", 0)]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress."""
        driver = self._driver
        if driver is None or driver.moment is None:
            return None
        tasks = {str(task): asdict(commit.figures) for task, commit in driver.moment.commits.items()}
        return {"@source": f"pipeline[{self._pipeline.name}]", "@behind": driver.behind(), "@tasks": tasks}

    def read(self, partition: Any) -> Iterator[Any]:
        content, count = partition.value
        if content:
            column = pa.array([content.encode()], pa.binary())
            if count > 1:
                column = pa.concat_arrays([column, pa.nulls(count - 1, pa.binary())])
            yield pa.RecordBatch.from_arrays([column], names=["work"])

    def commit(self, end: dict[str, Any]) -> None:
        """The tasks have committed."""

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}  # connections do not travel

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            driver = Driver(self._pipeline)
            driver.start()
            self._driver = driver
        return self._driver

    def _works(self) -> list[Work]:
        """What there is to do; if there is nothing, what comes within a second."""
        works = self._planned()
        if not works and not self.driver.is_frozen:
            self.driver.wait()
            works = self._planned()
        return works

    def _planned(self) -> list[Work]:
        return [] if Path(self._stop_file).exists() else self.driver.plan()

    def _share(self, works: list[Work], member: GroupMetadata) -> Share:
        content = {
            "works": [_packed(work) for work in works],
            "member": [
                member.group_id,
                member.generation_id,
                member.member_id,
                member.group_instance_id,
            ],
        }
        return Share(json.dumps(content), sum(self._counts.get(str(work.task), 1) for work in works))


class Stepped(WriterCommitMessage):
    """Everything is committed by then: the driver has nothing to do."""


class PipelineWriter(DataSourceStreamArrowWriter):
    def __init__(self, pipeline: Pipeline, run_id: str) -> None:
        self._pipeline, self._run_id = pipeline, run_id

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Stepped:
        from ottla.pipelines.worker import worker

        attempt = _attempt()
        for rows in iterator:
            for content in rows.column("work").to_pylist():
                task = json.loads(content)
                works = [_unpacked(work) for work in task["works"]]
                member = GroupMetadata(*task["member"])
                worker(self._pipeline, self._run_id).run(works, member, retried=attempt > 0)
        return Stepped()

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """The tasks have committed."""

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """What a task left open is aborted by its next attempt."""


def format_of(pipeline: Pipeline, run_id: str, tasks: int, stop_file: str) -> type[DataSource]:
    """The data source of one run of a pipeline, to be registered with a session."""

    class PipelineFormat(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"ottla-pipeline-{run_id}"

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: Any) -> Any:
            return PipelineReader(pipeline, tasks, stop_file)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return PipelineWriter(pipeline, run_id)

    return PipelineFormat


def _packed(work: Work) -> list[Any]:
    ends = [[*where, end] for where, end in work.ends.items()]
    return [*work.task, ends, work.allowed_ms, [list(where) for where in work.cut]]


def _unpacked(packed: Sequence[Any]) -> Work:
    stage, partition, ends, allowed_ms, *cut = packed  # a plan from a checkpoint may be of an earlier version
    return Work(
        TaskId(stage, partition),
        {TopicPartition(topic, p): end for topic, p, end in ends},
        allowed_ms,
        frozenset(TopicPartition(*where) for where in (cut[0] if cut else ())),
    )


def _attempt() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()
