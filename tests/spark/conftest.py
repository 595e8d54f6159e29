"""One Spark for all tests of this folder: its start takes longer than most of them."""

from __future__ import annotations

import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark import jvm

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.slow)
            # PySpark and py4j leave sockets to the garbage collector; that is not ours to fail on.
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from ottla.spark import session

    # With Spark's own connector where it can be had: some tests ask both.
    jars = {} if jvm.why_not() else {"spark.jars": jvm.jars()}
    found = session("tests", cores=2, memory="768m", settings=jars)
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()


@pytest.fixture
def make_topic(target: Any) -> Callable[..., str]:
    """Makes a topic with a name of its own on the server under test."""
    return topic_maker(target.bootstrap)


def topic_maker(bootstrap: str) -> Callable[..., str]:
    from confluent_kafka.admin import AdminClient, NewTopic

    from tests.oracle.leaders import wait_for_leaders

    admin = AdminClient({"bootstrap.servers": bootstrap})

    def make(stem: str = "topic", partitions: int = 3, name: str = "", **config: str) -> str:
        name = name or f"{stem}-{uuid.uuid4().hex[:8]}"
        config = {"retention.ms": "-1", **config}  # some tests write records of long ago
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)
        wait_for_leaders(bootstrap, name, partitions)
        return name

    return make


@pytest.fixture
def checkpoint() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="ottla-checkpoint-")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def topics(spark: Any, target: Any) -> Topics:
    return Topics(spark, target.bootstrap)


class Topics:
    """Short words for what every test does."""

    def __init__(self, spark: Any, bootstrap: str) -> None:
        self.spark, self.bootstrap = spark, bootstrap

    def read(self, topic: str, **options: Any) -> Any:
        return self._with(self.spark.read.format("ottla"), {"subscribe": topic, **options}).load()

    def stream(self, topic: str | None, **options: Any) -> Any:
        chosen = {"startingOffsets": "earliest", **({"subscribe": topic} if topic else {}), **options}
        return self._with(self.spark.readStream.format("ottla"), chosen).load()

    def write(self, frame: Any, topic: str | None = None, **options: Any) -> None:
        chosen = {**({"topic": topic} if topic else {}), **options}
        self._with(frame.write.format("ottla"), chosen).mode("append").save()

    def sink(self, frame: Any, topic: str | None, checkpoint: str, **options: Any) -> Any:
        chosen = {"checkpointLocation": checkpoint, **({"topic": topic} if topic else {}), **options}
        return self._with(frame.writeStream.format("ottla"), chosen)

    def drain(self, frame: Any, topic: str, checkpoint: str, **options: Any) -> Any:
        """Copies all that is there now, and ends."""
        query = self.sink(frame, topic, checkpoint, **options).trigger(availableNow=True).start()
        query.awaitTermination(120)
        return query

    def numbers(self, topic: str, first: int, count: int) -> None:
        """Writes the numbers from `first` on as values, with a key each."""
        frame = self.spark.range(first, first + count, numPartitions=1)  # offsets in order
        self.write(frame.selectExpr("concat('k', id % 7) key", "cast(id as string) value"), topic)

    def values(self, topic: str, **options: Any) -> list[str]:
        rows = self.read(topic, columns="value", **options).collect()
        return sorted(bytes(row.value).decode() for row in rows)

    def settled(self, topic: str) -> str:
        """This topic, once no transaction is open in it: their ends are answered before their records can be read."""
        from confluent_kafka.admin import AdminClient

        from tests.oracle.transactions import wait_for_markers

        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
        wait_for_markers(self.bootstrap, topic, len(partitions))
        return topic

    def shows(self, topic: str, numbers: Iterable[int]) -> None:
        """Apache Kafka answers the end of a transaction some moments before its records can be read."""
        expected = sorted(map(str, numbers))
        deadline = time.monotonic() + 60
        while (found := self.values(topic)) != expected:
            assert len(found) <= len(expected) and time.monotonic() < deadline, (found, expected)

    def _with(self, builder: Any, options: dict[str, object]) -> Any:
        builder = builder.option("kafka.bootstrap.servers", self.bootstrap)
        for name, value in options.items():
            builder = builder.option(name.replace("__", "."), str(value))
        return builder
