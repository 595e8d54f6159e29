"""Runs the pipelines on Spark: sources, ticks, micro-batches, and a new start when one fails."""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.consumer import Consumer
from ottla.client.values import TopicPartition
from ottla.errors import OttlaError
from ottla.homecare.clock import EventClock
from ottla.homecare.jobs import JOBS, Job
from ottla.homecare.once import Once
from ottla.homecare.rules import Rules
from ottla.homecare.spark_progress import read_up_to
from ottla.homecare.tasks import AGES, NOTHING, POSITIONS, SCHEMA, packer, unpack
from ottla.spark.reduced import register_reduced

log = logging.getLogger(__name__)
CLOCK = "clock"
_ENDS_TIMEOUT_MS = 3_000
_BEGIN_S = 4.0


@dataclass(frozen=True, slots=True)
class Settings:
    bootstrap: str
    checkpoints: Path
    rules: Rules = field(default_factory=Rules)
    trigger: str = "500 milliseconds"
    rows_max: int = 1_000_000  # of a micro-batch
    restarts_max: int = 20


class Pipeline:
    """One job and its query, from one start to the next."""

    def __init__(self, job: Job, settings: Settings, report: Callable[[dict[str, Any]], None]) -> None:
        self._job, self._settings, self._report = job, settings, report
        self._once = Once(settings.bootstrap, job.name, job.state_topic)
        self._clock = EventClock(settings.rules.lateness_ms)
        self._ends = Consumer(
            bootstrap_servers=settings.bootstrap,
            isolation_level="read_committed",
            default_api_timeout_ms=_ENDS_TIMEOUT_MS,
        )
        self._partitions = [
            TopicPartition(topic, index) for topic in job.reads for index in self._ends.partitions_for(topic)
        ]
        self.query: Any = None
        self._query_id = ""
        self._begun = 0.0
        self._batches = 0

    def start(self, spark: Any) -> None:
        saved = self._once.open()
        positions = self._once.positions(self._partitions)
        self._clock.restore(json.loads(saved.pop(CLOCK, b"0")), positions)
        self._job.load(saved, self._settings.bootstrap)
        folder = self._settings.checkpoints / self._job.name
        writer = (
            self._rows(spark, positions)
            .writeStream.foreachBatch(self._on_batch)
            .queryName(self._job.name)
            .option("checkpointLocation", str(folder))
        )
        self.query = writer.trigger(processingTime=self._settings.trigger).start()
        self._begun = time.monotonic()

    @property
    def has_begun(self) -> bool:
        """The first micro-batch is done, or it takes so long that the next pipeline need not wait."""
        return self._batches > 0 or time.monotonic() - self._begun > _BEGIN_S

    def close(self) -> None:
        if self.query is not None:
            self.query.stop()
        self._once.close()
        self._ends.close()

    def _rows(self, spark: Any, positions: dict[tuple[str, int], int]) -> Any:
        """Records and ticks. The checkpoint knows where to go on; without one, the committed positions do."""
        starting = {
            topic: {str(p.partition): positions.get(p, -2) for p in self._partitions if p.topic == topic}
            for topic in self._job.reads
        }
        reading = f"homecare-{self._job.name}"
        register_reduced(spark, reading, SCHEMA, packer(self._job.work()))
        rows = (
            spark.readStream.format(reading)
            .option("kafka.bootstrap.servers", self._settings.bootstrap)
            .option("subscribe", ",".join(self._job.reads))
            .option("startingOffsets", json.dumps(starting))
            .option("maxOffsetsPerTrigger", self._settings.rows_max)
            .option("columns", self._job.columns)
            .option("groupIdPrefix", f"homecare-{self._job.name}-source")
            .load()
        )
        if not self._job.ticks:
            return rows
        ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
        return rows.union(ticks.selectExpr(*NOTHING))

    # -- each micro-batch --------------------------------------------------------------------------

    def _on_batch(self, rows: Any, batch: int) -> None:
        begun = time.monotonic()
        query = self._id_of(rows)
        if self._once.is_done(query, batch):
            log.info("%s: micro-batch %s is done already", self._job.name, batch)
            return
        wall_ms = _now_ms()
        ends = self._current_ends()
        found = unpack(rows.toArrow())
        count = self._note(found.pop(POSITIONS, None), wall_ms)
        moments = found.pop(AGES, None)
        if not count:
            self._note_progress()
        self._clock.on_tick(ends, wall_ms)
        writes = self._job.step(found, self._clock.watermark_ms)
        clock = (CLOCK, json.dumps(self._clock.time_ms).encode())
        state = [*self._job.changes(), clock]
        self._once.commit(query, batch, writes, state, self._clock.positions())
        self._tell(batch, count, begun, moments, ends, sum(len(content) for _, content in state))

    def _id_of(self, rows: Any) -> str:
        if not self._query_id:
            context = rows.sparkSession.sparkContext
            self._query_id = context.getLocalProperty("sql.streaming.queryId") or str(self.query.id)
        return self._query_id

    def _current_ends(self) -> dict[tuple[str, int], int]:
        try:
            found = self._ends.end_offsets(self._partitions)
            return {(where.topic, where.partition): at for where, at in found.items()}
        except OttlaError as error:
            log.info("%s: the ends are not known (%s): time waits", self._job.name, error)
            return {}

    def _note(self, positions: pa.Table | None, wall_ms: int) -> int:
        if positions is None:
            return 0
        for row in positions.to_pylist():
            newest_ms = int(row["newest"].timestamp() * 1000)
            self._clock.on_read((row["topic"], row["partition"]), row["offset"] + 1, newest_ms, wall_ms)
        return sum(positions["rows"].to_pylist())

    def _note_progress(self) -> None:
        """Spark has passed offsets that hold no records for us: ends of transactions, in a topic written by them."""
        progress = self.query.lastProgress if self.query is not None else None
        for source in (progress or {}).get("sources", ()):
            for where, offset in read_up_to(source.get("endOffset")).items():
                self._clock.on_passed((where.topic, where.partition), offset)

    def _tell(
        self, batch: int, count: int, begun: float, moments: pa.Table | None, ends: Any, state_bytes: int
    ) -> None:
        self._batches += 1
        now_ms = _now_ms()
        read = self._clock.positions()
        ages = (
            sorted(now_ms - int(at.timestamp() * 1000) for at in moments["at"].to_pylist()) if moments else []
        )
        self._report(
            {
                "job": self._job.name,
                "batch": batch,
                "rows": count,
                "took_ms": round((time.monotonic() - begun) * 1000),
                "lag": sum(max(0, end - read.get(where, 0)) for where, end in ends.items()),
                "behind_ms": now_ms - self._clock.time_ms if self._clock.time_ms else None,
                "ages": ages[:: max(1, len(ages) // 20)],
                "state_bytes": state_bytes,
                **self._job.figures(),
            }
        )


def run(
    spark: Any,
    names: Iterable[str],
    settings: Settings,
    report: Callable[[dict[str, Any]], None],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Until `is_over`. A query that fails (the broker was away for long, say) starts again from its topics."""
    running: dict[str, Pipeline] = {}
    failures = dict.fromkeys(names, 0)
    try:
        while not is_over():
            # One after the other: each start brings a handful of Python processes to life.
            waiting = [name for name in failures if name not in running]
            if waiting and all(pipeline.has_begun for pipeline in running.values()):
                _try_start(spark, waiting[0], settings, report, running, failures)
            _wait(spark, 1)
            for name, pipeline in list(running.items()):
                if not pipeline.query.isActive:
                    del running[name]
                    _on_failure(name, pipeline.query.exception(), settings, failures)
                    pipeline.close()
    finally:
        for pipeline in running.values():
            pipeline.close()


def _wait(spark: Any, seconds: float) -> None:
    """Returns early when a query ends; which one, and why, is asked of the queries."""
    from pyspark.errors import StreamingQueryException  # type: ignore[import-not-found,unused-ignore]

    with contextlib.suppress(StreamingQueryException):
        spark.streams.awaitAnyTermination(seconds)
    spark.streams.resetTerminated()


def _try_start(
    spark: Any,
    name: str,
    settings: Settings,
    report: Callable[[dict[str, Any]], None],
    running: dict[str, Pipeline],
    failures: dict[str, int],
) -> None:
    pipeline = None
    try:
        pipeline = Pipeline(JOBS[name](settings.rules), settings, report)
        pipeline.start(spark)
        running[name] = pipeline
        report({"job": name, "started": True})
    except OttlaError as error:
        if pipeline is not None:
            pipeline.close()
        _on_failure(name, error, settings, failures)
        time.sleep(1)


def _on_failure(name: str, error: Any, settings: Settings, failures: dict[str, int]) -> None:
    failures[name] += 1
    log.warning("%s failed and starts again: %s", name, str(error)[:500])
    if failures[name] > settings.restarts_max:
        raise RuntimeError(f"{name} failed {failures[name]} times; the last time: {error}")


def _now_ms() -> int:
    return int(time.time() * 1000)
