"""Where records go and how long they stay: keys, partitioners, growing, retention, compaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

import ottla
from tests.conftest import SETTINGS, Target
from tests.course.faces import DEADLINE_S, Api, Confluent, Ours, members, read, until
from tests.oracle import cluster
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla

Unique = Callable[[str], str]
KEYS = [f"patient-{i}" for i in range(40)]
# Retention and compaction look every half second instead of every few minutes.
HURRY = {
    **SETTINGS,
    "log.retention.check.interval.ms": 300,
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 500,
    "log.segment.delete.delay.ms": 100,
}


def test_a_key_always_goes_to_the_same_partition_and_added_partitions_break_that(
    api: Api, unique: Unique
) -> None:
    topic = unique("keys")
    api.create(topic, 3)
    rows: list[tuple[str | None, str | None]] = [(key, "v") for key in KEYS]
    before = api.produce(topic, rows)
    assert api.produce(topic, rows) == before
    api.grow(topic, 5)
    after = api.produce(topic, rows)
    assert after != before
    assert {p for p in after if p >= 3}  # some keys live elsewhere from now on


def test_both_clients_put_a_key_where_java_does(target: Target, unique: Unique) -> None:
    topic = unique("murmur")
    ours, theirs = Ours(target.bootstrap), Confluent(target.bootstrap)
    ours.create(topic, 7)
    rows: list[tuple[str | None, str | None]] = [(key, "v") for key in KEYS]
    assert ours.produce(topic, rows) == theirs.produce(topic, rows)


def test_without_a_key_records_stick_to_a_partition_and_spread_in_the_long_run(
    target: Target, unique: Unique
) -> None:
    topic = unique("sticky")
    Ours(target.bootstrap).create(topic, 3)
    with ottla.Producer(bootstrap_servers=target.bootstrap, batch_size=2_000) as producer:
        first = [producer.send(topic, b"x" * 10) for _ in range(20)]
        assert len({each.result(DEADLINE_S).partition for each in first}) == 1
        many = [producer.send(topic, b"x" * 500) for _ in range(60)]
        assert {each.result(DEADLINE_S).partition for each in many} == {0, 1, 2}


def test_round_robin_takes_turns(target: Target, unique: Unique) -> None:
    topic = unique("turns")
    Ours(target.bootstrap).create(topic, 3)
    with ottla.Producer(bootstrap_servers=target.bootstrap, partitioner="round_robin") as producer:
        sent = [producer.send(topic, b"x") for _ in range(9)]
        assert [each.result(DEADLINE_S).partition for each in sent] == [0, 1, 2] * 3


def test_a_partitioner_of_ones_own(target: Target, unique: Unique) -> None:
    """The course's: the important customer has a partition alone."""
    topic = unique("own")
    Ours(target.bootstrap).create(topic, 4)

    def choose(name: str, key: bytes | None, partitions: int) -> int:
        return partitions - 1 if key == b"Banana" else len(key or b"") % (partitions - 1)

    with ottla.Producer(bootstrap_servers=target.bootstrap, partitioner=choose) as producer:
        keys = ["Banana", "a", "bb", "Banana", "ccc"]
        sent = [producer.send(topic, "v", key) for key in keys]
        assert [each.result(DEADLINE_S).partition for each in sent] == [3, 1, 2, 3, 0]


def test_the_offsets_topic_holds_group_topic_partition_to_offset(
    api: Api, unique: Unique, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from ottla.cli.main import main

    topic, group = unique("committed"), unique("g")
    api.create(topic)
    api.produce(topic, [(None, "a"), (None, "b")])
    member = api.member(group, [topic])
    with members(member):
        read(member, 2)
        member.commit()
    arguments = ["--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", "1500"]
    formatter = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
    main(
        ["kafka-console-consumer", "--bootstrap-server", api.bootstrap, *arguments, "--formatter", formatter]
    )
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    mine = [each for each in lines if each["key"]["data"]["group"] == group]
    assert mine[-1]["key"]["data"] == {"group": group, "topic": topic, "partition": 0}
    assert mine[-1]["value"]["data"]["offset"] == 2


# -- how long records stay -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hurried_kafka(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    if (reason := cluster.why_not()) is not None:
        pytest.skip(reason)
    with Oracle(settings=HURRY, heap="384M") as server:
        yield server


@pytest.fixture(scope="module")
def hurried_ottla() -> Iterator[Ottla]:
    with Ottla(settings=HURRY) as server:
        yield server


@pytest.fixture
def hurried(request: pytest.FixtureRequest, target: Target) -> Ours:
    """Our API on a server that looks after its segments all the time."""
    return Ours(request.getfixturevalue(f"hurried_{target.name}").bootstrap)


def fill(api: Ours, topic: str, count: int, size: int = 1_000, first_ms: int | None = None) -> None:
    with ottla.Producer(bootstrap_servers=api.bootstrap, linger_ms=0) as producer:
        for i in range(count):
            stamp = None if first_ms is None else first_ms + i
            producer.send(topic, b"x" * size, key=f"key-{i % 3}", timestamp=stamp).result(DEADLINE_S)


def test_retention_by_time(hurried: Ours, unique: Unique) -> None:
    topic = unique("time")
    hurried.create(topic, 1, {"retention.ms": "60000", "segment.bytes": "1048576", "segment.ms": "600"})
    fill(hurried, topic, 5, first_ms=int(time.time() * 1000) - 3_600_000)  # an hour old already
    time.sleep(0.7)
    fill(hurried, topic, 1)  # young; and the old segment is closed
    until(lambda: hurried.ends(topic, 0) == (5, 6))


def test_retention_by_size(hurried: Ours, unique: Unique) -> None:
    topic = unique("size")
    hurried.create(topic, 1, {"retention.bytes": "2000000", "segment.bytes": "1048576"})
    fill(hurried, topic, 6, size=900_000)
    until(lambda: hurried.ends(topic, 0)[0] >= 3)
    first, end = hurried.ends(topic, 0)
    assert end == 6 and end - first >= 2  # what fits stays


def test_compaction_keeps_the_last_of_each_key(hurried: Ours, unique: Unique) -> None:
    topic = unique("compact")
    configs = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}
    hurried.create(topic, 1, configs)
    fill(hurried, topic, 9, size=10)
    time.sleep(0.6)
    fill(hurried, topic, 1, size=10)  # closes the segment; it is never compacted itself

    def left() -> list[int]:
        with ottla.Consumer(bootstrap_servers=hurried.bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([(topic, 0)])
            seen: list[int] = []
            while not seen or seen[-1] < 9:
                seen += [record.offset for record in consumer.poll(1.0)]
            return seen

    until(lambda: left() in ([6, 7, 8, 9], [7, 8, 9]), [], "not compacted")
