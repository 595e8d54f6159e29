"""How often a pipeline is started again: failures in a row count, those with steps in between do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines import running
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.running import Running
from tests.pipelines.local import counting


class Query:
    """Spark's handle of a query that fails, after so many rows."""

    isActive = False

    def __init__(self, rows: int) -> None:
        self.recentProgress = [{"numInputRows": rows}]

    def awaitTermination(self, timeout_s: float) -> bool:
        raise RuntimeError("the broker is away")


def run(monkeypatch: pytest.MonkeyPatch, rows: list[int], restarts_max: int) -> list[float]:
    """Runs a pipeline whose starts fail after so many rows each; the pauses between them."""
    pauses: list[float] = []
    left = iter(rows)
    pipeline = counting("localhost:9092")

    def start(*_: Any, **__: Any) -> Running:
        return Running(pipeline, Query(next(left)), Path("stop"))

    monkeypatch.setattr(running, "start", start)
    monkeypatch.setattr("ottla.pipelines.running.time.sleep", pauses.append)
    with pytest.raises(PipelineError, match="the broker is away"):
        running.run(pipeline, restarts_max=restarts_max)
    assert next(left, None) is None, "it gave up before the last start"
    return pauses


def test_failures_in_a_row_end_a_pipeline_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [0, 0, 0, 0], restarts_max=3) == [0.5, 1.0, 2.0]


def test_a_step_in_between_begins_the_count_and_the_pauses_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [7, 7, 7, 7, 0, 0], restarts_max=2) == [0.5, 0.5, 0.5, 0.5, 1.0]
