"""Pipelines as Spark runs them: on Ottla and on Apache Kafka, with workers that die and checkpoints that are lost."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

import pyarrow as pa

from ottla import pipelines
from ottla.pipelines import Operator, Pipeline, Repartition, Stage, Step, StoreSpec
from ottla.pipelines.driver import Driver
from ottla.pipelines.errors import TakenOver

COUNTS = StoreSpec("counts", (("n", "int64"),))


class Count(Operator):
    """Counts keys. While there are files in `deaths`, each call removes one and kills its process."""

    def __init__(self, out: str, deaths: str = "") -> None:
        self._out, self._deaths = out, deaths

    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        import numpy as np

        counts = step.stores["counts"]
        places = counts.rows(rows.column("key"))
        np.add.at(counts["n"], places, 1)
        if self._deaths:
            for file in list(Path(self._deaths).iterdir())[:1]:
                file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        changed = np.unique(places)
        counts.touch(changed)
        values = pa.array([str(n).encode() for n in counts["n"][changed]], pa.binary())
        step.emit(
            self._out, pa.RecordBatch.from_arrays([counts.keys(changed), values], names=["key", "value"])
        )


class ByValue(Operator):
    def process(self, rows: pa.RecordBatch, step: Step) -> None:
        columns = [rows.column("value"), rows.column("value")]
        step.emit("by-value", pa.RecordBatch.from_arrays(columns, names=["key", "value"]))


class Counting:
    """A pipeline that counts what it is sent, and what must come out."""

    def __init__(self, topics: Any, make_topic: Callable[..., str], folder: Path) -> None:
        self.topics, self.folder = topics, folder
        self.source, self.out = make_topic("in", partitions=4), make_topic("out", partitions=4)
        self.sent: list[str] = []
        (folder / "deaths").mkdir()

    def pipeline(self, *, files: bool = True) -> Pipeline:
        operator = partial(Count, self.out, str(self.folder / "deaths"))
        stage = Stage("count", (self.source,), operator, (COUNTS,), (self.out,))
        state = str(self.folder / "state") if files else None
        return Pipeline(f"count-{self.source}", (stage,), self.client, state_dir=state, records_max=500)

    @property
    def client(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.topics.bootstrap}

    def send(self, count: int = 4_000) -> None:
        keys = [f"k{random.randint(0, 99)}" for _ in range(count)]
        self.sent += keys
        self.topics.write(
            self.topics.spark.createDataFrame([(key, key) for key in keys], "key string, value string"),
            self.source,
        )

    def check(self) -> None:
        """Exact in the end, and no count goes back or comes twice."""
        rows = self.topics.read(self.topics.settled(self.out)).orderBy("partition", "offset").collect()
        found: dict[str, list[int]] = {}
        for row in rows:
            found.setdefault(bytes(row.key).decode(), []).append(int(bytes(row.value)))
        assert {key: counts[-1] for key, counts in found.items()} == Counter(self.sent)
        assert all(counts == sorted(set(counts)) for counts in found.values())


@pytest.fixture
def counting(topics: Any, make_topic: Callable[..., str], tmp_path: Path) -> Counting:
    return Counting(topics, make_topic, tmp_path)


def once(pipeline: Pipeline, spark: Any, **options: Any) -> Any:
    running = pipelines.start(pipeline, spark, once=True, **options)
    assert running.wait(240)
    return running.query


def test_counts_go_on_without_checkpoint_and_with_another_number_of_tasks(
    counting: Counting, spark: Any
) -> None:
    for tasks in (2, 1):
        counting.send()
        query = once(counting.pipeline(), spark, tasks=tasks)
        assert sum(progress["numInputRows"] for progress in query.recentProgress) >= 4_000
        counting.check()


def test_state_files_may_be_lost(counting: Counting, spark: Any) -> None:
    counting.send()
    once(counting.pipeline(files=True), spark)
    counting.send()
    once(counting.pipeline(files=False), spark)
    counting.check()


def test_workers_that_are_killed_in_a_step_change_nothing(counting: Counting, spark: Any) -> None:
    counting.send()
    for number in range(4):
        (counting.folder / "deaths" / str(number)).touch()
    pipelines.run(counting.pipeline(), spark, once=True)
    assert not list((counting.folder / "deaths").iterdir())
    counting.check()


def test_a_second_driver_ends_the_first(counting: Counting, spark: Any) -> None:
    counting.send()
    first = pipelines.start(counting.pipeline(), spark)
    while not first.query.recentProgress:
        assert first.is_active
    second = Driver(counting.pipeline())  # of another session
    try:
        second.start()
        with pytest.raises(TakenOver):
            first.wait(120)
    finally:
        second.close()


def test_a_stage_behind_a_repartition_is_drained_too(
    counting: Counting, spark: Any, make_topic: Callable[..., str]
) -> None:
    stages = (
        Stage("spread", (counting.source,), ByValue, outputs=("by-value",)),
        Stage("count", ("by-value",), partial(Count, counting.out), (COUNTS,), (counting.out,)),
    )
    repartitions = (Repartition("by-value", 3),)
    chosen = Pipeline(f"two-{counting.source}", stages, counting.client, repartitions)
    counting.send()
    once(chosen, spark)
    counting.check()


def test_a_running_pipeline_stops_between_steps_and_shows_its_figures(counting: Counting, spark: Any) -> None:
    counting.send()
    running = pipelines.start(counting.pipeline(), spark)
    while not sum(progress["numInputRows"] for progress in running.query.recentProgress) >= 4_000:
        assert running.is_active
    running.stop()
    counting.check()
    assert '"@tasks"' in str(running.query.lastProgress["sources"][0]["latestOffset"])
