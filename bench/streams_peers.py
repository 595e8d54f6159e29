"""Streams and pipelines on Spark beside Kafka Streams (Java) and Quix Streams, exactly once, in one run.

    python -m bench.streams_peers [count words join aggregate latency] [--rounds 3] [--scale 1.0] [--write]

Every peer reads a topic of its own that is full already (4 partitions, 100 bytes a record, 100,000 keys; lines of
four words out of 10,000; a table of 100,000 rows), on one Ottla broker, with two threads or two Spark tasks. The rate
is taken from the committed positions of its group, between a fifth of the input and the end of the last internal
topic: what is committed is done. A second line has the same for each second of the peer's processor time, without the
broker's: it says what the work costs, and the load of others matters little to it. Latency is that of a count at 200
records a second, from `send` to a read_committed consumer. Quix needs `QUIX_PYTHON=` a Python of its own with
quixstreams, and is left out without it.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench import conditions, document
from bench.measure import percentile
from bench.pipelines import PARTITIONS, VALUE, peer_command, running
from ottla.client import Consumer, Producer
from ottla.client.admin import Admin
from ottla.client.admin.topics import NewTopic
from ottla.client.columnar import ColumnarProducer
from ottla.streams import App, bytes_, int64, string
from tests.oracle import programs
from tests.oracle.ottla import Ottla

KEYS, WORDS, PIECE = 100_000, 10_000, 100_000
SKIPPED = 0.2  # of the records: start and warm-up
STILL_S = 1.0  # without a commit for so long, everything is done
STUCK_S = 300
LATENCY_S, WARM_UP_S, EVERY_S = 10, 4, 0.005
QUIX_PYTHON = (
    "QUIX_PYTHON"  # a Python that has quixstreams, which wants an older confluent-kafka than the tests
)
OURS, PIPELINES, JAVA, QUIX = "streams", "pipelines", "kafka-streams", "quix"
_HEAD = ("work", "unit", OURS, PIPELINES, JAVA, QUIX, "ratio", "target")
_INTRO = """Kafka Streams {version} with exactly_once_v2 and RocksDB, Quix Streams with exactly-once; `pipelines` is an
operator without the DSL. The broker shares the two cores. The ratio is `streams` to Kafka Streams, then to Quix."""


class Work(NamedTuple):
    """How many records each peer gets: enough for some seconds."""

    records: dict[str, int]
    target: str


WORKS = {
    "count": Work({OURS: 8_000_000, PIPELINES: 8_000_000, JAVA: 1_000_000, QUIX: 150_000}, ">= 8 x, >= 40 x"),
    "words": Work({OURS: 4_000_000, JAVA: 200_000}, ">= 5 x"),
    "join": Work({OURS: 6_000_000, JAVA: 600_000}, ">= 5 x"),
    "aggregate": Work({OURS: 6_000_000, JAVA: 600_000}, ">= 1 x"),
}

# -- our programs, and the others' ---------------------------------------------------------------------------


def application(work: str, bootstrap: str, name: str) -> App:
    app = App(name, bootstrap)
    source, out = f"{name}-in", f"{name}-out"
    match work:
        case "count":
            app.stream(source, value=bytes_).group_by_key().count(name="n").to_stream().to(out, value=int64)
        case "words":
            words = app.stream(source, value=string).flat_map_values(
                lambda line: line.lower().split(), value=string
            )
            words.group_by(lambda key, word: word).count(name="n").to_stream().to(out, value=int64)
        case "join":
            rows = app.table(f"{name}-table", value=string, name="rows")
            app.stream(source, value=string).join(rows, lambda value, row: value + row, string).to(out)
        case _:
            grouped = app.stream(source, value=bytes_).group_by_key()
            sums = grouped.aggregate(int, lambda key, value, seen: seen + len(value), value=int64, name="sum")
            sums.to_stream().to(out, value=int64)
    return app


def ours(work: str, bootstrap: str, name: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "bench.streams_peers", "--peer", work, bootstrap, name, str(folder)]


def java(work: str, bootstrap: str, name: str, folder: Path) -> list[str]:
    plain = programs.command("StreamsWorkload", work, bootstrap, name, str(folder), "2")
    # As an operator would run it: both compilers, the default collector, room for RocksDB.
    return [plain[0], "-Xmx1g", "-Dlog4j2.level=OFF", *plain[plain.index("-cp") :]]


def quix(work: str, bootstrap: str, name: str, folder: Path) -> list[str]:
    program = f"""
from quixstreams import Application
app = Application(broker_address={bootstrap!r}, consumer_group={name!r}, auto_offset_reset="earliest",
    processing_guarantee="exactly-once", commit_interval=0.5, state_dir={str(folder)!r}, loglevel="ERROR")
def count(value, state):
    seen = state.get("n", 0) + 1
    state.set("n", seen)
    return seen
source = app.topic("{name}-in", key_deserializer="bytes", value_deserializer="bytes")
result = app.topic("{name}-out", key_serializer="bytes", value_serializer="int")
app.dataframe(source).apply(count, stateful=True).to_topic(result)
app.run()
"""
    return [os.environ.get(QUIX_PYTHON, sys.executable), "-c", program]


PEERS: dict[str, Callable[[str, str, str, Path], list[str]]] = {
    OURS: ours,
    PIPELINES: lambda work, bootstrap, name, folder: peer_command(bootstrap, name, folder),
    JAVA: java,
    QUIX: quix,
}


def peer_main(work: str, bootstrap: str, name: str, folder: str, master: str = "") -> None:
    import ottla.spark

    spark = ottla.spark.session("bench", cores=2, settings={"spark.master": master} if master else None)
    spark.sparkContext.setLogLevel("OFF")
    application(work, bootstrap, name).run(spark, state_dir=folder)


# -- rates ---------------------------------------------------------------------------------------------------


def fill(bootstrap: str, work: str, name: str, records: int) -> None:
    """The input, and for a join the table before it."""
    make_topics(bootstrap, name)
    chance = np.random.default_rng(1)
    with ColumnarProducer(bootstrap_servers=bootstrap) as producer:
        if work == "join":
            keys = pa.array(np.arange(KEYS)).cast(pa.string()).cast(pa.binary())
            rows = pa.array([b"row-%08d" % number for number in range(KEYS)], pa.binary())
            # Before every record of the stream, and not so old that retention deletes it.
            stamps = pa.array(np.full(KEYS, int(time.time() * 1000) - 3_600_000))
            table = pa.RecordBatch.from_arrays([keys, rows, stamps], names=["key", "value", "timestamp"])
            producer.write(table, f"{name}-table")
        for _ in range(0, records, PIECE):
            keys = pa.array(chance.integers(0, KEYS, PIECE)).cast(pa.string()).cast(pa.binary())
            rows = pa.RecordBatch.from_arrays([keys, _values(work, chance)], names=["key", "value"])
            producer.write(rows, f"{name}-in")
        producer.flush()


def make_topics(bootstrap: str, name: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{name}-{end}", PARTITIONS) for end in ("in", "table", "out")])


def _values(work: str, chance: np.random.Generator) -> pa.Array:
    if work != "words":
        return pa.array([VALUE] * PIECE, pa.binary())
    words = [np.char.add("Word", chance.integers(0, WORDS, PIECE).astype(str)) for _ in range(4)]
    line = words[0]
    for word in words[1:]:
        line = np.char.add(np.char.add(line, " "), word)
    return pa.array(line).cast(pa.binary())


class Rate(NamedTuple):
    """Committed records a second, and for each second of processor time."""

    wall: float
    cpu: float


def rate(bootstrap: str, work: str, peer: str, records: int, number: int) -> Rate:
    name = f"bench-{work}-{peer}-{number}"
    fill(bootstrap, work, name, records)
    with started(work, peer, bootstrap, name) as process:
        return rate_of(bootstrap, name, records, process)


def rate_of(
    bootstrap: str,
    name: str,
    records: int,
    process: subprocess.Popen[bytes],
    on_progress: Callable[[float], None] = lambda _: None,
) -> Rate:
    """Of a peer that was just started; `on_progress` is told which share of the input is read."""
    # When, records of the input, positions of all topics, processor time.
    seen: list[tuple[float, int, int, float]] = []
    deadline = time.monotonic() + STUCK_S
    with Admin(bootstrap_servers=bootstrap) as admin:
        while not seen or seen[-1][1] < records or time.monotonic() - seen[-1][0] < STILL_S:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"{name} ended or is stuck at {seen[-1:]} of {records}")
            offsets = admin.group_offsets(name)
            count = sum(at.offset for where, at in offsets.items() if where.topic == f"{name}-in")
            whole = sum(at.offset for at in offsets.values())
            if count and (not seen or whole > seen[-1][2]):
                seen.append((time.monotonic(), count, whole, conditions.tree_cpu_s(process.pid)))
                on_progress(count / records)
            time.sleep(0.02)
    begun = next(at for at in seen if at[1] >= SKIPPED * records)
    if begun is seen[-1]:
        raise RuntimeError(f"{name} committed everything at once; more records are needed")
    done = records - begun[1]
    return Rate(done / (seen[-1][0] - begun[0]), done / max(0.01, seen[-1][3] - begun[3]))


@contextmanager
def started(work: str, peer: str, bootstrap: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-streams-", ignore_cleanup_errors=True) as folder,
        running(PEERS[peer](work, bootstrap, name, Path(folder))) as process,
    ):
        yield process


# -- latency -------------------------------------------------------------------------------------------------


def latencies(bootstrap: str, peer: str, number: int) -> list[float]:
    """Of a count, in milliseconds: a record that no other follows within its step says when it was sent."""
    name = f"bench-latency-{peer}-{number}"
    make_topics(bootstrap, name)
    sent: dict[bytes, float] = {}
    over = threading.Event()
    ages: list[float] = []
    with started("count", peer, bootstrap, name) as process:
        sending = threading.Thread(target=_send, args=(bootstrap, f"{name}-in", sent, over), daemon=True)
        sending.start()
        settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Consumer({"bootstrap.servers": bootstrap, "group.id": f"{name}-reader", **settings}) as consumer:
            consumer.subscribe([f"{name}-out"])
            begun: float | None = None
            deadline = time.monotonic() + STUCK_S
            while begun is None or time.monotonic() - begun < WARM_UP_S + LATENCY_S:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"{peer} ended or is stuck: no result")
                records = consumer.poll(0.1)
                now = time.monotonic()
                begun = now if begun is None and records else begun
                if begun is not None and now - begun > WARM_UP_S:
                    ages += [1000 * (now - sent[record.key]) for record in records if record.key in sent]
        over.set()
        sending.join()
    return ages


def _send(bootstrap: str, topic: str, sent: dict[bytes, float], over: threading.Event) -> None:
    """Each record has a key of its own, so that each has a result of its own."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        number = 0
        while not over.wait(EVERY_S):
            key = b"%d" % number
            sent[key] = time.monotonic()
            producer.send(topic, b"x", key=key)
            number += 1


# -- the table -----------------------------------------------------------------------------------------------


def compare(works: list[str], rounds: int, scale: float, write: bool) -> None:
    rows: list[tuple[str, ...]] = []
    with conditions.watched() as others:
        for work in works:
            try:
                with Ottla() as broker:
                    rows += _rows(broker, work, rounds, scale)
            except RuntimeError as error:
                print(f"{work}: {error}", file=sys.stderr, flush=True)
    print(f"others kept {others.cores:.2f} cores busy")
    print(document.table(_HEAD, rows))
    if write and scale >= 1 and conditions.may_write(others, rounds):
        document.write("streams", _INTRO.format(version=document.kafka_version()), _HEAD, rows)


def _rows(broker: Ottla, work: str, rounds: int, scale: float) -> list[tuple[str, ...]]:
    if work == "latency":
        return _latency_rows(broker, rounds)
    found: dict[str, list[Rate]] = {}
    for number in range(rounds):
        for peer, records in WORKS[work].records.items():
            if peer == QUIX and QUIX_PYTHON not in os.environ:
                continue
            records = max(PIECE, int(records * scale) // PIECE * PIECE)
            found.setdefault(peer, []).append(rate(broker.bootstrap, work, peer, records, number))
            last = found[peer][-1]
            told = f"{last.wall:,.0f} records/s, {last.cpu:,.0f} for a second of the processor"
            print(f"{work}, {peer}, round {number + 1}: {told}", file=sys.stderr, flush=True)
    wall = {peer: statistics.median(rate.wall for rate in rates) for peer, rates in found.items()}
    cpu = {peer: statistics.median(rate.cpu for rate in rates) for peer, rates in found.items()}
    return [
        _line(work, "records/s", wall, WORKS[work].target),
        _line(f"{work}, processor", "records/s of it", cpu, ""),
    ]


def _latency_rows(broker: Ottla, rounds: int) -> list[tuple[str, ...]]:
    ages: dict[str, list[float]] = {OURS: [], JAVA: []}
    for number in range(rounds):
        for peer, mine in ages.items():
            mine += latencies(broker.bootstrap, peer, number)
            told = " / ".join(f"{percentile(mine, share):.0f}" for share in (0.5, 0.99))
            print(f"latency, {peer}, round {number + 1}: {told} ms", file=sys.stderr, flush=True)
    return [
        _line(
            f"latency {word}",
            "ms",
            {peer: percentile(mine, share) for peer, mine in ages.items()},
            "<= 1.5 x",
        )
        for word, share in (("p50", 0.5), ("p99", 0.99))
    ]


def _line(name: str, unit: str, figures: dict[str, float], target: str) -> tuple[str, ...]:
    shown = [f"{figures[peer]:,.0f}" if peer in figures else "-" for peer in _HEAD[2:6]]
    ratios = [f"{figures[OURS] / figures[peer]:.1f} x" for peer in (JAVA, QUIX) if peer in figures]
    return (name, unit, *shown, ", ".join(ratios), target)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*WORKS, "latency"]
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help="put the lines into docs/benchmarks.md")
    parser.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        peer_main(*options.peer)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that peers and broker end too
        compare(options.works or names, options.rounds, options.scale, options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
