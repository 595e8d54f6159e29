"""The Spark connector beside Spark's own (JVM) on Apache Kafka, and on Ottla; the columnar client; the session.

    python -m bench.spark [--quick] [--rounds 3] [--write]

One Spark session has both connectors; the peers alternate, medians are taken, and only ratios of one run count.
`--write` puts the table into docs/benchmarks-spark.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.measure import make_topic, percentile
from ottla.client.columnar import ColumnarProducer, ColumnarReader, Range
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.spark import jvm

PARTITIONS = 4
PEERS = ("JVM on Kafka", "ours on Kafka", "ours on Ottla")
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks-spark.md"
Figures = dict[tuple[str, str, str], dict[str, list[float]]]  # (measure, unit, target) by peer


class Bench:
    def __init__(self, spark: Any, servers: dict[str, str], factor: float) -> None:
        self.spark, self.servers, self.factor = spark, servers, factor
        self.figures: Figures = {}
        self._prepared: dict[tuple[str, int], str] = {}

    def note(self, measure: str, unit: str, target: str, peer: str, value: float) -> None:
        self.figures.setdefault((measure, unit, target), {}).setdefault(peer, []).append(value)
        print(f"{peer}: {measure} {value:.3g} {unit}", file=sys.stderr, flush=True)

    def count(self, records: int) -> int:
        return int(records * self.factor)

    def format_of(self, peer: str) -> str:
        return "kafka" if peer.startswith("JVM") else "ottla"

    def bootstrap(self, peer: str) -> str:
        return self.servers[peer.rsplit(" ", 1)[1]]

    def topic(self, peer: str) -> str:
        name = f"b{uuid.uuid4().hex[:8]}"
        make_topic(self.bootstrap(peer), name, PARTITIONS)
        return name

    def filled(self, peer: str, size: int, records: int) -> str:
        """A topic with records, written once for each server by the columnar client."""
        key = (self.bootstrap(peer), size)
        if key not in self._prepared:
            name = self.topic(peer)
            fill(self.bootstrap(peer), name, size, records)
            self._prepared[key] = name
        return self._prepared[key]

    def read(self, peer: str, builder: Any, topic: str, **options: object) -> Any:
        builder = builder.format(self.format_of(peer)).option("kafka.bootstrap.servers", self.bootstrap(peer))
        for name, value in {"subscribe": topic, "startingOffsets": "earliest", **options}.items():
            builder = builder.option(name, str(value))
        return builder.load()

    def write(self, peer: str, builder: Any, topic: str) -> Any:
        builder = builder.format(self.format_of(peer)).option("kafka.bootstrap.servers", self.bootstrap(peer))
        return builder.option("topic", topic)

    # -- measures ----------------------------------------------------------------------------------

    def batch_read(self, peer: str, size: int, records: int, label: str) -> None:
        records = self.count(records)
        topic = self.filled(peer, size, records)
        begun = time.perf_counter()
        self.read(peer, self.spark.read, topic).write.format("noop").mode("overwrite").save()
        took = time.perf_counter() - begun
        self.note(f"batch read {label}", "M rec/s", ">= 2.5 x", peer, records / took / 1e6)

    def streaming(self, peer: str) -> None:
        """Steady: the first micro-batch, which starts everything, is left out."""
        records = self.count(5_000_000)
        topic = self.filled(peer, 100, records)
        frame = self.read(peer, self.spark.readStream, topic, maxOffsetsPerTrigger=records // 5)
        with tempfile.TemporaryDirectory() as folder:
            query = frame.writeStream.format("noop").option("checkpointLocation", folder)
            running = query.trigger(availableNow=True).start()
            running.awaitTermination()
            steady = [p for p in running.recentProgress if p["numInputRows"]][1:]
        rows = sum(p["numInputRows"] for p in steady)
        took = sum(p["durationMs"]["triggerExecution"] for p in steady) / 1000
        self.note("streaming, steady, 1 M rows a micro-batch", "M rec/s", ">= 2 x", peer, rows / took / 1e6)

    def batch_write(self, peer: str, size: int, records: int, label: str) -> None:
        records = self.count(records)
        frame = self.spark.range(0, records, numPartitions=2).selectExpr(
            "cast(id as string) key", f"rpad(cast(id as string), {size}, 'x') value"
        )
        topic = self.topic(peer)
        begun = time.perf_counter()
        self.write(peer, frame.write, topic).mode("append").save()
        took = time.perf_counter() - begun
        self.note(f"batch write {label}", "M rec/s", ">= 2 x", peer, records / took / 1e6)

    def latency(self, peer: str) -> None:
        """200 events a second, from the producer's clock to a consumer of the sink's topic."""
        source, sink = self.topic(peer), self.topic(peer)
        frame = self.read(peer, self.spark.readStream, source, startingOffsets="latest").select(
            "key", "value"
        )
        with tempfile.TemporaryDirectory() as folder:
            writer = self.write(peer, frame.writeStream, sink).option("checkpointLocation", folder)
            query = writer.start()
            found = events(self.bootstrap(peer), source, sink, seconds=8 + int(20 * min(1.0, self.factor)))
            query.stop()
        self.note("event to sink to consumer, p50", "ms", "<= 1.1 x", peer, percentile(found, 0.5))
        self.note("event to sink to consumer, p99", "ms", "<= 1.1 x", peer, percentile(found, 0.99))

    def columnar(self, peer: str) -> None:
        """Without Spark: confluent-kafka stands where the JVM connector stood."""
        records = self.count(2_000_000)
        topic = self.filled(peer, 100, self.count(5_000_000))
        ends = [self.count(5_000_000)] * PARTITIONS
        if peer.startswith("JVM"):
            self.note(
                "topic to Arrow, no Spark",
                "M rec/s",
                ">= 20 x",
                peer,
                confluent_read(self.bootstrap(peer), topic, records // 4),
            )
            self.note(
                "Arrow to topic, no Spark",
                "M rec/s",
                ">= 2 x",
                peer,
                confluent_write(self.bootstrap(peer), self.topic(peer), records // 4),
            )
            return
        consumer = Consumer({"bootstrap.servers": self.bootstrap(peer), "group.id": "ends"})
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)]
        consumer.close()
        with ColumnarReader({"bootstrap.servers": self.bootstrap(peer)}) as reader:
            begun = time.perf_counter()
            rows = sum(
                b.num_rows for b in reader.read([Range(topic, p, 0, end) for p, end in enumerate(ends)])
            )
            took = time.perf_counter() - begun
        self.note("topic to Arrow, no Spark", "M rec/s", ">= 20 x", peer, rows / took / 1e6)
        target = self.topic(peer)
        begun = time.perf_counter()
        fill(self.bootstrap(peer), target, 100, records)
        took = time.perf_counter() - begun
        self.note("Arrow to topic, no Spark", "M rec/s", ">= 2 x", peer, records / took / 1e6)


def fill(bootstrap: str, topic: str, size: int, records: int) -> None:
    step = min(records, 200_000)
    rows = pa.record_batch(
        {
            "key": pa.array([b"key-%09d" % i for i in range(step)], pa.binary()),
            "value": pa.array([b"x" * size] * step, pa.binary()),
        }
    )
    with ColumnarProducer({"bootstrap.servers": bootstrap}) as producer:
        for first in range(0, records, step):
            producer.write(rows.slice(0, min(step, records - first)), topic)
        producer.flush()


def confluent_read(bootstrap: str, topic: str, records: int) -> float:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    got = 0
    begun = time.perf_counter()
    while got < records:
        found = consumer.consume(10_000, 1.0)
        pa.record_batch(
            {
                "key": pa.array([m.key() for m in found], pa.binary()),
                "value": pa.array([m.value() for m in found], pa.binary()),
                "offset": pa.array([m.offset() for m in found], pa.int64()),
                "timestamp": pa.array([m.timestamp()[1] for m in found], pa.int64()),
            }
        )
        got += len(found)
    took = time.perf_counter() - begun
    consumer.close()
    return got / took / 1e6


def confluent_write(bootstrap: str, topic: str, records: int) -> float:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
    )
    value = b"x" * 100
    begun = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, b"key-%09d" % number)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    return records / (time.perf_counter() - begun) / 1e6


def events(bootstrap: str, source: str, sink: str, seconds: int) -> list[float]:
    """Latencies in ms; the first eight seconds warm up."""
    stop = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        while not stop.wait(0.005):
            producer.produce(source, str(time.time()).encode())
            producer.poll(0)
        producer.flush(10)

    sender = threading.Thread(target=send)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "fetch.wait.max.ms": 50}
    )
    consumer.assign([TopicPartition(sink, p, 0) for p in range(PARTITIONS)])
    sender.start()
    found: list[float] = []
    first = None
    try:
        deadline = time.monotonic() + seconds + 120
        while time.monotonic() < deadline and (first is None or time.monotonic() - first < seconds):
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                first = first or time.monotonic()
                if time.monotonic() - first > 8:
                    found.append((time.time() - float(message.value())) * 1000)
    finally:
        stop.set()
        sender.join()
        consumer.close()
    return found or [float("nan")]


def start_seconds(script: str) -> float:
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    return time.perf_counter() - begun


_PLAIN = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
assert spark.range(1000).selectExpr("sum(id)").first()[0] == 499500
import os; os._exit(0)
"""
_OURS = """
from ottla.spark import session
spark = session(cores=2)
assert spark.range(1000).selectExpr("sum(id)").first()[0] == 499500
import os; os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 3)
    from ottla.spark import session

    with Oracle(heap="1G") as kafka, Ottla() as ottla:
        spark = session(cores=2, settings={"spark.jars": jvm.jars()}, archive=False)
        spark.sparkContext.setLogLevel("OFF")
        bench = Bench(
            spark, {"Kafka": kafka.bootstrap, "Ottla": ottla.bootstrap}, 0.1 if options.quick else 1.0
        )
        measures: dict[str, Callable[[str], None]] = {
            "columnar": bench.columnar,
            "read": lambda peer: bench.batch_read(peer, 100, 5_000_000, "100 B"),
            "read-1k": lambda peer: bench.batch_read(peer, 1000, 500_000, "1 KB"),
            "streaming": bench.streaming,
            "write": lambda peer: bench.batch_write(peer, 100, 2_000_000, "100 B"),
            "write-1k": lambda peer: bench.batch_write(peer, 1000, 300_000, "1 KB"),
            "latency": bench.latency,
        }
        for name, measure in measures.items():
            for turn in range(rounds if not options.only or name in options.only else 0):
                for peer in PEERS if turn % 2 == 0 else PEERS[::-1]:
                    measure(peer)
        spark.stop()
    if not options.only or "start" in options.only:
        start_seconds(_OURS.replace("import os; os._exit(0)", "spark.stop()"))  # leaves the class archive
        for _ in range(rounds):
            bench.note("start to the first result", "s", "<= 0.5 x", PEERS[0], start_seconds(_PLAIN))
            bench.note("start to the first result", "s", "<= 0.5 x", PEERS[1], start_seconds(_OURS))
    table = render(bench.figures)
    print(table)
    if options.write:
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
        date = datetime.date.today().isoformat()
        DOCUMENT.write_text(
            f"# The Spark connector, measured\n\n{date}, {machine}, medians of {rounds}. {_NOTES}\n\n{table}\n"
        )
    return 0


_NOTES = (
    "`JVM` is Spark's own connector (for the client without Spark: confluent-kafka; for the start: plain PySpark). "
    "The brokers share the cores with Spark. Ratios are ours against the JVM connector on Apache Kafka."
)


def render(figures: Figures) -> str:
    lines = [
        "| measure | unit | " + " | ".join(PEERS) + " | ratio | target |",
        "|---|---|---|---|---|---|---|",
    ]
    for (measure, unit, target), by_peer in figures.items():
        medians = {peer: statistics.median(values) for peer, values in by_peer.items()}
        shown = [f"{medians[peer]:.3g}" if peer in medians else "" for peer in PEERS]
        ratio = medians.get(PEERS[1], float("nan")) / medians.get(PEERS[0], float("nan"))
        lines.append(f"| {measure} | {unit} | {' | '.join(shown)} | {ratio:.2f} | {target} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
