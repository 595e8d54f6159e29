"""The sink's promise, kept by Spark itself; test_without_a_jvm.py has every way to break it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.client import Admin
from ottla.client.exactly_once import group_of

pytest.importorskip("pyspark", reason="needs the extra spark")


@pytest.fixture
def copied(topics, make_topic, checkpoint):
    """A query that has copied ten numbers, and can be asked to go on."""
    return Copied(topics, make_topic(partitions=2), make_topic(partitions=2), checkpoint)


class Copied:
    def __init__(self, topics, source, sink, checkpoint):
        self.topics, self.source, self.sink, self.checkpoint = topics, source, sink, checkpoint
        self.next = 0
        self.go_on()

    def go_on(self, count=10, sink=None, **options):
        self.topics.numbers(self.source, self.next, count)
        self.next += count
        self.again(sink=sink, **options)

    def again(self, minPartitions=2, sink=None, **options):
        frame = self.topics.stream(self.source, minPartitions=minPartitions).select("key", "value")
        self.topics.drain(frame, self.sink, self.checkpoint, **{**(sink or {}), **options})

    def check(self):
        self.topics.shows(self.sink, range(self.next))

    @property
    def query_id(self):
        return json.loads((Path(self.checkpoint) / "metadata").read_text())["id"]

    @property
    def last_batch(self):
        return max(int(p.name) for p in (Path(self.checkpoint) / "commits").glob("[0-9]*"))

    def group(self, task):
        return group_of(f"spark-ottla-{self.query_id}-{task}")

    def forget_commit(self):
        """As if the driver had died between the ends of the transactions and Spark's own note of it."""
        for name in (f"{self.last_batch}", f".{self.last_batch}.crc"):
            (Path(self.checkpoint) / "commits" / name).unlink(missing_ok=True)


def test_a_micro_batch_that_is_done_again_is_there_once(copied):
    copied.forget_commit()
    copied.again()
    copied.check()
    copied.go_on()
    copied.check()


def test_an_expired_marker_is_an_error_and_can_be_overridden(copied):
    admin = AdminClient({"bootstrap.servers": copied.topics.bootstrap})
    for task in range(2):
        with Admin({"bootstrap.servers": copied.topics.bootstrap}) as ours:
            # Or the marker would come behind the deletion.
            ours.group_offsets(copied.group(task), require_stable=True)
        admin.delete_consumer_groups([copied.group(task)])[copied.group(task)].result(60)
    batch = copied.last_batch + 1
    with pytest.raises(Exception, match=rf"assumeNotWritten={batch}.*\n.*MarkerMissing"):
        copied.go_on()
    copied.again(assumeNotWritten=batch)
    copied.go_on()
    copied.check()


def test_a_micro_batch_longer_than_its_transactions_is_a_named_error(topics, make_topic, checkpoint):
    source, sink = make_topic(partitions=1), make_topic()
    topics.numbers(source, 0, 5)
    slow = topics.stream(source).selectExpr(
        "key", "cast(reflect('java.lang.Thread', 'sleep', 1500L) as string) x", "value"
    )
    slow = slow.selectExpr("key", "coalesce(x, cast(value as string)) value")
    with pytest.raises(Exception, match=r"(?s)transaction\.timeout\.ms.*TransactionTimedOut"):
        topics.drain(slow, sink, checkpoint, kafka__transaction__timeout__ms=1000)
    topics.shows(sink, [])


def test_at_least_once_is_an_option(topics, make_topic, checkpoint):
    source, sink = make_topic(), make_topic()
    topics.numbers(source, 0, 100)
    topics.drain(topics.stream(source).select("value"), sink, checkpoint, guarantee="at-least-once")
    topics.shows(sink, range(100))
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "none"})
    ends = [consumer.get_watermark_offsets(TopicPartition(sink, p))[1] for p in range(3)]
    consumer.close()
    assert sum(ends) == 100  # no markers of transactions among them


def test_the_topic_may_come_from_a_column(topics, make_topic, checkpoint):
    source, even, odd = make_topic(), make_topic(), make_topic()
    topics.numbers(source, 0, 100)
    frame = topics.stream(source).selectExpr(
        "value", f"if(cast(cast(value as string) as int) % 2 = 0, '{even}', '{odd}') topic"
    )
    topics.drain(frame, None, checkpoint)
    assert [len(topics.values(topics.settled(each))) for each in (even, odd)] == [50, 50]


def test_updates_are_written_once_by_the_number_of_the_micro_batch(topics, make_topic, checkpoint):
    from ottla.spark import write_update

    source, sink = make_topic(partitions=1), make_topic(partitions=1)
    options = {"kafka.bootstrap.servers": topics.bootstrap, "topic": sink, "checkpointLocation": checkpoint}
    counts = topics.stream(source).groupBy("key").count().selectExpr("key", "cast(count as string) value")

    def go_on():
        query = write_update(counts, options, trigger={"availableNow": True})
        assert query.awaitTermination(120)

    topics.numbers(source, 0, 14)
    go_on()
    topics.shows(sink, [2] * 7)
    for name in ("0", ".0.crc"):  # as if the driver had died before Spark's own note of it
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
    go_on()
    topics.shows(sink, [2] * 7)
    topics.numbers(source, 14, 1)
    go_on()
    topics.shows(sink, [2] * 7 + [3])


def test_the_whole_of_what_was_read_can_be_copied(topics, make_topic, checkpoint):
    source, sink = make_topic(), make_topic()
    topics.numbers(source, 0, 100)
    topics.drain(topics.stream(source, includeHeaders="true"), sink, checkpoint)
    pick = ("key", "value", "partition", "timestamp")
    read, copied = topics.read(source).select(*pick), topics.read(topics.settled(sink)).select(*pick)
    assert copied.count() == 100 and read.exceptAll(copied).count() == 0
