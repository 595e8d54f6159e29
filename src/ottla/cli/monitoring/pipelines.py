"""Metrics of pipelines: what their stream tasks committed, read from the groups' offsets. Works with any cluster."""

import asyncio
import time
from collections.abc import Iterator

from ottla.client import Admin
from ottla.errors import OttlaError
from ottla.exposition import (
    COUNTER,
    GAUGE,
    OPEN_METRICS,
    PROMETHEUS,
    Family,
    Number,
    Sample,
    labels,
    render,
    wants_open_metrics,
)
from ottla.pipelines import status
from ottla.pipelines.status import TaskStatus
from ottla.server.http import NotFound, Page

FRESH_S = 1.0  # several scrapers are told the same
SERIES: dict[str, tuple[str, str]] = {
    "ottla_pipeline_records_total": (COUNTER, "Records that a stream task has read since its pipeline began"),
    "ottla_pipeline_results_total": (COUNTER, "Results that a stream task has written since its pipeline began"),
    "ottla_pipeline_lag": (GAUGE, "Records that a stream task has not read yet"),
    "ottla_pipeline_state_rows": (GAUGE, "Rows of a stream task's state"),
    "ottla_pipeline_state_bytes": (GAUGE, "Bytes of a stream task's state"),
    "ottla_pipeline_restored_records": (GAUGE, "Changelog records read to restore the state for the last step"),
    "ottla_pipeline_step_seconds": (GAUGE, "How long a stream task's last step took"),
    "ottla_pipeline_last_step_timestamp_seconds": (GAUGE, "When a stream task last committed, as Unix time"),
    "ottla_pipeline_clock_timestamp_seconds": (GAUGE, "How far a stream task's clock is, as Unix time"),
    "ottla_pipeline_task_info": (GAUGE, "1, with the host that ran a stream task's last step"),
    "ottla_pipeline_up": (GAUGE, "1 if the pipelines could be asked"),
}  # fmt: skip


def families(pipelines: dict[str, list[TaskStatus]] | None) -> Iterator[Family]:
    """None: the cluster does not answer."""
    columns: dict[str, list[Sample]] = {name: [] for name in SERIES}
    columns["ottla_pipeline_up"].append(("", int(pipelines is not None)))
    for pipeline, tasks in (pipelines or {}).items():
        for task in tasks:
            text = labels(pipeline=pipeline, task=task.commit.task)
            for name, value in _values(task).items():
                columns[f"ottla_pipeline_{name}"].append((text, value))
            info = labels(pipeline=pipeline, task=task.commit.task, host=task.commit.figures.host)
            columns["ottla_pipeline_task_info"].append((info, 1))
    for name, (kind, meaning) in SERIES.items():
        yield Family(name, kind, meaning, columns[name])


def _values(task: TaskStatus) -> dict[str, Number]:
    figures, clock_ms = task.commit.figures, task.commit.time_ms
    values: dict[str, Number] = {
        "records_total": figures.records,
        "results_total": figures.written,
        "lag": task.lag,
        "state_rows": figures.rows,
        "state_bytes": figures.bytes,
        "restored_records": figures.restored,
        "step_seconds": figures.took_ms / 1000,
        "last_step_timestamp_seconds": figures.at_ms / 1000,
    }
    return values if clock_ms < 0 else {**values, "clock_timestamp_seconds": clock_ms / 1000}


class PipelinePages:
    """`/metrics`, asked in a thread: the client blocks."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._lock = asyncio.Lock()
        self._tasks: dict[str, list[TaskStatus]] | None = None
        self._told_s = -FRESH_S

    async def __call__(self, path: str, accept: str) -> Page:
        if path != "/metrics":
            raise NotFound("/metrics is here")
        async with self._lock:
            if time.monotonic() - self._told_s >= FRESH_S:
                self._tasks = await asyncio.to_thread(self._ask)
                self._told_s = time.monotonic()
        open_metrics = wants_open_metrics(accept)
        kind = OPEN_METRICS if open_metrics else PROMETHEUS
        return Page("200 OK", kind, render(families(self._tasks), open_metrics=open_metrics))

    def _ask(self) -> dict[str, list[TaskStatus]] | None:
        try:
            return {name: status.status(self._admin, name) for name in status.names(self._admin)}
        except (OttlaError, OSError):
            return None
