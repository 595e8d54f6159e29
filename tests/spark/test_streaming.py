"""`readStream`: limits, new partitions and topics, lives of topics, lag that every tool can see."""

from __future__ import annotations

import time
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from ottla.spark import reason
from tests.oracle.leaders import wait_for_leaders

pytest.importorskip("pyspark", reason="needs the extra spark")


def eventually(check, timeout_s=90):
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def in_memory(frame, checkpoint, **trigger):
    """A query into a table in the driver; gives (query, a function for its values)."""
    name = f"t{uuid.uuid4().hex[:8]}"
    writer = frame.selectExpr("cast(value as string) value").writeStream.format("memory").queryName(name)
    writer = writer.option("checkpointLocation", checkpoint)
    query = (writer.trigger(**trigger) if trigger else writer).start()

    def values():
        return sorted(int(row.value) for row in frame.sparkSession.table(name).collect())

    return query, values


def test_available_now_takes_what_is_there_within_the_limit(topics, make_topic, checkpoint):
    source, sink = make_topic(), make_topic()
    topics.numbers(source, 0, 1000)
    query = topics.drain(
        topics.stream(source, maxOffsetsPerTrigger=400).select("key", "value"), sink, checkpoint
    )
    rows = [progress["numInputRows"] for progress in query.recentProgress]
    assert sum(rows) == 1000 and max(rows) <= 403 and len(rows) == 3
    topics.shows(sink, range(1000))
    topics.numbers(source, 1000, 10)
    topics.drain(topics.stream(source).select("key", "value"), sink, checkpoint)
    topics.shows(sink, range(1010))


def test_new_partitions_and_topics_are_read_while_the_query_runs(topics, make_topic, checkpoint):
    stem = f"s{uuid.uuid4().hex[:6]}"
    topics.numbers(make_topic(name=f"{stem}-a", partitions=1), 0, 10)
    query, values = in_memory(topics.stream(None, subscribePattern=f"{stem}-.*"), checkpoint)
    try:
        eventually(lambda: values() == list(range(10)))
        topics.numbers(make_topic(name=f"{stem}-b"), 10, 10)
        admin = AdminClient({"bootstrap.servers": topics.bootstrap})
        admin.create_partitions([NewPartitions(f"{stem}-a", 4)])[f"{stem}-a"].result(60)
        wait_for_leaders(topics.bootstrap, f"{stem}-a", 4)
        rows = [(str(i), 3) for i in range(20, 25)]
        topics.write(topics.spark.createDataFrame(rows, "value string, partition int"), f"{stem}-a")
        eventually(lambda: values() == list(range(25)))
    finally:
        query.stop()


def test_lag_is_seen_by_every_tool_and_is_0_when_idle(topics, make_topic, checkpoint):
    from ottla.spark import lag

    source, group = make_topic(), f"g-{uuid.uuid4().hex[:6]}"
    topics.numbers(source, 0, 100)
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": group})

    def behind():
        partitions = [TopicPartition(source, p) for p in range(3)]
        ends = [consumer.get_watermark_offsets(p)[1] for p in partitions]
        return [end - max(at.offset, 0) for end, at in zip(ends, consumer.committed(partitions), strict=True)]

    query, values = in_memory(topics.stream(source, kafka__group__id=group), checkpoint)
    try:
        eventually(lambda: len(values()) == 100)
        eventually(lambda: behind() == [0, 0, 0])
        topics.numbers(source, 100, 50)
        eventually(lambda: len(values()) == 150 and behind() == [0, 0, 0])
        assert sum(lag(query.lastProgress).values()) == 0
    finally:
        query.stop()
        consumer.close()


def test_a_topic_that_was_re_created_is_never_taken_for_the_old_one(topics, make_topic, checkpoint):
    source, sink = make_topic(partitions=1), make_topic()
    topics.numbers(source, 0, 20)
    topics.drain(topics.stream(source).select("value"), sink, checkpoint)
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    admin.delete_topics([source])[source].result(60)
    eventually(lambda: source not in admin.list_topics(timeout=10).topics)
    make_topic(name=source, partitions=1)
    topics.numbers(source, 100, 30)
    with pytest.raises(Exception, match=r"deleted and re-created.*failOnDataLoss=false") as caught:
        topics.drain(topics.stream(source).select("value"), sink, checkpoint)
    sentence, words = str(caught.value).splitlines()
    assert sentence.startswith(f"topic {source} was deleted and re-created;")
    assert words.startswith("Spark's words: [STREAM_FAILED] Query [id = ") and words.endswith("TopicChanged")
    assert reason(caught.value) == sentence
    topics.drain(topics.stream(source, failOnDataLoss="false").select("value"), sink, checkpoint)
    topics.shows(sink, [*range(20), *range(100, 130)])


def test_records_that_were_deleted_before_they_were_read_are_reported(topics, make_topic, checkpoint):
    source, sink = make_topic(partitions=1), make_topic()
    topics.numbers(source, 0, 10)
    topics.drain(topics.stream(source).select("value"), sink, checkpoint)
    topics.numbers(source, 10, 10)
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    gone = admin.delete_records([TopicPartition(source, 0, 15)])
    next(iter(gone.values())).result(60)
    with pytest.raises(Exception, match=r"the records from 10 on are gone"):
        topics.drain(topics.stream(source).select("value"), sink, checkpoint)
    topics.drain(topics.stream(source, failOnDataLoss="false").select("value"), sink, checkpoint)
    topics.shows(sink, [*range(10), *range(15, 20)])
