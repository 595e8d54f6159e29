"""Produce and idempotence by raw requests."""

from __future__ import annotations

from typing import Any

from tests.compat.answers import Session
from tests.compat.batches import NOW_MS, Record, batch


def produce_in_every_version(s: Session) -> None:
    name = s.topic("produce", partitions=2)
    topic_id = s.topic_id(name)
    for version in s.versions("produce"):
        for acks in (-1, 1):
            s.call("produce", version, _body(name, topic_id, batch([b"x", b"y"]), acks=acks), f"acks {acks}")


def produce_that_is_not_answered(s: Session) -> None:
    name = s.topic("acks-0")
    for version in s.versions("produce"):
        s.raw.send("produce", version, _body(name, s.topic_id(name), batch([b"x"]), acks=0))
    # The next answer is that of the next request.
    s.call("list_offsets", 1, _latest(name))


def produce_wrongly(s: Session) -> None:
    """All but null records: Apache Kafka never answers those."""
    name = s.topic("wrong")
    version, topic_id = s.latest("produce"), s.topic_id(name)
    good = batch([b"v"])

    def ask(note: str, records: bytes, **more: Any) -> None:
        s.call("produce", version, _body(name, topic_id, records, **more), note)

    for acks in (2, -2, 7):
        ask(f"acks {acks}", good, acks=acks)
    ask("unknown partition", good, partition=5)
    s.call("produce", version, _body(name, "00000000-0000-0000-0000-0000000000ff", good), "unknown id")
    s.call("produce", 9, _body("no-such-topic", topic_id, good), "unknown name")
    ask("no records", b"")
    ask("empty batch", batch([]))
    ask("two batches", good + good)
    ask("half a batch", good[:-3])
    ask("bytes behind", good + b"abc")
    ask("wrong checksum", good[:-1] + b"!")
    ask("count too high", batch([b"v"], count=2))
    ask("count too low", batch([b"v", b"w"], count=1, last_offset_delta=0))
    ask("last offset delta", batch([b"v", b"w"], last_offset_delta=5))
    ask("negative count", batch([b"v"], count=-1))
    ask("unknown codec", batch([b"v"], attributes=7))
    ask("not compressed at all", batch([b"v"], attributes=2))
    ask("control batch", batch([b"v"], attributes=0x20))
    ask(
        "transactional without an id",
        batch([b"v"], attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0),
    )
    ask("magic 1", batch([b"v"], magic=1))
    ask("magic 3", batch([b"v"], magic=3))
    ask("gzip", batch([b"v" * 100], gzipped=True))
    ask("base offset is ignored", batch([b"v"], base_offset=1234))
    s.call("list_offsets", 1, _latest(name), "in the end")


def produce_against_topic_settings(s: Session) -> None:
    version = s.latest("produce")

    def ask(stem: str, configs: dict[str, str], records: bytes, note: str = "") -> None:
        name = s.topic(stem, configs=configs)
        s.call("produce", version, _body(name, s.topic_id(name), records), f"{stem} {note}".strip())

    ask("small", {"max.message.bytes": "200"}, batch([b"v" * 300]))
    ask("fits", {"max.message.bytes": "500"}, batch([b"v" * 300]))
    ask("compacted", {"cleanup.policy": "compact"}, batch([Record(b"v", b"k"), Record(b"v", None)]))
    ask(
        "old",
        {"message.timestamp.before.max.ms": "1000"},
        batch([Record(b"v", timestamp=NOW_MS - 3_600_000)]),
    )
    ask(
        "future",
        {"message.timestamp.after.max.ms": "1000"},
        batch([Record(b"v", timestamp=9_000_000_000_000)]),
    )
    ask("no-time", {}, batch([Record(b"v", timestamp=-1)]))
    ask("append-time", {"message.timestamp.type": "LogAppendTime"}, batch([b"v"]))
    ask("min-isr", {"min.insync.replicas": "2"}, batch([b"v"]))


def idempotence(s: Session) -> None:
    name = s.topic("idempotent")
    version, topic_id = s.latest("produce"), s.topic_id(name)
    producer = s.producer_id()

    def ask(note: str, sequence: int, epoch: int = 0, count: int = 1, producer_id: int = producer) -> None:
        records = batch([b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        s.call("produce", version, _body(name, topic_id, records), note)

    ask("first", 0)
    ask("second", 1, count=3)
    ask("second again", 1, count=3)
    ask("first again", 0)
    ask("gap", 9)
    ask("overlap", 2, count=3)
    for i in range(5):
        ask(f"next {i}", 4 + i)
    ask("too old to remember", 0)
    ask("old but remembered", 4)
    ask("newer epoch, not from zero", 5, epoch=1)
    ask("newer epoch", 0, epoch=1)
    ask("older epoch", 9, epoch=0)
    ask("unknown producer, not from zero", 5, producer_id=producer + 1000)
    ask("unknown producer", 0, producer_id=producer + 2000)
    ask("negative sequence", -1)
    body = {"topics": [{"name": name, "partition_indexes": [0, 7]}]}
    for each in s.versions("describe_producers"):
        s.call("describe_producers", each, body)


def init_producer_id(s: Session) -> None:
    s.producer_id()
    for version in s.versions("init_producer_id"):

        def ask(note: str, v: int = version, **fields: Any) -> None:
            body = {
                "transactional_id": None,
                "transaction_timeout": 60_000,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            s.call("init_producer_id", v, {**body, **fields}, note)

        ask("new")
        ask("timeout is not looked at", transaction_timeout=-1)
        ask("empty transactional id", transactional_id="")
        if version >= 3:
            ask("id without epoch", producer_id=5)
            ask("epoch without id", producer_epoch=5)


def _body(name: str, topic_id: str, records: bytes, *, acks: int = -1, partition: int = 0) -> dict[str, Any]:
    data = [{"index": partition, "records": records}]
    return {
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [{"name": name, "topic_id": topic_id, "partition_data": data}],
    }


def _latest(name: str) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "topics": [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    }
