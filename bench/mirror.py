"""A topic from one Ottla broker to another, exactly once: `ottla mirror` beside MirrorMaker 2 (Java), in one run.

    python -m bench.mirror [--scale 1.0] [--rounds 1] [--only ottla mm2 ottla-spark]
    python -m bench.mirror --together [--records 1000]
    python -m bench.mirror --source kafka ...

Each peer copies a topic that is full already (100 bytes a record, 4 partitions) between two fresh brokers. Measured are
the time from the start of the process to the first record that a reader of committed records sees, the rate from the
first record to the last, the processor time of the mirror and its children for each GB, the delay of single records
afterwards, and by how many records the positions of groups are off.

`--together` measures the delay of single records alone: all peers run at the same time, from one source to a target
each, and copy the same records. What else the machine does then weighs on all of them.
`--source kafka` copies from Apache Kafka.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import conditions
from ottla.client import Admin, Consumer, Producer
from ottla.client.columnar import ColumnarProducer
from ottla.client.values import ConsumerRecord, OffsetAndMetadata, TopicPartition
from tests.oracle.cluster import Oracle, start_tool, why_not
from tests.oracle.ottla import Ottla
from tests.soak.processes import descendants

TOPIC, COPY, PARTITIONS, SIZE, GROUPS = "in", "A.in", 4, 100, 10
RECORDS = {"ottla": 4_000_000, "ottla-spark": 4_000_000, "mm2": 300_000}
TARGETS = {"records/s": ">= 10 x", "CPU s/GB": "<= 1/5", "delay p99 ms": "<= 0.5 x", "start s": "<= 1/3"}
_STUCK_S = 240
_TICKS = os.sysconf("SC_CLK_TCK")
_MM2 = """clusters = A, B
A.bootstrap.servers = {source}
B.bootstrap.servers = {target}
A->B.enabled = true
A->B.topics = in
tasks.max = 2
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
exactly.once.source.support = enabled
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
"""


@dataclass(slots=True)
class Figures:
    start_s: float
    rate: float
    cpu_s_per_gb: float
    delay_p50_ms: float
    delay_p99_ms: float
    position_error_max: int

    def row(self) -> list[str]:
        return [
            f"{self.start_s:.1f}", f"{self.rate:,.0f}", f"{self.cpu_s_per_gb:.1f}", f"{self.delay_p50_ms:.0f}",
            f"{self.delay_p99_ms:.0f}", f"{self.position_error_max:,}",
        ]  # fmt: skip


def start_ottla(source: Side, target: Side, folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [
        str(Path(sys.executable).with_name("ottla")), "mirror", "--from", f"A={source.bootstrap}",
        "--to", f"B={target.bootstrap}", "--topics", TOPIC, *options,
    ]  # fmt: skip
    with (folder / "mirror.log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, text=True)


def start_mm2(source: Side, target: Side, folder: Path) -> subprocess.Popen[str]:
    file = folder / "mm2.properties"
    file.write_text(_MM2.format(source=source.bootstrap, target=target.bootstrap))
    with (folder / "mm2.log").open("w") as log:
        return start_tool("connect-mirror-maker", str(file), stdout=log, stderr=log)


Side = Ottla | Oracle
SOURCES: dict[str, Callable[[], Side]] = {"ottla": Ottla, "kafka": lambda: Oracle(heap="512M")}
PEERS: dict[str, Callable[[Side, Side, Path], subprocess.Popen[str]]] = {
    "ottla": lambda source, target, folder: start_ottla(source, target, folder, "--local"),
    "ottla-spark": start_ottla,
    "mm2": start_mm2,
}


def measure(peer: str, records: int, kind: str = "ottla") -> Figures:
    with SOURCES[kind]() as source, Ottla() as target, tempfile.TemporaryDirectory() as name:
        fill(source, records)
        wanted = commit_somewhere(source, records)
        begun = time.monotonic()
        process = PEERS[peer](source, target, Path(name))
        try:
            start_s, rate = follow(target, records, process, begun)
            cpu_s = cpu_seconds(process.pid)
            error = position_error(target, wanted)
            delays = single_records(source, target)
        finally:
            end(process)
    return Figures(
        start_s,
        rate,
        cpu_s / (records * SIZE / 1e9),
        statistics.median(delays),
        float(np.percentile(delays, 99)),
        error,
    )


def end(process: subprocess.Popen[str]) -> None:
    for pid in [*descendants(process.pid), process.pid]:
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
    process.wait()


def fill(broker: Side, records: int) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topic(TOPIC, PARTITIONS)
    with ColumnarProducer(bootstrap_servers=broker.bootstrap) as producer:
        for begin in range(0, records, 50_000):
            count = min(50_000, records - begin)
            values = pa.array([b"%0*d" % (SIZE, i) for i in range(begin, begin + count)], pa.binary())
            partitions = pa.array((np.arange(begin, begin + count) % PARTITIONS).astype(np.int32))
            producer.write(
                pa.RecordBatch.from_arrays([values, partitions], names=["value", "partition"]), TOPIC
            )


def commit_somewhere(broker: Side, records: int) -> dict[str, dict[int, int]]:
    """Groups near the end, as those are that fail over."""
    chance, per_partition = random.Random(1), records // PARTITIONS
    committed = {}
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(GROUPS):
            offsets = {p: chance.randint(per_partition // 2, per_partition) for p in range(PARTITIONS)}
            positions = {TopicPartition(TOPIC, p): OffsetAndMetadata(offset) for p, offset in offsets.items()}
            admin.alter_group_offsets(f"g{number}", positions)
            committed[f"g{number}"] = offsets
    return committed


def follow(target: Ottla, records: int, process: subprocess.Popen[str], begun: float) -> tuple[float, float]:
    """Seconds to the first visible record, and records a second from the first one written to the last one visible."""
    wheres = {TopicPartition(COPY, p): -1 for p in range(PARTITIONS)}
    start_s = first = 0.0
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        while COPY not in admin.list_topics():
            _check(process, begun)
        while True:
            if not first and any(end.offset for end in admin.list_offsets(wheres).values()):
                first = time.monotonic()
            visible = sum(end.offset for end in admin.list_offsets(wheres, committed_only=True).values())
            if visible and not start_s:
                start_s = time.monotonic() - begun
            if visible >= records:
                return start_s, records / max(1e-3, time.monotonic() - first)
            _check(process, begun)


def _check(process: subprocess.Popen[str], begun: float) -> None:
    if process.poll() is not None or time.monotonic() - begun > _STUCK_S:
        raise RuntimeError(f"the peer has ended or is stuck: {process.args!r}")
    time.sleep(0.02)


def cpu_seconds(pid: int) -> float:
    total = 0.0
    for process_id in [pid, *descendants(pid)]:
        try:
            fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / _TICKS
    return total


def position_error(target: Ottla, wanted: dict[str, dict[int, int]]) -> int:
    """By how many records a group is off at the worst, once all groups have arrived and had some seconds more."""
    deadline = time.monotonic() + 90
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        while any(len(admin.group_offsets(group)) < PARTITIONS for group in wanted):
            if time.monotonic() > deadline:
                return -1
            time.sleep(0.2)
        time.sleep(5)
        arrived = {group: admin.group_offsets(group) for group in wanted}
    worst = 0
    for p in range(PARTITIONS):
        offsets = _offsets(target, p)
        for group, positions in wanted.items():
            at = int(np.searchsorted(offsets, arrived[group][TopicPartition(COPY, p)].offset))
            worst = max(worst, abs(at - positions[p]))
    return worst


def _offsets(target: Ottla, partition: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    from ottla.client.columnar import ColumnarReader
    from ottla.client.columnar.ranges import Range

    where = TopicPartition(COPY, partition)
    with Admin(bootstrap_servers=target.bootstrap) as admin:
        end = admin.list_offsets({where: -1}, committed_only=True)[where].offset
    with ColumnarReader(bootstrap_servers=target.bootstrap) as reader:
        return np.concatenate(
            [rows.column("offset").to_numpy() for rows in reader.read([Range(*where, 0, end)])]
        )


def single_records(source: Side, target: Ottla, count: int = 200) -> list[float]:
    """Milliseconds from send to a reader of committed records at the target."""
    wheres = [TopicPartition(COPY, p) for p in range(PARTITIONS)]
    delays: list[float] = []
    settings = {"bootstrap.servers": target.bootstrap, "isolation.level": "read_committed"}
    with (
        Consumer(settings) as consumer,
        Producer(bootstrap_servers=source.bootstrap, linger_ms=0) as producer,
    ):
        consumer.assign(wheres)
        for where, end in consumer.end_offsets(wheres).items():
            consumer.seek(where, end)
        sent = 0
        deadline = time.monotonic() + 60
        while len(delays) < count and time.monotonic() < deadline:
            if sent < count:
                producer.send(TOPIC, b"%r" % time.time(), partition=sent % PARTITIONS)
                sent += 1
            delays += [(time.time() - float(record.value)) * 1000 for record in consumer.poll(0.02)]
    return delays or [float("nan")]


def together(
    peers: Sequence[str], count: int, kind: str = "ottla", pause_s: float = 0.02
) -> dict[str, list[float]]:
    """Milliseconds from send to a reader of committed records at each peer's target."""
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(SOURCES[kind]())
        targets = {peer: stack.enter_context(Ottla()) for peer in peers}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fill(source, 20_000)
        for peer, target in targets.items():
            own = folder / peer
            own.mkdir()
            process = PEERS[peer](source, target, own)
            stack.callback(end, process)
            follow(target, 20_000, process, time.monotonic())
        delays = {peer: Delays() for peer in peers}
        readers = [Reader(target, delays[peer].take) for peer, target in targets.items()]
        for reader in readers:
            reader.start()
        producer = stack.enter_context(Producer(bootstrap_servers=source.bootstrap, linger_ms=0))
        for number in range(count):
            producer.send(TOPIC, b"%r" % time.time(), partition=number % PARTITIONS)
            time.sleep(pause_s)
        for reader in readers:
            reader.wait_for(count)
            reader.stop()
        return {peer: own.values_ms or [float("nan")] for peer, own in delays.items()}


class Reader(threading.Thread):
    """Reads what is new at a target, in a thread of its own: no peer waits for another's records."""

    def __init__(self, target: Ottla, take: Callable[[Sequence[ConsumerRecord]], None]) -> None:
        super().__init__(daemon=True)
        self._target, self._take = target, take
        self._ready, self._over = threading.Event(), threading.Event()
        self._count = 0

    def start(self) -> None:
        super().start()
        self._ready.wait(60)

    def run(self) -> None:
        partitions = [TopicPartition(COPY, p) for p in range(PARTITIONS)]
        settings = {"bootstrap.servers": self._target.bootstrap, "isolation.level": "read_committed"}
        with Consumer(settings) as consumer:
            consumer.assign(partitions)
            for partition, end_offset in consumer.end_offsets(partitions).items():
                consumer.seek(partition, end_offset)
            consumer.poll(0.5)
            self._ready.set()
            while not self._over.is_set():
                records = consumer.poll(0.2)
                self._take(records)
                self._count += len(records)

    def wait_for(self, count: int) -> None:
        """For so many records, at most a minute."""
        deadline = time.monotonic() + 60
        while self._count < count and time.monotonic() < deadline:
            time.sleep(0.1)

    def stop(self) -> None:
        self._over.set()
        self.join()


class Delays:
    """Milliseconds from send to a reader, of records whose value is the time when they were sent."""

    def __init__(self) -> None:
        self.values_ms: list[float] = []

    def take(self, records: Sequence[ConsumerRecord]) -> None:
        self.values_ms += [(time.time() - float(record.value)) * 1000 for record in records]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(PEERS), default=["ottla", "mm2"])
    parser.add_argument("--together", action="store_true", help="the delay alone, all peers at the same time")
    parser.add_argument("--records", type=int, default=1_000, help="with --together")
    parser.add_argument("--source", choices=list(SOURCES), default="ottla", help="default: ottla")
    options = parser.parse_args()
    if "mm2" in options.only and (reason := why_not()) is not None:
        print(f"without MirrorMaker: {reason}", file=sys.stderr)
        options.only.remove("mm2")
    conditions.prepare()
    if options.together:
        print("| peer | delay p50 ms | p90 | p99 | records |\n|---|---|---|---|---|")
        for peer, delays in together(options.only, options.records, options.source).items():
            shown = " | ".join(f"{value:.1f}" for value in np.percentile(delays, [50, 90, 99]))
            print(f"| {peer} | {shown} | {len(delays)} |", flush=True)
        return 0
    print(f"targets beside MirrorMaker: {TARGETS}, position error 0", flush=True)
    print(
        "| peer | start s | records/s | CPU s/GB | delay p50 ms | delay p99 ms | position error |\n"
        "|---|---|---|---|---|---|---|"
    )
    for _ in range(options.rounds):
        for peer in options.only:
            figures = measure(peer, int(RECORDS[peer] * options.scale), options.source)
            print(f"| {peer} | {' | '.join(figures.row())} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
