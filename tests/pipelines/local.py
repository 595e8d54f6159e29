"""Pipelines without Spark: the driver and the workers of a query as plain objects, on a broker in this process."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ottla.errors import OttlaError
from ottla.pipelines import Operator, Pipeline, Stage, Step, StoreSpec
from ottla.pipelines.cluster_log import ClusterLog, TransactionalLog
from ottla.pipelines.driver import Driver
from ottla.pipelines.planning import spread
from ottla.pipelines.positions import Commit
from ottla.pipelines.worker import Worker
from ottla.testing import Broker

COUNTS = StoreSpec("counts", (("n", "int64"),))


class Count(Operator):
    """How often each key came; every new count is a result."""

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        counts = step.stores["counts"]
        places = counts.rows(rows.column("key"))
        np.add.at(counts["n"], places, 1)
        changed = np.unique(places)
        counts.touch(changed)
        values = pa.array([str(n).encode() for n in counts["n"][changed]], pa.binary())
        step.emit("out", pa.RecordBatch.from_arrays([counts.keys(changed), values], names=["key", "value"]))


class Copy(Operator):
    """Everything, under the value as its key."""

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        columns = [rows.column("value"), rows.column("value"), rows.column("timestamp")]
        step.emit("by-value", pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))


def counting(broker: Broker | str, name: str = "count", **options: object) -> Pipeline:
    client = {"bootstrap.servers": broker if isinstance(broker, str) else broker.bootstrap}
    stage = Stage("count", ("in",), Count, (COUNTS,), ("out",), clock="events")
    return Pipeline(name, (stage,), client, **options)  # type: ignore[arg-type]


class Query:
    """What Spark does for a pipeline: asks for plans and gives each to some worker."""

    def __init__(self, pipeline: Pipeline, workers: int = 1) -> None:
        self.pipeline = pipeline
        self.driver = Driver(pipeline)
        self.driver.start()
        self.workers = [Worker(pipeline) for _ in range(workers)]
        self._turn = 0

    def step(self) -> list[Commit]:
        """One micro-batch; consecutive ones go to different workers."""
        works, commits = self.driver.plan(), []
        for group in spread(works, 2):
            self._turn += 1
            worker = self.workers[self._turn % len(self.workers)]
            commits += worker.run(group, self.driver.member(), retried=False)
        return commits

    def drain(self, most: int = 100) -> None:
        """Until nothing is left to do."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError(f"there was still something to do after {most} micro-batches")

    def replace_workers(self) -> None:
        """As if they had been killed and others started: nothing but files is left."""
        for worker in self.workers:
            worker.close()
        self.workers = [Worker(self.pipeline) for _ in self.workers]

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.driver.close()


@contextmanager
def query(pipeline: Pipeline, workers: int = 1) -> Iterator[Query]:
    running = Query(pipeline, workers)
    try:
        yield running
    finally:
        running.close()


def send(broker: Broker, keys: list[str], value: str = "v") -> None:
    for key in keys:
        broker.send("in", value, key=key)


def results(broker: Broker) -> dict[str, list[int]]:
    """The counts that were written for each key, in order."""
    found: dict[str, list[int]] = {}
    for record in broker.records("out"):
        found.setdefault(record.key.decode(), []).append(int(record.value))
    return found


def fragile(
    monkeypatch: pytest.MonkeyPatch,
    chance: random.Random,
    log: type[ClusterLog] = TransactionalLog,
    share: float = 0.04,
) -> list[str]:
    """The log's calls fail now and then, before or behind what they do; the list of the failures."""
    deaths: list[str] = []

    def patched(name: str) -> Any:
        plain = getattr(log, name)

        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            if chance.random() < share:
                deaths.append(name)
                raise OttlaError("died before")
            result = plain(self, *arguments, **named)
            if chance.random() < share:
                deaths.append(name)
                raise OttlaError("died behind")
            return result

        return call

    for name in ("take_over", "committed", "read", "write", "flush", "commit"):
        monkeypatch.setattr(log, name, patched(name))
    return deaths


def drained(running: Query, chance: random.Random) -> None:
    """Through all deaths of a fragile log; now and then with new workers."""
    while True:
        try:
            return running.drain()
        except OttlaError as error:
            assert str(error).startswith("died"), error
            if chance.random() < 0.5:
                running.replace_workers()


def after(seconds: float, call: object) -> threading.Timer:
    timer = threading.Timer(seconds, call)  # type: ignore[arg-type]
    timer.start()
    return timer
