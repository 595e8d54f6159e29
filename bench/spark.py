"""The Spark connector beside Spark's own (JVM) on Apache Kafka, and on Ottla; the columnar client; the session.

    python -m bench.spark [--quick] [--rounds 3] [--only read latency] [--write]

One Spark session has both connectors; the peers alternate, medians are taken, and only ratios of one run count. What
the JVM has to compile first is not measured. `--write` puts the lines into docs/benchmarks.md (not those of a quick
run); all of it takes about twelve minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

from bench import conditions, document
from bench.measure import make_topic, percentile
from ottla.client.columnar import ColumnarProducer, ColumnarReader, Range
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.spark import jvm

PARTITIONS = 4
PEERS = ("JVM on Kafka", "ours on Kafka", "ours on Ottla")
_HEAD = ("measure", "unit", *PEERS, "ratio", "target")
_ROOT = Path(__file__).parents[1]
Figures = dict[tuple[str, str, str], dict[str, list[float]]]  # (measure, unit, target) by peer


class Bench:
    def __init__(self, spark: Any, servers: dict[str, str], factor: float) -> None:
        self.spark, self.servers, self.factor = spark, servers, factor
        self.figures: Figures = {}
        self.warming = False
        self._prepared: dict[tuple[str, int], str] = {}

    def note(self, measure: str, unit: str, target: str, peer: str, value: float) -> None:
        if self.warming:
            return
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
        self._note_speed(f"batch read {label}", ">= 2.5 x", peer, size, records / took)

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
        # Values that cost nothing to make: to pad them takes Spark as long as to write them.
        frame = self.spark.range(0, records, numPartitions=2).selectExpr(
            "cast(id as string) key", f"'{'x' * size}' value"
        )
        topic = self.topic(peer)
        begun = time.perf_counter()
        self.write(peer, frame.write, topic).mode("append").save()
        took = time.perf_counter() - begun
        self._note_speed(f"batch write {label}", ">= 2 x", peer, size, records / took)

    def _note_speed(self, measure: str, target: str, peer: str, size: int, per_s: float) -> None:
        if size >= 1000:
            self.note(measure, "MB/s", target, peer, per_s * size / 1e6)
        else:
            self.note(measure, "M rec/s", target, peer, per_s / 1e6)

    def latency(self, peer: str) -> None:
        """200 events a second, from the producer's clock to a consumer of the sink's topic."""
        source, sink = self.topic(peer), self.topic(peer)
        frame = self.read(peer, self.spark.readStream, source, startingOffsets="latest").select(
            "key", "value"
        )
        with tempfile.TemporaryDirectory() as folder:
            writer = self.write(peer, frame.writeStream, sink).option("checkpointLocation", folder)
            query = writer.start()
            found = events(self.bootstrap(peer), source, sink, seconds=8 + int(16 * min(1.0, self.factor)))
            query.stop()
        self.note("event to sink to consumer, p50", "ms", "<= 1.1 x", peer, percentile(found, 0.5))
        self.note("event to sink to consumer, p99", "ms", "<= 1.1 x", peer, percentile(found, 0.99))

    def memory(self, peer: str) -> None:
        """A session of its own copies a topic: the most that the driver, the JVM and all workers take together."""
        records = self.count(5_000_000)
        source, sink = self.filled(peer, 100, records), self.topic(peer)
        with tempfile.TemporaryDirectory() as folder:
            given = [self.format_of(peer), self.bootstrap(peer), source, sink, folder, str(records // 10)]
            environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
            command = [sys.executable, "-c", _COPY, *given, jvm.jars()]
            quiet = subprocess.DEVNULL
            with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet) as copying:
                most = 0.0
                while copying.poll() is None:
                    most = max(most, tree_mb(copying.pid))
                    time.sleep(0.3)
        if copying.returncode != 0:
            raise RuntimeError(f"the copy ended with {copying.returncode}")
        self.note("memory of a streaming copy, whole process tree", "MB", "", peer, most)

    def columnar(self, peer: str) -> None:
        """Without Spark: confluent-kafka stands where the JVM connector stood."""
        records, servers = self.count(2_000_000), self.bootstrap(peer)
        topic = self.filled(peer, 100, self.count(5_000_000))
        if peer.startswith("JVM"):
            read = confluent_read(servers, topic, records // 4)
            written = confluent_write(servers, self.topic(peer), records // 4)
        else:
            read = columnar_read(servers, topic)
            target = self.topic(peer)
            begun = time.perf_counter()
            fill(servers, target, 100, records)
            written = records / (time.perf_counter() - begun) / 1e6
        self.note("topic to Arrow, no Spark", "M rec/s", ">= 20 x", peer, read)
        self.note("Arrow to topic, no Spark", "M rec/s", ">= 2 x", peer, written)


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


def columnar_read(bootstrap: str, topic: str) -> float:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p))[1] for p in range(PARTITIONS)]
    consumer.close()
    with ColumnarReader({"bootstrap.servers": bootstrap}) as reader:
        begun = time.perf_counter()
        rows = sum(b.num_rows for b in reader.read([Range(topic, p, 0, end) for p, end in enumerate(ends)]))
        return rows / (time.perf_counter() - begun) / 1e6


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


def tree_mb(pid: int) -> float:
    """What a process and all that descend from it take; shared pages are shared out."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(folder.name))
    total, waiting = 0.0, [pid]
    while waiting:
        each = waiting.pop()
        waiting += parents.get(each, [])
        try:
            told = Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:")) / 1024
    return total


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

_COPY = """
import sys
kind, servers, source, sink, folder, limit, jars = sys.argv[1:]
from ottla.spark import session
spark = session(cores=2, settings={"spark.jars": jars}, archive=False)
frame = (spark.readStream.format(kind).option("kafka.bootstrap.servers", servers).option("subscribe", source)
         .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", limit).load())
query = (frame.select("key", "value").writeStream.format(kind).option("kafka.bootstrap.servers", servers)
         .option("topic", sink).option("checkpointLocation", folder).trigger(availableNow=True).start())
query.awaitTermination()
spark.stop()
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the lines into docs/benchmarks.md (not those of a quick run)",
    )
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 3)
    failures = 0
    from ottla.spark import session

    conditions.prepare()
    with conditions.watched() as others, Oracle(heap="1G") as kafka, Ottla() as ottla:
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
            "memory": bench.memory,
        }
        for name, measure in measures.items():
            if options.only and name not in options.only:
                continue
            # Both connectors run in one JVM: none shall pay for compiling what the other uses, too.
            turns = [False] * (1 if name == "memory" else rounds)
            if name in _WARMED:
                turns.insert(0, True)
            for turn, bench.warming in enumerate(turns):
                for peer in PEERS if turn % 2 == 0 else PEERS[::-1]:
                    try:
                        measure(peer)
                    except Exception:
                        failures += 1
                        print(f"{name}, {peer}: {traceback.format_exc()}", file=sys.stderr, flush=True)
        spark.stop()
    if not options.only or "start" in options.only:
        start_seconds(_OURS.replace("import os; os._exit(0)", "spark.stop()"))  # leaves the class archive
        for _ in range(rounds):
            bench.note("start to the first result", "s", "<= 0.5 x", PEERS[0], start_seconds(_PLAIN))
            bench.note("start to the first result", "s", "<= 0.5 x", PEERS[1], start_seconds(_OURS))
    rows = [_row(*measure, by_peer) for measure, by_peer in bench.figures.items()]
    print(document.table(_HEAD, rows))
    if options.write and not options.quick and conditions.may_write(others, rounds):
        document.write("spark", _INTRO, _HEAD, rows)
    return 1 if failures else 0


_WARMED = ("read", "read-1k", "streaming", "write", "write-1k")
_INTRO = """`JVM` is Spark's own connector (without Spark: confluent-kafka; at the start: plain PySpark).
The brokers share the cores with Spark. The ratio is ours divided by the JVM connector, both on Apache Kafka. Ours
writes streams exactly once, the JVM connector at least once."""


def _row(measure: str, unit: str, target: str, by_peer: dict[str, list[float]]) -> tuple[str, ...]:
    medians = {peer: statistics.median(values) for peer, values in by_peer.items()}
    shown = [f"{medians[peer]:.3g}" if peer in medians else "-" for peer in PEERS]
    theirs, ours = medians.get(PEERS[0]), medians.get(PEERS[1])
    return (measure, unit, *shown, f"{ours / theirs:.2f}" if theirs and ours else "-", target)


if __name__ == "__main__":
    sys.exit(main())
