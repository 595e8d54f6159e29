"""Spark's Kafka connector and ours behind one face, so that the same can be asked of both."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

T0 = 1_700_000_000_000  # timestamp of record 0; the others follow by the millisecond
RECORDS = 12
PARTITIONS = 2
HANGS_S = 900  # only a query that hangs takes this long, on any machine
# Nothing is waited for: Kafka's connector would ask again for what is missing, and for more at a topic's end.
QUICK = {"fetchOffset.numRetries": 1, "fetchOffset.retryIntervalMs": 10, "kafka.fetch.max.wait.ms": 10}


class Scene:
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
        # The records are years old: retention would delete them while the cases are asked.
        topic = NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1"})
        self.admin.create_topics([topic])[name].result(60)
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
        assert producer.flush(60) == 0


class Side:
    """One of the connectors."""

    def __init__(self, scene: Scene, kind: str) -> None:
        self.scene, self.kind = scene, kind

    def read(self, schema: str | None = None, **options: Any) -> Any:
        reader = self._with(self.scene.spark.read.format(self.kind), self._reading(options))
        return _rows((reader.schema(schema) if schema else reader).load())

    def columns(self, **options: Any) -> Any:
        return self._with(self.scene.spark.read.format(self.kind), self._reading(options)).load().dtypes

    def stream(self, trigger: dict[str, Any] | None = None, **options: Any) -> Any:
        """What a query brings into a table."""
        chosen = self._reading({"startingOffsets": "earliest", **options})
        frame = self._with(self.scene.spark.readStream.format(self.kind), chosen).load()
        name = f"t{uuid.uuid4().hex[:8]}"
        with _folder() as folder:
            writer = frame.writeStream.format("memory").queryName(name)
            writer = writer.option("checkpointLocation", folder)
            query = writer.trigger(**(trigger or {"availableNow": True})).start()
            _finish(query, trigger, folder, lambda: self.scene.spark.table(name).count() == RECORDS)
            return _rows(self.scene.spark.table(name))

    def write(
        self, *select: str, mode: str | None = "append", into: str | None = "topic", **options: Any
    ) -> Any:
        topic = self.scene.make_topic()
        frame = self.scene.spark.range(0, 6, numPartitions=1).selectExpr(*_filled(select, topic))
        writer = self._with(frame.write.format(self.kind), {**({into: topic} if into else {}), **options})
        (writer.mode(mode) if mode else writer).save()
        return self.scene.records(topic)

    def sink(
        self,
        *select: str,
        trigger: dict[str, Any] | None = None,
        mode: str = "append",
        into: str | None = "topic",
        group_by: str | None = None,
        **options: Any,
    ) -> Any:
        """What a query writes that reads the twelve records through Kafka's source."""
        topic = self.scene.make_topic()
        frame = self.twelve_records()
        if group_by is not None:
            frame = frame.groupBy(group_by).count()
        frame = frame.selectExpr(*_filled(select, topic)) if select else frame
        with _folder() as folder:
            chosen = {**({into: topic} if into else {}), **options}
            self.copy(frame, topic, folder, trigger, mode, **chosen)
        return self.scene.records(topic)

    def relay(self, trigger: dict[str, Any], mode: str) -> Any:
        """What a query brings to a topic that reads through this connector and writes through Kafka's."""
        topic = self.scene.make_topic()
        source = self._reading({"startingOffsets": "earliest"})
        frame = self._with(self.scene.spark.readStream.format(self.kind), source).load()
        with _folder() as folder:
            kafkas = Side(self.scene, "kafka")
            kafkas.copy(frame.selectExpr("key", "value"), topic, folder, trigger, mode, topic=topic)
        return self.scene.records(topic)

    def twelve_records(self) -> Any:
        source = {"subscribe": self.scene.topic, "startingOffsets": "earliest"}
        return self._with(self.scene.spark.readStream.format("kafka"), source).load()

    def copy(
        self,
        frame: Any,
        lands_in: str,
        checkpoint: str,
        trigger: dict[str, Any] | None,
        mode: str = "append",
        **options: Any,
    ) -> None:
        """Until all is there. The options say where to write."""
        chosen = {"checkpointLocation": checkpoint, **options}
        writer = self._with(frame.writeStream.format(self.kind), chosen).outputMode(mode)
        query = writer.trigger(**(trigger or {"availableNow": True})).start()
        _finish(query, trigger, checkpoint, lambda: len(self.scene.records(lands_in)) == RECORDS)

    def _reading(self, options: dict[str, object]) -> dict[str, object]:
        if not {"subscribe", "subscribePattern", "assign"} & {*options}:
            options = {"subscribe": self.scene.topic, **options}
        return {**QUICK, **options}

    def _with(self, builder: Any, options: Mapping[str, object]) -> Any:
        for name, value in {"kafka.bootstrap.servers": self.scene.bootstrap, **options}.items():
            if value is not None:
                text = json.dumps(value) if isinstance(value, dict) else str(value)
                builder = builder.option(name, _named(text, self.scene))
        return builder


def _named(text: str, scene: Scene) -> str:
    """With the names of the topics that are there."""
    for name, topic in (("TOPIC-A", scene.topic), ("TOPIC-B", scene.other), ("STEM", scene.stem)):
        text = text.replace(name, topic)
    return text


def _filled(select: tuple[str, ...], topic: str) -> list[str]:
    return [each.replace("TOPIC", topic) for each in select]


def _rows(frame: Any) -> list[Any]:
    return sorted(repr(tuple(row)) for row in frame.collect())


class NothingCommitted(Exception):
    """A continuous query goes from epoch to epoch and commits none."""


def _finish(query: Any, trigger: dict[str, Any] | None, folder: str, all_there: Callable[[], bool]) -> None:
    """Waits for the end of a query, or for all that it has to bring; raises why it failed."""
    try:
        if trigger is None or {"availableNow", "once"} & {*trigger}:
            assert query.awaitTermination(HANGS_S), "the query does not end"
        elif "continuous" in trigger:
            _run_epochs(query, Path(folder), all_there)
        else:
            query.processAllAvailable()
    finally:
        query.stop()


def _run_epochs(query: Any, checkpoint: Path, all_there: Callable[[], bool]) -> None:
    """Tasks end an epoch before they begin the next, so the third is begun when two could have been committed."""
    deadline = time.monotonic() + HANGS_S
    while not all_there():
        if query.exception() is not None:
            raise query.exception()
        if (checkpoint / "offsets" / "2").exists() and not any((checkpoint / "commits").glob("[0-9]*")):
            raise NothingCommitted("three epochs have begun, and none is committed")
        assert time.monotonic() < deadline, "the query goes on, but does not bring everything"
        time.sleep(0.05)


@contextmanager
def _folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="ottla-side-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
