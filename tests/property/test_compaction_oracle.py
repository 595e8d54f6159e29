"""The same log, compacted by Apache Kafka and by us, batch for batch.

Kafka writes the log and keeps its cleaner away from it until the folder is copied; then it may clean, and we
clean the copy. The next round starts from what Kafka made of it.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ottla.config.log import LogConfig
from ottla.storage import checkpoints
from ottla.storage.cleanable import assess
from ottla.storage.compaction import Cleaning, run_all
from ottla.storage.files import LOG, SEGMENT_KINDS, FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire import records
from tests.oracle import cluster
from tests.oracle.cluster import Oracle
from tests.oracle.leaders import wait_for_changes
from tests.property.cleaning import batches_on

TOPIC = "compacted"
PARTITIONS = 5  # plain, compressed, idempotent, transactional, all mixed
KEPT_AWAY, LET_IN = "1.0", "0.0001"
SETTINGS = {
    "log.cleaner.backoff.ms": 50,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.initial.task.delay.ms": 100,
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    if (reason := cluster.why_not()) is not None:
        pytest.skip(reason)
    with Oracle(settings=SETTINGS, heap="512M") as kafka:
        yield kafka


def test_what_compaction_leaves_is_what_apache_kafka_leaves(oracle: Oracle, tmp_path: Path):
    admin = AdminClient({"bootstrap.servers": oracle.bootstrap, "log_level": 0})
    configs = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": KEPT_AWAY,
        "delete.retention.ms": "0",
        "segment.ms": "60000",
    }
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=configs)])[TOPIC].result(60)
    stream = Stream(oracle.bootstrap, seed=20)
    compared = 0
    for _ in range(3):
        stream.produce(200)
        # Markers are written after the client has its answer.
        wait_for(lambda: ends_of(admin) == stream.ends, "the last markers")
        before = [copy_of(oracle.log_folder(), partition) for partition in range(PARTITIONS)]
        dirty = checkpoints_of(oracle.log_folder())
        ours = [
            cleaned(disk, partition, dirty.get((TOPIC, partition))) for partition, disk in enumerate(before)
        ]
        clean_in_kafka(admin, oracle, {(TOPIC, partition): end for partition, (end, _) in enumerate(ours)})
        for partition, (_, left) in enumerate(ours):
            theirs = batches_of(copy_of(oracle.log_folder(), partition), partition)
            assert left == theirs, f"partition {partition}"
            compared += len(theirs)
    stream.close()
    check_with_dump_log(before, tmp_path)
    assert compared > 300  # of 600 written, and markers


class Stream:
    """Records of few keys, tombstones, transactions that commit and abort; seeded."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        self._random = random.Random(seed)
        base = {"bootstrap.servers": bootstrap, "linger.ms": 100, "log_level": 0}
        self._plain = [Producer(base), Producer({**base, "compression.type": "lz4"})]
        self._idempotent = Producer({**base, "enable.idempotence": True, "compression.type": "gzip"})
        self._transactional = [Producer({**base, "transactional.id": f"t{number}"}) for number in range(3)]
        for producer in self._transactional:
            producer.init_transactions(60)
        self._open: dict[int, set[int]] = {}  # producer -> partitions in its transaction
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._now_ms = int(time.time() * 1000) - 30_000_000

    def produce(self, batches: int) -> None:
        for _ in range(batches):
            partition = self._random.randrange(PARTITIONS)
            if self._random.random() < 0.3:
                self._now_ms += 61_000  # the next append rolls the segment
            kind = partition if partition < 4 else self._random.randrange(4)
            if kind == 3:
                self._in_transaction(partition)
            else:
                self._batch((*self._plain, self._idempotent)[kind], partition)

    def close(self) -> None:
        for number in list(self._open):
            self._transactional[number].abort_transaction(60)

    def _in_transaction(self, partition: int) -> None:
        number = self._random.randrange(3)
        producer = self._transactional[number]
        if number not in self._open:
            producer.begin_transaction()
            self._open[number] = set()
        self._open[number].add(partition)
        self._batch(producer, partition)
        choice = self._random.random()
        if choice > 0.8:
            return
        if choice < 0.5:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
        for each in self._open.pop(number):
            self.ends[each] += 1

    def _batch(self, producer: Producer, partition: int) -> None:
        for _ in range(self._random.randint(1, 4)):
            key = b"k%d" % self._random.randrange(12)
            value = None if self._random.random() < 0.25 else b"v%d" % self._random.randrange(1000)
            producer.produce(TOPIC, value, key, partition, timestamp=self._now_ms)
            self.ends[partition] += 1
        assert producer.flush(60) == 0


def copy_of(log_folder: Path, partition: int) -> MemoryDisk:
    """The log files alone: their indexes are ours to make."""
    disk = MemoryDisk()
    folder = f"{TOPIC}-{partition}"
    disk.make_folder(folder)
    for path in sorted((log_folder / folder).iterdir()):
        if path.suffix == LOG:
            disk.write_whole(f"{folder}/{path.name}", path.read_bytes())
    return disk


def checkpoints_of(log_folder: Path) -> checkpoints.Offsets:
    disk = MemoryDisk()
    path = log_folder / checkpoints.CLEANER_OFFSETS
    if path.exists():
        disk.write_whole(checkpoints.CLEANER_OFFSETS, path.read_bytes())
    offsets = checkpoints.read_offsets(disk, checkpoints.CLEANER_OFFSETS)
    return {partition: offset for partition, offset in offsets.items() if partition[0] == TOPIC}


def cleaned(disk: MemoryDisk, partition: int, dirty: int | None) -> tuple[int, list[Any]]:
    """Where our pass ends, and what it leaves."""
    config = LogConfig(compact=True, delete=False, delete_retention_ms=0, index_interval_bytes=300)
    now_ms = int(time.time() * 1000)
    log = Log.open(
        Location(disk, f"{TOPIC}-{partition}", FileCache()),
        config,
        LastRun(clean=False),
        now_ms=now_ms,
        report=pytest.fail,
    )
    log.advance_high_watermark(log.end_offset)
    cleaning = Cleaning(assess(log, dirty, now_ms), now_ms=now_ms)
    run_all(cleaning.steps())
    return cleaning.end_offset, batches_of(disk, partition)


def clean_in_kafka(admin: AdminClient, oracle: Oracle, ends: checkpoints.Offsets) -> None:
    """Let Kafka's cleaner in until it has been everywhere, then keep it away again."""
    set_ratio(admin, LET_IN)
    wait_for(lambda: checkpoints_of(oracle.log_folder()) == ends, f"Kafka to clean up to {ends}")
    set_ratio(admin, KEPT_AWAY)
    wait_for_changes(
        oracle.bootstrap
    )  # or the cleaner would come once more while the next records are written


def check_with_dump_log(disks: list[MemoryDisk], folder: Path) -> None:
    """Kafka's own tool reads what we cleaned, and finds the indexes in order."""
    paths = []
    for partition, disk in enumerate(disks):
        for name in disk.list(f"{TOPIC}-{partition}"):
            path = folder / f"{TOPIC}-{partition}" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(disk.read_whole(f"{TOPIC}-{partition}/{name}"))
            if path.suffix in SEGMENT_KINDS and path.stat().st_size:
                paths.append(str(path))
    printed = cluster.run_tool("kafka-dump-log", "--deep-iteration", "--files", ",".join(paths))
    assert printed.count("Log starting offset:") == sum(path.endswith(LOG) for path in paths)
    for complaint in (
        "isvalid: false",
        "mismatch",
        "Found timestamp",
        "Non-consecutive",
        "Exception",
        "no matching",
    ):
        assert complaint.lower() not in printed.lower(), printed


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """For another process, of which we see nothing but its answers and files."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def ends_of(admin: AdminClient) -> dict[int, int]:
    wanted = {TopicPartition(TOPIC, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    return {each.partition: future.result(60).offset for each, future in admin.list_offsets(wanted).items()}


def set_ratio(admin: AdminClient, ratio: str) -> None:
    entry = ConfigEntry("min.cleanable.dirty.ratio", ratio, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(60)


def batches_of(disk: MemoryDisk, partition: int) -> list[Any]:
    """All that a batch says, but for its bytes and the moment of its horizon."""
    return [
        (
            header.base_offset,
            header.last_offset,
            header.attributes,
            header.max_timestamp,
            (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch),
            [tuple(each) for each in records.read(batch)],
        )
        for header, batch in batches_on(disk, f"{TOPIC}-{partition}")
    ]
