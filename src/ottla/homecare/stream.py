"""Runs the pipelines in one Spark session: one after the other at the start, and again when one fails."""

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla import pipelines
from ottla.errors import OttlaError
from ottla.homecare.pipelines import pipeline
from ottla.homecare.rules import Rules

log = logging.getLogger(__name__)
_BEGIN_S = 4.0
_LOOK_S = 0.2
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Settings:
    client: Mapping[str, Any]
    folder: Path  # of checkpoints and state
    rules: Rules = field(default_factory=Rules)
    trigger: str = "500 milliseconds"
    rows_max: int = 1_000_000  # of a micro-batch
    restarts_max: int = 20


class Job:
    """A pipeline that runs, and what it reports."""

    def __init__(self, name: str, spark: Any, settings: Settings, report: Report) -> None:
        self._name, self._report = name, report
        self._seen = -1
        chosen = pipeline(
            name,
            settings.client,
            settings.rules,
            state_dir=str(settings.folder / "state"),
            records_max=max(1, settings.rows_max // 4),
        )
        self.running = pipelines.start(
            chosen, spark, checkpoint=settings.folder / name, trigger=settings.trigger
        )
        self._begun = time.monotonic()
        report({"job": name, "started": True})

    @property
    def has_begun(self) -> bool:
        """The first micro-batch is done, or it takes so long that the next pipeline need not wait."""
        return self._seen >= 0 or time.monotonic() - self._begun > _BEGIN_S

    def look(self) -> None:
        """Reports the micro-batches that have ended since the last look."""
        for progress in self.running.query.recentProgress:
            if progress["batchId"] > self._seen and progress["numInputRows"]:
                self._seen = progress["batchId"]
                self._report({"job": self._name, **figures(progress)})


def figures(progress: Any) -> dict[str, Any]:
    latest = progress["sources"][0]["latestOffset"]
    latest = json.loads(latest) if isinstance(latest, str) else latest
    latest = latest or {
        "@tasks": {},
        "@behind": 0,
    }  # Spark did not ask: a micro-batch from the checkpoint is done again
    tasks = latest["@tasks"].values()
    shown: dict[str, int] = {}
    for task in tasks:
        for name, value in task["shown"].items():
            shown[name] = shown.get(name, 0) + value
    return {
        "batch": progress["batchId"],
        "rows": progress["numInputRows"],
        "took_ms": progress["durationMs"]["triggerExecution"],
        "lag": latest["@behind"],
        "ages": [age for task in tasks for age in task["ages_ms"]],
        "state_bytes": sum(task["bytes"] for task in tasks),
        "written": sum(task["written"] for task in tasks),
        **shown,
    }


def run(
    spark: Any, names: Iterable[str], settings: Settings, report: Report, is_over: Callable[[], bool] = bool
) -> None:
    """Until `is_over`. A query that fails (the broker was away for long, say) starts again from its topics."""
    jobs: dict[str, Job] = {}
    failures = dict.fromkeys(names, 0)
    try:
        while not is_over():
            # One after the other: each start brings a handful of Python processes to life.
            waiting = [name for name in failures if name not in jobs]
            if waiting and all(job.has_begun for job in jobs.values()):
                jobs[waiting[0]] = Job(waiting[0], spark, settings, report)
            _wait(spark, _LOOK_S)
            for name, job in list(jobs.items()):
                job.look()
                if not job.running.is_active:
                    del jobs[name]
                    _on_failure(name, job.running.query.exception(), settings, failures)
    finally:
        for job in jobs.values():
            job.running.stop()


def _wait(spark: Any, seconds: float) -> None:
    """Returns early when a query ends; which one, and why, is asked of the queries."""
    from pyspark.errors import StreamingQueryException  # type: ignore[import-not-found,unused-ignore]

    with contextlib.suppress(StreamingQueryException):
        spark.streams.awaitAnyTermination(seconds)
    spark.streams.resetTerminated()


def _on_failure(name: str, error: Any, settings: Settings, failures: dict[str, int]) -> None:
    failures[name] += 1
    log.warning("%s failed and starts again: %s", name, str(error)[:500])
    if failures[name] > settings.restarts_max:
        raise OttlaError(f"{name} failed {failures[name]} times; the last time: {error}")
    time.sleep(1)
