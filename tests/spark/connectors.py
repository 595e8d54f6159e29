"""Spark's Kafka connector and ours behind one face, so that the same can be asked of both."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

T0 = 1_700_000_000_000  # timestamp of record 0; the others follow by the millisecond
RECORDS = 12
PARTITIONS = 2
# Nothing is waited for: Kafka's connector would ask again for what is missing, and for more at a topic's end.
QUICK = {"fetchOffset.numRetries": 1, "fetchOffset.retryIntervalMs": 10, "kafka.fetch.max.wait.ms": 10}


class World:
    """A broker, a session, and two topics of twelve records each that the cases read."""

    def __init__(self, spark: Any, bootstrap: str) -> None:
        from confluent_kafka import Consumer
        from confluent_kafka.admin import AdminClient

        self.spark, self.bootstrap = spark, bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "side-by-side", "fetch.wait.max.ms": 10}
        )
        self._reading = threading.Lock()
        self.stem = f"side{uuid.uuid4().hex[:6]}"
        self.topic, self.other = self.make_topic(f"{self.stem}-a"), self.make_topic(f"{self.stem}-b")
        self._fill()

    def enter_thread(self) -> None:
        """Spark looks for Python sources in the session of the thread, and a new thread has none."""
        from pyspark.sql import SparkSession

        java = SparkSession._get_j_spark_session_class(self.spark._jvm)
        java.setActiveSession(self.spark._jsparkSession)

    def close(self) -> None:
        self._consumer.close()

    def make_topic(self, name: str = "") -> str:
        from confluent_kafka.admin import NewTopic

        name = name or f"w{uuid.uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        return name

    def records(self, topic: str) -> list[Any]:
        """Key, value and headers of what a topic holds, and the partition unless it is arbitrary."""
        from confluent_kafka import TopicPartition

        found = []
        with self._reading:
            for index in range(PARTITIONS):
                where = TopicPartition(topic, index, 0)
                end = self._consumer.get_watermark_offsets(where, timeout=30)[1]
                self._consumer.assign([where])
                # Until the position: the markers of transactions have offsets, too.
                while end > 0 and self._consumer.position([where])[0].offset < end:
                    message = self._consumer.poll(0.05)
                    if message is not None and message.error() is None:
                        place = None if message.key() is None else index
                        found.append((message.key(), message.value(), message.headers() or [], place))
            self._consumer.unassign()
        return sorted(found, key=repr)

    def _fill(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.bootstrap})
        for topic in (self.topic, self.other):
            for i in range(RECORDS):
                headers = [("h", b"%d" % i)] if i % 3 == 0 else []
                producer.produce(
                    topic,
                    b"%d" % i,
                    b"k%d" % (i % 4),
                    i % PARTITIONS,
                    timestamp=T0 + i,
                    headers=headers,
                )
        assert producer.flush(30) == 0


class Side:
    """One of the connectors."""

    def __init__(self, world: World, kind: str) -> None:
        self.world, self.kind = world, kind

    def read(self, schema: str | None = None, **options: object) -> Any:
        reader = self._with(self.world.spark.read.format(self.kind), self._reading(options))
        return _rows((reader.schema(schema) if schema else reader).load())

    def columns(self, **options: object) -> Any:
        return self._with(self.world.spark.read.format(self.kind), self._reading(options)).load().dtypes

    def stream(self, trigger: dict[str, Any] | None = None, **options: object) -> Any:
        """What a query brings into a table."""
        chosen = self._reading({"startingOffsets": "earliest", **options})
        frame = self._with(self.world.spark.readStream.format(self.kind), chosen).load()
        name = f"t{uuid.uuid4().hex[:8]}"
        with _folder() as folder:
            writer = frame.writeStream.format("memory").queryName(name)
            writer = writer.option("checkpointLocation", folder)
            query = writer.trigger(**(trigger or {"availableNow": True})).start()
            _finish(query, trigger, lambda: self.world.spark.table(name).count() > 0)
            return _rows(self.world.spark.table(name))

    def write(
        self, *select: str, mode: str | None = "append", into: str | None = "topic", **options: object
    ) -> Any:
        topic = self.world.make_topic()
        frame = self.world.spark.range(0, 6, numPartitions=1).selectExpr(*_filled(select, topic))
        writer = self._with(frame.write.format(self.kind), {**({into: topic} if into else {}), **options})
        (writer.mode(mode) if mode else writer).save()
        return self.world.records(topic)

    def sink(
        self,
        *select: str,
        trigger: dict[str, Any] | None = None,
        mode: str = "append",
        into: str | None = "topic",
        group_by: str | None = None,
        **options: object,
    ) -> Any:
        """What a query writes that reads the twelve records through Kafka's source."""
        topic = self.world.make_topic()
        source = {"subscribe": self.world.topic, "startingOffsets": "earliest"}
        frame = self._with(self.world.spark.readStream.format("kafka"), source).load()
        if group_by is not None:
            frame = frame.groupBy(group_by).count()
        frame = frame.selectExpr(*_filled(select, topic)) if select else frame
        with _folder() as folder:
            chosen = {"checkpointLocation": folder, **({into: topic} if into else {}), **options}
            writer = self._with(frame.writeStream.format(self.kind), chosen).outputMode(mode)
            query = writer.trigger(**(trigger or {"availableNow": True})).start()
            _finish(query, trigger, lambda: len(self.world.records(topic)) > 0)
            return self.world.records(topic)

    def _reading(self, options: dict[str, object]) -> dict[str, object]:
        if not {"subscribe", "subscribePattern", "assign"} & {*options}:
            options = {"subscribe": self.world.topic, **options}
        return {**QUICK, **options}

    def _with(self, builder: Any, options: dict[str, object]) -> Any:
        for name, value in {"kafka.bootstrap.servers": self.world.bootstrap, **options}.items():
            if value is not None:
                text = json.dumps(value) if isinstance(value, dict) else str(value)
                builder = builder.option(name, _named(text, self.world))
        return builder


def _named(text: str, world: World) -> str:
    """With the names of the topics that are there."""
    for name, topic in (("TOPIC-A", world.topic), ("TOPIC-B", world.other), ("STEM", world.stem)):
        text = text.replace(name, topic)
    return text


def _filled(select: tuple[str, ...], topic: str) -> list[str]:
    return [each.replace("TOPIC", topic) for each in select]


def _rows(frame: Any) -> list[Any]:
    return sorted(repr(tuple(row)) for row in frame.collect())


def _finish(query: Any, trigger: dict[str, Any] | None, ready: Callable[[], bool]) -> None:
    """A query that runs on is stopped when it has brought something."""
    try:
        if trigger is None or {"availableNow", "once"} & {*trigger}:
            assert query.awaitTermination(120), "the query did not end"
            return
        deadline = time.monotonic() + (20 if "continuous" in trigger else 120)
        while not ready():
            if query.exception() is not None:
                raise query.exception()
            if time.monotonic() > deadline:
                raise TimeoutError("the query brought nothing")
            time.sleep(0.05)
        query.processAllAvailable() if "processingTime" in trigger else None
    finally:
        query.stop()


@contextmanager
def _folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="ottla-side-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
