"""Where records go and how long they stay: keys, partitioners, growing, retention, compaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import ottla
from tests.conftest import Target
from tests.course.faces import DEADLINE_S, Api, Confluent, Ours, members, read, until

Unique = Callable[[str], str]
KEYS = [f"patient-{i}" for i in range(40)]


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


def test_without_a_key_records_are_spread_over_the_partitions(api: Api, unique: Unique) -> None:
    topic = unique("spread")
    api.create(topic, 3)
    # A batch is full with every record, so the next one may go elsewhere.
    each_alone = {"batch.size": 1} if api.name == "ottla-api" else {"sticky.partitioning.linger.ms": 0}
    assert set(api.produce(topic, [(None, "x")] * 100, **each_alone)) == {0, 1, 2}


def test_without_a_key_records_of_a_batch_stick_to_a_partition(target: Target, unique: Unique) -> None:
    topic = unique("sticky")
    Ours(target.bootstrap).create(topic, 3)
    settings = {"bootstrap.servers": target.bootstrap, "batch.size": 2_000, "linger.ms": 60_000}
    with ottla.Producer(settings) as producer:
        first = [producer.send(topic, b"x" * 10) for _ in range(20)]
        producer.flush()
        assert len({each.result(DEADLINE_S).partition for each in first}) == 1


def test_round_robin_takes_turns(api: Api, unique: Unique) -> None:
    topic = unique("turns")
    api.create(topic, 3)
    assert api.produce(topic, [(None, "x")] * 9, partitioner="round_robin") == [0, 1, 2] * 3


def test_a_partitioner_of_ones_own(api: Api, unique: Unique) -> None:
    """The course's: the important customer has a partition alone."""
    topic = unique("own")
    api.create(topic, 4)

    def choose(name: str, key: bytes | None, partitions: int) -> int:
        return partitions - 1 if key == b"Banana" else len(key or b"") % (partitions - 1)

    keys = ["Banana", "a", "bb", "Banana", "ccc"]
    assert api.produce(topic, [(key, "v") for key in keys], partitioner=choose) == [3, 1, 2, 3, 0]


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
    mine: list[dict[str, Any]] = []

    def is_shown() -> bool:
        """The command ends when nothing has come for a while: on a busy machine, perhaps before anything has."""
        main(
            [
                "kafka-console-consumer",
                "--bootstrap-server",
                api.bootstrap,
                *arguments,
                "--formatter",
                formatter,
            ]
        )
        lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
        mine[:] = [each for each in lines if each["key"]["data"]["group"] == group]
        return bool(mine)

    until(is_shown)
    assert mine[-1]["key"]["data"] == {"group": group, "topic": topic, "partition": 0}
    assert mine[-1]["value"]["data"]["offset"] == 2


# -- how long records stay -------------------------------------------------------------------------


def an_hour_ago() -> int:
    return int(time.time() * 1000) - 3_600_000


def test_retention_by_time(api: Api, unique: Unique) -> None:
    topic = unique("time")
    api.create(topic, 1, {"retention.ms": "60000", "segment.ms": "60000"})
    api.produce(topic, [(None, "old")] * 5, at_ms=an_hour_ago())
    api.produce(topic, [(None, "young")])  # its time closes the old segment
    # Retention may look while the old ones are written, and take the first of them before.
    until(lambda: api.ends(topic, 0)[0] >= 5)
    assert api.ends(topic, 0) == (5, 6)
    assert [(each.offset, each.value) for each in api.records(topic)] == [(5, "young")]


def test_retention_by_size(api: Api, unique: Unique) -> None:
    """Six segments of 0.9 MB where 2 MB are to be kept: the oldest go, as long as 2 MB are left without them."""
    topic = unique("size")
    api.create(topic, 1, {"retention.bytes": "2000000", "segment.bytes": "1048576"})
    api.produce(topic, [(None, f"{i}" * 900_000) for i in range(6)], **{"batch.size": 1})
    until(lambda: api.ends(topic, 0)[0] >= 3)
    assert api.ends(topic, 0) == (3, 6)
    assert [(each.offset, (each.value or "")[0]) for each in api.records(topic)] == [
        (3, "3"),
        (4, "4"),
        (5, "5"),
    ]


def test_compaction_keeps_the_last_of_each_key(api: Api, unique: Unique) -> None:
    topic = unique("compact")
    configs = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
    api.create(topic, 1, configs)
    rows: list[tuple[str | None, str | None]] = [(f"key-{i % 3}", f"value {i}") for i in range(8)]
    api.produce(topic, [*rows, ("key-2", None)], at_ms=an_hour_ago())  # at last key-2 is deleted
    api.produce(topic, [("other", "young")])  # its time closes the old segment; the new one is left alone
    until(lambda: len(api.records(topic)) < 10, what="not compacted")
    assert [(each.offset, each.key, each.value) for each in api.records(topic)] == [
        (6, "key-0", "value 6"),
        (7, "key-1", "value 7"),
        (8, "key-2", None),
        (9, "other", "young"),
    ]
