"""Connectors as Spark queries: workers that die, and any format of Spark's as a connector."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from ottla.client import Admin
from ottla.connect.running.spark import SparkRunner
from ottla.connect.settings import Setting
from ottla.connect.spi import Batch, Json, Limit, Source, SourceRecord
from ottla.connect.store.table import ensure_compacted
from ottla.connect.tasks.spec import Spec
from ottla.testing import Broker
from tests.connect.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Numbers(Source):
    """Counts. While there are files in `deaths`, a read removes one and kills its process."""

    settings = (Setting("topic"), Setting("deaths"), Setting("most", "INT"))

    def partitions(self) -> Iterable[Json]:
        return [{"counter": index} for index in range(3)]

    def latest(self, partition: Json) -> Json | None:
        return {"n": self.config["most"]}

    def read(self, partition: Json, offset: Json | None, limit: Limit) -> Batch | None:
        at = (offset or {"n": 0})["n"]
        if at >= self.config["most"]:
            return None
        if at and at % 2 == 0:
            for file in list(Path(self.config["deaths"]).iterdir())[:1]:
                file.unlink(missing_ok=True)
                os.kill(os.getpid(), signal.SIGKILL)
        return Batch([SourceRecord(self.config["topic"], f"{partition['counter']} {at}")], {"n": at + 1})


@pytest.fixture(scope="module")
def runner() -> Iterator[SparkRunner]:
    made = SparkRunner({"spark.ui.enabled": "false"})
    yield made
    made.close()


@pytest.fixture
def run(runner: SparkRunner, broker: Broker) -> Iterator[Any]:
    with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
        for topic in ("connect-offsets", "connect-status"):
            ensure_compacted(admin, topic, 2, 1)
    running = []

    def start(name: str, **config: str) -> Any:
        plain = {key.replace("__", "."): value for key, value in config.items()}
        spec = Spec(name, {"value.converter": STRING, **plain}, {"bootstrap.servers": broker.bootstrap})
        running.append(runner.start(spec, threading.Event()))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def values(broker: Broker, topic: str) -> list[str]:
    return [record.value.decode() for record in broker.records(topic)] if topic in broker.topics() else []


def test_python_workers_die_and_every_record_comes_once(run: Any, broker: Broker, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / str(number)).touch()
    made = f"{__name__}:Numbers"
    run("numbers", connector__class=made, topic="numbers", deaths=str(tmp_path), most="8", tasks__max="2")
    wait_for(lambda: len(values(broker, "numbers")) >= 24, timeout_s=240)
    found = values(broker, "numbers")
    assert sorted(found) == sorted(f"{counter} {n}" for counter in range(3) for n in range(8))
    for counter in range(3):
        mine = [int(value.split()[1]) for value in found if value.startswith(f"{counter} ")]
        assert mine == sorted(mine)
    assert not list(tmp_path.iterdir())


def test_any_format_of_spark_is_a_connector(run: Any, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("ticks", partitions=1)
    source = {
        "format": "rate",
        "option__rowsPerSecond": "20",
        "topic": "ticks",
        "columns": "cast(value as string) value",
    }
    run("ticks", connector__class="spark", checkpoint=str(tmp_path / "a"), **source)
    sink = {"format": "json", "option__path": str(tmp_path / "out"), "topics": "ticks"}
    run("files", connector__class="spark", checkpoint=str(tmp_path / "b"), **sink)
    wait_for(lambda: len(values(broker, "ticks")) > 5, timeout_s=240)
    wait_for(lambda: any(file.stat().st_size for file in (tmp_path / "out").glob("*.json")), timeout_s=240)
