"""Apache Kafka reads what we write, and we read what it writes."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.config.log import LogConfig
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build, headers
from ottla.wire.records import Record, read
from tests.oracle import cluster

pytestmark = pytest.mark.skipif(cluster.why_not() is not None, reason=cluster.why_not() or "")
TOPIC_ID = bytes(range(16))


def a_log_with_everything(disk: MemoryDisk) -> Log:
    """Segments, codecs, idempotent and transactional producers, commits and aborts, three epochs."""
    chance = random.Random(7)
    log = opened(disk, "t-0", LogConfig(segment_bytes=20_000, index_interval_bytes=500), topic_id=TOPIC_ID)
    sequences: dict[int, int] = {}
    now_ms = 10_000
    for at in range(300):
        now_ms += chance.randint(0, 5)
        count, producer_id, epoch = chance.randint(1, 5), chance.choice([-1, 1, 2, 3]), at // 100
        records = [
            Record(each, now_ms + chance.randint(-500, 500), None, chance.randbytes(30), (("h", b"x"),))
            for each in range(count)
        ]
        batch = build(
            records,
            codec=at % 5,
            producer_id=producer_id,
            producer_epoch=0 if producer_id > 0 else -1,
            base_sequence=sequences.get(producer_id, 0) if producer_id > 0 else -1,
            transactional=producer_id > 1,
        )
        log.append(batch, leader_epoch=epoch, now_ms=now_ms)
        sequences[producer_id] = sequences.get(producer_id, 0) + count
        for ended in [2, 3] if at % 20 == 19 else []:
            if ended in log.producers.open_transactions:
                log.append_marker(ended, 0, chance.random() < 0.5, 0, leader_epoch=epoch, now_ms=now_ms)
    return log


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    disk = MemoryDisk()
    a_log_with_everything(disk).close(clean=True)
    folder = tmp_path_factory.mktemp("log") / "t-0"
    folder.mkdir()
    for name in disk.list("t-0"):
        (folder / name).write_bytes(disk.read_whole(f"t-0/{name}"))
    return folder


def dump(folder: Path, pattern: str, *options: str) -> str:
    names = [str(path) for path in sorted(folder.iterdir()) if re.search(pattern, path.name)]
    assert names
    return cluster.run_tool("kafka-dump-log", *options, "--files", ",".join(names))


def test_kafka_dump_log_reads_our_records_and_indexes(written):
    text = dump(written, r"\.(log|index|timeindex|txnindex|snapshot)$", "--deep-iteration")
    assert "isvalid: false" not in text
    assert "Mismatch" not in text
    assert "Exception" not in text
    # Of every segment but the first one the tool says that its first offset does not follow -1.
    gaps = re.findall(r"(-?\d+) is followed by", text)
    assert set(gaps) <= {"-1"}
    offsets = [int(each) for each in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert sorted(offsets) == list(range(len(offsets)))
    assert len(offsets) > 800
    assert re.search(r"producerId: 2 producerEpoch: 0 coordinatorEpoch: 0 .* lastSequence: \d+", text)
    assert re.search(
        r"version: 0 producerId: \d firstOffset: \d+ lastOffset: \d+ lastStableOffset: \d+", text
    )


def test_kafka_finds_our_indexes_sane(written):
    text = dump(written, r"\.(index|timeindex)$", "--index-sanity-check")
    assert text.count("passed sanity check") == len(list(written.glob("*index"))) - len(
        list(written.glob("*.txnindex"))
    )
    assert "Mismatch" not in dump(written, r"\.index$", "--verify-index-only")


@pytest.fixture(scope="module")
def of_kafka() -> Iterator[dict[str, object]]:
    """A topic of Apache Kafka: what a consumer sees, and its folder as it runs and after a clean stop."""
    with cluster.Oracle(heap="512M") as oracle:
        # The records are of long ago: a broker that is half a minute old would delete them.
        settings = {"segment.bytes": "1048576", "index.interval.bytes": "1000", "retention.ms": "-1"}
        topic = NewTopic("t", 1, 1, config=settings)
        admin = AdminClient({"bootstrap.servers": oracle.bootstrap})
        admin.create_topics([topic])["t"].result()
        write_to_kafka(oracle.bootstrap)
        seen = read_from_kafka(oracle.bootstrap)
        offsets_for_times = ask_kafka_for_times(oracle.bootstrap, [0, 1300, 1699, 1700, 5001])
        folder = oracle.log_folder() / "t-0"
        running = loaded(folder)
        oracle.stop()
        yield {
            "seen": seen,
            "offsets_for_times": offsets_for_times,
            "running": running,
            "stopped": loaded(folder),
        }


def write_to_kafka(bootstrap: str) -> None:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for at, codec in enumerate(codecs):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        for each in range(700):
            value = random.Random(each).randbytes(900 if each % 2 else 10)
            producer.produce("t", value, key=f"{at}-{each}", headers={"h": b"x"}, timestamp=1000 + each)
        producer.flush()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x", "linger.ms": 0})
    producer.init_transactions()
    for at in range(4):
        producer.begin_transaction()
        producer.produce("t", b"in transaction %d" % at, timestamp=5000 + at)
        producer.flush()
        if at % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    producer.produce("t", b"left open")
    producer.flush()


def read_from_kafka(bootstrap: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    seen = []
    while True:
        message = consumer.poll(30)
        assert message is not None, "nothing came for 30 s"
        if message.error():
            consumer.close()
            return seen
        seen.append((message.offset(), message.timestamp()[1], message.key(), message.value()))


def ask_kafka_for_times(bootstrap: str, timestamps: list[int]) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g"})
    found = {
        each: consumer.offsets_for_times([TopicPartition("t", 0, each)])[0].offset for each in timestamps
    }
    consumer.close()
    return found


def loaded(folder: Path) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("t-0")
    for path in folder.iterdir():
        disk.write_whole(f"t-0/{path.name}", path.read_bytes())
    return disk


def opened(
    disk: MemoryDisk, folder: str, config: LogConfig, *, clean: bool = False, topic_id: bytes | None = None
) -> Log:
    reports: list[str] = []
    log = Log.open(
        Location(disk, folder, FileCache()),
        config,
        LastRun(clean),
        now_ms=10_000,
        report=reports.append,
        topic_id=topic_id,
    )
    assert reports == []
    return log


def records_of(log: Log) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found, offset = [], 0
    while offset < log.end_offset:
        data, offset = log.read(offset, max_bytes=100_000, up_to=log.end_offset)
        for position, header in headers(data):
            if not header.is_control:
                found += [
                    (each.offset, each.timestamp, each.key, each.value) for each in read(data, position)
                ]
    return found


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_a_partition_folder_of_apache_kafka_opens_with_the_same_records(of_kafka, state):
    disk = of_kafka[state]
    log = opened(disk, "t-0", LogConfig(), clean=state == "stopped")
    assert len(log.segments) > 1
    assert records_of(log) == of_kafka["seen"]
    assert log.topic_id != bytes(16)
    assert len(log.aborted_transactions(0, log.end_offset)) == 2
    assert len(log.producers.entries) == 6
    assert len(log.producers.open_transactions) == 1
    for timestamp, offset in of_kafka["offsets_for_times"].items():
        assert log.offset_for_timestamp(timestamp).offset == offset
    batch = build([Record(0, 10_000, b"k", b"ours")])
    assert log.append(batch, leader_epoch=5, now_ms=10_000).next_offset == log.end_offset


def test_after_a_clean_stop_of_kafka_indexes_and_snapshot_are_taken_as_they_are(of_kafka):
    """The same state as from walking everything again."""
    stopped, running = of_kafka["stopped"], of_kafka["running"]
    walked = opened(running.copy(), "t-0", LogConfig())
    taken = opened(stopped.copy(), "t-0", LogConfig(), clean=True)
    for ours, theirs in zip(walked.segments, taken.segments, strict=True):
        assert ours.max_timestamp == theirs.max_timestamp
        assert list(ours.aborted) == list(theirs.aborted)
    last = {each.producer_id: each.batches[-1:] for each in walked.producers.entries.values()}
    assert {each.producer_id: each.batches[-1:] for each in taken.producers.entries.values()} == last
