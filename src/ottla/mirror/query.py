"""A link as a Structured Streaming query: the source plans and hands out work as rows, the sink's tasks do it.

The same shape as `ottla.pipelines.query`: a reader may run twice for one micro-batch, a writer runs once for each
attempt, so the work is done in the writer. Rows without content stand for records, so that Spark's page counts them.
"""

import contextlib
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
from ottla.errors import OttlaError
from ottla.mirror.driver import Driver
from ottla.mirror.link import Link
from ottla.mirror.task import Work
from ottla.spark.plain import told_plainly

SCHEMA = "work binary"


class Share(InputPartition):
    """The work of one Spark task, as plain values."""

    def __init__(self, content: str, count: int) -> None:
        super().__init__((content, count))


class MirrorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in a process of its own as long as the query. The checkpoint is of no importance: positions decide."""

    def __init__(self, link: Link, stop_file: str) -> None:
        self._link, self._stop_file = link, stop_file
        self._driver: Driver | None = None

    def initialOffset(self) -> dict[str, Any]:
        return {"plan": 0, "works": []}

    @told_plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        works = self._works()
        if not works:
            return start
        return {"plan": start["plan"] + 1, "works": [packed(work) for work in works]}

    @told_plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self.driver.freeze()

    @told_plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Share]:
        member = self.driver.member()
        return [self._share(unpacked(work), member) for work in end["works"]] or [Share("", 0)]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Shown in the query's progress."""
        driver = self._driver
        if driver is None:
            return None
        shown = {str(where): asdict(position) for where, position in driver.positions.items()}
        return {"@source": f"mirror[{self._link.name}]", "@behind": driver.behind(), "@partitions": shown}

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
            with contextlib.suppress(OttlaError):
                self._driver.leave()
            self._driver.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}  # connections do not travel

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            driver = Driver(self._link)
            driver.start()
            driver.keep_on()
            self._driver = driver
        return self._driver

    def _works(self) -> list[Work]:
        """What there is to copy; if there is nothing, what comes within a second."""
        works = self._planned()
        if not works and self.driver.is_frozen:
            self._finish()
            works = self._planned()
        elif not works:
            self.driver.wait()
            works = self._planned()
        return works

    def _finish(self) -> None:
        """A copy that ends waits out a pause or a throttle, then carries groups over once more."""
        while self.driver.behind_frozen() and not Path(self._stop_file).exists():
            self.driver.wait()
            if self._planned():
                return
        self.driver.keep(whole=True)

    def _planned(self) -> list[Work]:
        return [] if Path(self._stop_file).exists() else self.driver.plan()

    def _share(self, work: Work, member: GroupMetadata) -> Share:
        names = [member.group_id, member.generation_id, member.member_id, member.group_instance_id]
        count = sum(
            max(0, end - self.driver.positions[where].source)
            for where, end in work.ends.items()
            if where in self.driver.positions
        )
        return Share(json.dumps({"work": packed(work), "member": names}), count)


class Stepped(WriterCommitMessage):
    """Everything is committed by then: the driver has nothing to do."""


class MirrorWriter(DataSourceStreamArrowWriter):
    def __init__(self, link: Link, run_id: str) -> None:
        self._link, self._run_id = link, run_id

    @told_plainly
    def write(self, iterator: Iterator[Any]) -> Stepped:
        from ottla.mirror.worker import worker

        context = TaskContext.get()
        retried = context is not None and context.attemptNumber() > 0
        for rows in iterator:
            for content in rows.column("work").to_pylist():
                task = json.loads(content)
                work = unpacked(task["work"])
                member = GroupMetadata(*task["member"])
                worker(self._link, self._run_id, work.task).run(work, member, retried=retried)
        return Stepped()

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """The tasks have committed."""

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """What a task left open is aborted by its next attempt."""


def format_of(link: Link, run_id: str, stop_file: str) -> type[DataSource]:
    """The data source of one run of a link, to be registered with a session."""

    class MirrorFormat(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"ottla-mirror-{run_id}"

        def schema(self) -> str:
            return SCHEMA

        def streamReader(self, schema: Any) -> Any:
            return MirrorReader(link, stop_file)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return MirrorWriter(link, run_id)

    return MirrorFormat


def packed(work: Work) -> list[Any]:
    return [
        work.task,
        [[where.topic, where.partition, end] for where, end in work.ends.items()],
        work.bytes_max,
    ]


def unpacked(fields: Sequence[Any]) -> Work:
    task, ends, bytes_max = fields
    return Work(task, {TopicPartition(topic, p): end for topic, p, end in ends}, bytes_max)
