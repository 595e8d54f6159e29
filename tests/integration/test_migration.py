"""Write with Apache Kafka, go on with Ottla, go back: by `ottla import-kafka` and `ottla export-kafka`."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    ShareConsumer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from ottla.ensemble import Ensemble
from ottla.ensemble import why_not as no_zookeeper
from ottla.testing import Broker
from tests.integration.test_start import ottla
from tests.oracle import cluster
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports
from tests.oracle.transactions import wait_for_markers

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(cluster.why_not() is not None, reason=cluster.why_not() or ""),
]

SETTINGS = {
    "offsets.topic.num.partitions": 7,  # neither side's default
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.backoff.ms": 200,
}
TOPICS = {
    "plain": {"segment.bytes": "1048576", "retention.ms": "86400001"},
    "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"},
    "transactional": {"compression.type": "zstd"},
    "positions": {},
    "queue": {},
}
GROUPS = {"classic-group": {}, "consumer-group": {"group.protocol": "consumer"}}
SHARE_GROUP = "share-group"


class Seen(NamedTuple):
    """Everything that must survive, as clients see it."""

    topics: dict[str, tuple[str, int]]
    settings: dict[str, dict[str, str]]
    records: dict[tuple[str, int, str], list[tuple[object, ...]]]
    offsets: dict[str, dict[tuple[str, int], int]]


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def create(bootstrap: str) -> None:
    topics = [NewTopic(name, 2, 1, config=settings) for name, settings in TOPICS.items()]
    client = admin(bootstrap)
    for created in client.create_topics(topics).values():
        created.result(60)
    for *resource, setting in (
        ("broker", "", "message.max.bytes=2000000"),
        ("group", "classic-group", "consumer.session.timeout.ms=50001"),
        ("group", SHARE_GROUP, "share.auto.offset.reset=earliest"),
    ):
        changed = ottla("config", "set", *resource, setting, "--bootstrap", bootstrap)
        assert changed.returncode == 0, changed.stderr


def produce(bootstrap: str, topic: str, rows: list[tuple[str, bytes | None]], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for at, (key, value) in enumerate(rows):
        producer.produce(topic, value, key=key, headers={"h": b"x"}, partition=at % 2)
    assert producer.flush(60) == 0


def write(bootstrap: str, tag: str) -> None:
    """Every codec, updates and deletions of keys, transactions of each ending."""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        rows = [(f"{tag}-{codec}-{at}", b"%d" % at * 200) for at in range(300)]
        produce(bootstrap, "plain", rows, **{"compression.type": codec})
    rows = [(f"k{at % 20}", f"{tag}-{at}".encode() if at % 7 else None) for at in range(200)]
    produce(bootstrap, "compacted", rows)
    transact(bootstrap, f"{tag}-done", tag, "commit", "abort", "commit")
    transact(bootstrap, f"{tag}-open", tag, "leave")
    produce(bootstrap, "positions", [(f"{tag}-{at}", f"{tag}-{at}".encode()) for at in range(20)])


def transact(bootstrap: str, transactional_id: str, tag: str, *endings: str) -> None:
    # What is left open stays so until a test ends it, however long the servers take to stop and to start.
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    producer.init_transactions(60)
    for at, ending in enumerate(endings):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("transactional", f"{tag}-{at}-{ending}", partition=partition)
        assert producer.flush(60) == 0
        if ending == "commit":
            producer.commit_transaction(60)
        if ending == "abort":
            producer.abort_transaction(60)


def consume(bootstrap: str, group: str, count: int) -> list[bytes]:
    """The next records of the group, committed one by one as they come."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **GROUPS[group],
        }
    )
    consumer.subscribe(["positions"])
    values = []
    while len(values) < count:
        message = consumer.poll(60)
        assert message is not None, f"{group}: nothing came for 60 s"
        assert message.error() is None, message.error()
        values.append(message.value())
        consumer.commit(message, asynchronous=False)
    consumer.close()
    return values


def share(bootstrap: str, tag: str, left: str | None = None) -> str:
    """A share group is given what it left before and 20 new records, and nothing that it accepted. It leaves one."""
    values = [f"{tag}-{at}" for at in range(20)]
    produce(bootstrap, "queue", [(value, value.encode()) for value in values])
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": SHARE_GROUP,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    consumer.subscribe(["queue"])
    due = {*values[1:], *([left] if left is not None else [])}
    deadline = time.monotonic() + 120
    while due:
        assert time.monotonic() < deadline, f"share group: {due} did not come for 120 s"
        for message in consumer.poll(0.5):
            assert message.error() is None, message.error()
            value = message.value().decode()
            assert value in due or value == values[0], f"{value} was accepted, and came again"
            due.discard(value)
            kind = AcknowledgeType.RELEASE if value == values[0] else AcknowledgeType.ACCEPT
            consumer.acknowledge(message, kind)
    consumer.commit_sync()
    consumer.close()
    return values[0]


def read(bootstrap: str, topic: str, partition: int, isolation: str) -> list[tuple[object, ...]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    seen: list[tuple[object, ...]] = []
    while True:
        message = consumer.poll(60)
        assert message is not None, f"{topic}-{partition}: nothing came for 60 s"
        if message.error():
            consumer.close()
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return seen
        at = message.offset(), message.timestamp()
        seen.append((*at, message.key(), message.value(), message.headers()))


def settings_of(client: AdminClient, kind: ResourceType, name: str) -> dict[str, str]:
    (described,) = client.describe_configs([ConfigResource(kind, name)]).values()
    dynamic = (1, 3, 8)  # of the topic; the default of all brokers; of the group
    return {entry.name: entry.value for entry in described.result(60).values() if entry.source in dynamic}


def look(bootstrap: str) -> Seen:
    client = admin(bootstrap)
    names = sorted(client.list_topics(timeout=30).topics)
    described = client.describe_topics(TopicCollection(names))
    topics = {name: future.result(60) for name, future in described.items()}
    return Seen(
        {name: (str(topic.topic_id), len(topic.partitions)) for name, topic in topics.items()},
        {
            "": settings_of(client, ResourceType.BROKER, "1"),
            "group": settings_of(client, ResourceType.GROUP, "classic-group"),
            **{name: settings_of(client, ResourceType.TOPIC, name) for name in names},
        },
        {
            (name, at, isolation): read(bootstrap, name, at, isolation)
            for name in TOPICS
            if name != "compacted"
            for at in (0, 1)
            for isolation in ("read_committed", "read_uncommitted")
        },
        {group: offsets_of(client, group) for group in GROUPS},
    )


def offsets_of(client: AdminClient, group: str) -> dict[tuple[str, int], int]:
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    return {(each.topic, each.partition): each.offset for each in asked[group].result(60).topic_partitions}


def newest_by_key(bootstrap: str) -> dict[object, object]:
    """Of a compacted topic this may not change, whenever it is compacted; deleted keys are left out."""
    newest: dict[object, object] = {}
    for partition in (0, 1):
        for _, _, key, value, _ in read(bootstrap, "compacted", partition, "read_committed"):
            newest[partition, key] = value
    return {key: value for key, value in newest.items() if value is not None}


def imported(source: Path, data: Path, *options: str) -> Ottla:
    result = ottla("import-kafka", "--from", str(source), "--data", str(data), *options)
    assert result.returncode == 0, result.stderr
    return Ottla(data=data, settings=SETTINGS, options=("--broker-id", "1"))


def exported(data: Path, oracle: Oracle) -> str:
    """Into the folder of a formatted Apache Kafka that was never started."""
    oracle.prepare()
    shutil.rmtree(oracle.log_folder())
    controller = f"127.0.0.1:{oracle.port + 100}"
    result = ottla(
        "export-kafka", "--data", str(data), "--to", str(oracle.log_folder()), "--controller", controller
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def dumped(folder: Path) -> str:
    """The exported metadata as Apache Kafka's own tool reads it."""
    (checkpoint,) = folder.glob("__cluster_metadata-0/*.checkpoint")
    return cluster.run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(checkpoint))


def tree(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def an_oracle(data: Path) -> Oracle:
    return Oracle(data=data, settings=SETTINGS, heap="512M")


@pytest.fixture
def oracles(tmp_path) -> Iterator[list[Oracle]]:
    made = [an_oracle(tmp_path / f"kafka-{at}") for at in range(2)]
    yield made
    for oracle in made:
        oracle.close()


def go_on(bootstrap: str, before: Seen, compacted: dict[object, object], tag: str) -> tuple[Seen, dict]:
    """All that was is there; then more is written, and the groups read on where they were."""
    assert look(bootstrap) == before
    assert newest_by_key(bootstrap) == compacted
    for group in GROUPS:
        seen = {record[0] for key, rows in before.records.items() if key[0] == "positions" for record in rows}
        assert seen
        consumed = consume(bootstrap, group, 3)
        behind = [
            record[3]
            for at in (0, 1)
            for record in before.records["positions", at, "read_committed"]
            if record[0] >= before.offsets[group].get(("positions", at), 0)  # type: ignore[operator]
        ]
        assert set(consumed) <= set(behind), "a record was read twice, or skipped"
    write(bootstrap, tag)
    return look(bootstrap), newest_by_key(bootstrap)


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_kafka_then_ottla_then_kafka_then_ottla(tmp_path, oracles, stop):
    first, second = oracles
    first.start()
    create(first.bootstrap)
    write(first.bootstrap, "one")
    for group in GROUPS:
        consume(first.bootstrap, group, 6)
    left = share(first.bootstrap, "one")
    seen, compacted = look(first.bootstrap), newest_by_key(first.bootstrap)
    assert TOPICS["plain"].items() <= seen.settings["plain"].items()
    assert seen.settings[""]["message.max.bytes"] == "2000000"
    if stop == "clean":
        first.stop()
    else:
        first.kill()
    source = tree(first.log_folder())

    with imported(first.log_folder(), tmp_path / "ours") as ours:
        assert tree(first.log_folder()) == source  # only read
        seen, compacted = go_on(ours.bootstrap, seen, compacted, "two")
        transact(ours.bootstrap, "one-open", "two", "commit")  # fences the one Kafka left open
        left = share(ours.bootstrap, "two", left)
        seen = look(ours.bootstrap)
        assert any("two-0-commit" in str(row) for row in seen.records["transactional", 0, "read_uncommitted"])
        assert ours.stop() == 0
        shutil.copytree(tmp_path / "ours", tmp_path / "kept")
        exported(tmp_path / "ours", second)
        assert tree(tmp_path / "ours") == tree(tmp_path / "kept")
        printed = dumped(second.log_folder())
        assert printed.count('"type":"TOPIC_RECORD"') == len(seen.topics)
        assert printed.count('"type":"PARTITION_RECORD"') == sum(count for _, count in seen.topics.values())

    second.start()
    seen, compacted = go_on(second.bootstrap, seen, compacted, "three")
    transact(second.bootstrap, "two-open", "three", "commit")
    left = share(second.bootstrap, "three", left)
    seen = look(second.bootstrap)
    second.stop()
    assert not list(second.log_folder().glob("*-stray"))

    with imported(second.log_folder(), tmp_path / "again") as ours:
        go_on(ours.bootstrap, seen, compacted, "four")
        share(ours.bootstrap, "four", left)
        assert ours.stop() == 0
        assert not list((tmp_path / "again").glob("*-stray"))
        assert ottla("doctor", "--data", str(tmp_path / "again"), "--deep").returncode == 0


def test_kafka_goes_on_with_what_began_in_ottla(tmp_path, oracles):
    """One record: the other partition, and all partitions of groups but one, have no folder yet."""
    kafka = oracles[0]
    with Broker(data=str(tmp_path / "ours"), offsets_topic_num_partitions=7) as ours:
        ours.create_topic("greetings", partitions=2)
        ours.send("greetings", "hello", partition=1)
        reader = Consumer(
            {"bootstrap.servers": ours.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        reader.subscribe(["greetings"])
        ours.wait_until(lambda: reader.poll(0.1))
        reader.commit(asynchronous=False)
        reader.close()
    assert "empty: greetings-0" in exported(tmp_path / "ours", kafka)
    kafka.start()
    for partition in (0, 1):
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce("greetings", b"again", partition=partition)
        assert producer.flush(60) == 0
    rows = [read(kafka.bootstrap, "greetings", partition, "read_committed") for partition in (0, 1)]
    assert [len(each) for each in rows] == [1, 2] and b"hello" in rows[1][0]
    assert offsets_of(admin(kafka.bootstrap), "readers")["greetings", 1] == 1
    kafka.stop()
    assert not list(kafka.log_folder().glob("*-stray"))


# Three brokers

REPLICATED = {"plain": {"min.insync.replicas": "2"}, "positions": {}, "transactional": {}}


class ThreeOttlas:
    """Brokers on imported folders, with a ZooKeeper."""

    def __init__(self, folder: Path, connect: str) -> None:
        self.brokers = [
            Ottla(
                data=folder / f"broker-{node_id}",
                settings=SETTINGS,
                options=("--broker-id", str(node_id), "--zookeeper", connect),
            )
            for node_id in (1, 2, 3)
        ]

    def __enter__(self) -> "ThreeOttlas":
        for broker in self.brokers:
            broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers)

    def stop(self) -> None:
        for broker in self.brokers:
            assert broker.stop() == 0


def replicated(bootstrap: str) -> dict[tuple[str, int, str], list[tuple[object, ...]]]:
    return {
        (name, at, isolation): read(bootstrap, name, at, isolation)
        for name in REPLICATED
        for at in (0, 1)
        for isolation in ("read_committed", "read_uncommitted")
    }


def write_replicated(bootstrap: str, tag: str) -> None:
    for name in ("plain", "positions"):
        produce(bootstrap, name, [(f"{tag}-{at}", f"{tag}-{at}".encode()) for at in range(50)], acks="all")
    transact(bootstrap, f"{tag}-done", tag, "commit", "abort", "commit")
    transact(bootstrap, f"{tag}-open", tag, "leave")


def end_open(bootstrap: str, left_by: str, tag: str) -> None:
    """The next producer of the id aborts what the one before the migration left open."""
    held_back = (f"{left_by}-0-leave", f"{tag}-0-commit")
    assert not set(held_back) & transactional(bootstrap, "read_committed")
    assert held_back[0] in transactional(bootstrap, "read_uncommitted")
    transact(bootstrap, f"{left_by}-open", tag, "commit")
    wait_for_markers(bootstrap, "transactional", 2)
    seen = transactional(bootstrap, "read_committed")
    assert held_back[0] not in seen and held_back[1] in seen


def transactional(bootstrap: str, isolation: str) -> set[str]:
    rows = [row for at in (0, 1) for row in read(bootstrap, "transactional", at, isolation)]
    return {bytes(value).decode() for _, _, _, value, _ in rows if isinstance(value, bytes)}


@pytest.mark.skipif(no_zookeeper() is not None, reason=no_zookeeper() or "")
def test_three_brokers_of_kafka_then_of_ottla_then_of_kafka(tmp_path):
    settings = {**SETTINGS, "offsets.topic.num.partitions": 3}
    first = Oracle(brokers=3, data=tmp_path / "kafka-1", settings=settings, heap="384M")
    second = Oracle(brokers=3, data=tmp_path / "kafka-2", settings=settings, heap="384M")
    zookeepers = Ensemble(tmp_path, free_ports(1))
    try:
        first.start()
        client = admin(first.bootstrap)
        topics = [NewTopic(name, 2, 3, config=configs) for name, configs in REPLICATED.items()]
        for created in client.create_topics(topics).values():
            created.result(60)
        write_replicated(first.bootstrap, "one")
        consume(first.bootstrap, "classic-group", 6)
        seen, offsets = replicated(first.bootstrap), offsets_of(client, "classic-group")
        first.stop()

        zookeepers.start()
        connect = f"{zookeepers.connect}/imported"
        sources = [part for at in (1, 2, 3) for part in ("--from", str(first.log_folder(at)))]
        refused = ottla("import-kafka", *sources, "--data", str(tmp_path / "ours"))
        assert (refused.returncode, "add --zookeeper" in refused.stderr) == (1, True)
        result = ottla("import-kafka", *sources, "--data", str(tmp_path / "ours"), "--zookeeper", connect)
        assert result.returncode == 0, result.stderr
        with ThreeOttlas(tmp_path / "ours", connect) as ours:
            assert replicated(ours.bootstrap) == seen
            assert offsets_of(admin(ours.bootstrap), "classic-group") == offsets
            end_open(ours.bootstrap, "one", "two")
            write_replicated(ours.bootstrap, "two")
            consume(ours.bootstrap, "classic-group", 6)
            seen = replicated(ours.bootstrap)
            offsets = offsets_of(admin(ours.bootstrap), "classic-group")
            ours.stop()
            assert not list((tmp_path / "ours").glob("*/*-stray"))

            second.prepare()
            folders = [
                part for at in (1, 2, 3) for part in ("--data", str(tmp_path / "ours" / f"broker-{at}"))
            ]
            voters = [
                part
                for at in (1, 2, 3)
                for part in ("--controller", f"{at}@127.0.0.1:{second.port + 99 + at}")
            ]
            for at in (1, 2, 3):
                shutil.rmtree(second.log_folder(at))
            result = ottla(
                "export-kafka", *folders, "--to", str(tmp_path / "back"), "--zookeeper", connect, *voters
            )
            assert result.returncode == 0, result.stderr
            for at in (1, 2, 3):
                (tmp_path / "back" / f"broker-{at}").rename(second.log_folder(at))
        second.start()
        assert replicated(second.bootstrap) == seen
        assert offsets_of(admin(second.bootstrap), "classic-group") == offsets
        end_open(second.bootstrap, "two", "three")
        write_replicated(second.bootstrap, "three")
        consume(second.bootstrap, "classic-group", 6)
        assert not [stray for at in (1, 2, 3) for stray in second.log_folder(at).glob("*-stray")]
    finally:
        zookeepers.stop()
        first.close()
        second.close()
