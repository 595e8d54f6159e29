"""Starts a pipeline on Spark, watches over it, stops it."""

import contextlib
import logging
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.pipelines import errors
from ottla.pipelines.errors import BadTopology, PipelineError, TakenOver
from ottla.pipelines.state.spec import StoreChanged
from ottla.pipelines.topology import Pipeline
from ottla.spark.plain import reason

_LOOK_S = 0.5  # how soon a stop is seen
log = logging.getLogger(__name__)
# What no new start can mend.
_FINAL = (errors.BadTopology, errors.StateLost, errors.TakenOver, StoreChanged)


class Running:
    """A query that runs a pipeline. `query` is Spark's own handle."""

    def __init__(self, pipeline: Pipeline, query: Any, stop_file: Path) -> None:
        self.pipeline, self.query, self._stop_file = pipeline, query, stop_file

    @property
    def is_active(self) -> bool:
        return bool(self.query.isActive)

    @property
    def has_stepped(self) -> bool:
        """Whether a micro-batch with work in it has ended."""
        return any(progress["numInputRows"] for progress in self.query.recentProgress)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the query has ended; raises what ended it. Whether it has."""
        try:
            return bool(self.query.awaitTermination(timeout_s))
        except Exception as error:
            raise _of_ours(error) from error

    def stop(self, timeout_s: float = 60) -> None:
        """Lets the micro-batch end that is under way: a worker stopped inside a step leaves a transaction open."""
        self._stop_file.touch()  # from here on the source offers nothing more
        ending = threading.Thread(target=self._finish, daemon=True)
        ending.start()
        ending.join(timeout_s)
        self.query.stop()

    def _finish(self) -> None:
        with contextlib.suppress(Exception):  # a query that has failed has nothing left to finish
            self.query.processAllAvailable()


def start(
    pipeline: Pipeline,
    spark: Any = None,
    *,
    checkpoint: str | Path | None = None,
    trigger: str | None = None,
    once: bool = False,
    tasks: int | None = None,
) -> Running:
    """Runs it in a Spark session (a local one unless given). `once` ends when all that is there now is done.

    `tasks` is the number of Spark tasks in a micro-batch; it may change between starts. The checkpoint may be lost.
    """
    if spark is None:
        import ottla.spark

        spark = ottla.spark.session(pipeline.name)
    if spark.conf.get("spark.speculation", "false") == "true":
        raise BadTopology("spark.speculation runs a task twice at once, and both would step: turn it off")
    from ottla.pipelines.query import format_of

    run_id = uuid.uuid4().hex[:12]
    folder = Path(tempfile.mkdtemp(prefix="ottla-pipeline-"))
    stop_file = folder / "stop"
    count = tasks or spark.sparkContext.defaultParallelism
    spark.dataSource.register(format_of(pipeline, run_id, count, str(stop_file)))
    name = f"ottla-pipeline-{run_id}"
    rows = spark.readStream.format(name).load().filter("work IS NOT NULL")
    writer = (
        rows.writeStream.format(name)
        .queryName(f"{pipeline.name}")
        .option("checkpointLocation", str(checkpoint or folder / "checkpoint"))
    )
    if once:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    return Running(pipeline, writer.start(), stop_file)


def run(
    pipeline: Pipeline,
    spark: Any = None,
    *,
    restarts_max: int = 20,
    stop: threading.Event | None = None,
    **options: Any,
) -> None:
    """Starts it, and again when it fails for a reason that may pass; returns when it has ended, or when `stop` was
    set and the micro-batch under way is done. `restarts_max` counts failures in a row, without a step in between."""
    failures = 0
    while True:
        running = start(pipeline, spark, **options)
        try:
            while not running.wait(_LOOK_S):
                if stop is not None and stop.is_set():
                    running.stop()
                    return
            return
        except _FINAL:
            raise
        except PipelineError as error:
            failures = 1 if running.has_stepped else failures + 1
            if failures > restarts_max:
                raise
            pause_s = min(30.0, 0.25 * 2**failures)
            log.warning(
                "pipeline %s failed and is started again in %.1f s: %s", pipeline.name, pause_s, error
            )
            time.sleep(pause_s)


def _of_ours(error: Exception) -> OttlaError:
    """Spark tells errors of its workers as text."""
    text = str(error)
    for kind in _FINAL:
        if f"{kind.__module__}.{kind.__name__}" in text or f"{kind.__name__}:" in text:
            return kind(reason(error))
    if "FencedInstanceId" in text:
        return TakenOver(reason(error))
    return PipelineError(reason(error))
