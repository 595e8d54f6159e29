"""`spark.read`: the same columns and options as Spark's own Kafka source, on Apache Kafka and on Ottla."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer

pytest.importorskip("pyspark", reason="needs the extra spark")


def produce(bootstrap, topic, records, **settings):
    """(key, value, headers, timestamp, partition) through another client."""
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for key, value, headers, timestamp, partition in records:
        producer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers)
    assert producer.flush(60) == 0


ROWS = [
    (b"k", b"v", [("h", b"1"), ("h", b"2"), ("n", None)], 1_700_000_000_123, 0),
    (None, b"", [], 1_700_000_000_124, 0),
    (b"", None, [("", b"")], 1_700_000_000_125, 1),
    (b"\x00\xff", b"x" * 1_000_000, [], 1_700_000_000_126, 2),
]


def test_every_column_of_every_record_arrives(topics, make_topic):
    topic = make_topic()
    produce(topics.bootstrap, topic, ROWS, **{"message.max.bytes": 1_040_000})
    frame = topics.read(topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    found = {(row.partition, row.offset): row for row in frame.collect()}
    first = found[0, 0]
    assert (bytes(first.key), bytes(first.value), first.topic, first.timestampType) == (b"k", b"v", topic, 0)
    assert round(first.timestamp.timestamp() * 1000) == 1_700_000_000_123
    headers = [(h.key, None if h.value is None else bytes(h.value)) for h in first.headers]
    assert headers == [("h", b"1"), ("h", b"2"), ("n", None)]
    assert found[0, 1].key is None and bytes(found[0, 1].value) == b""
    assert bytes(found[1, 0].key) == b"" and found[1, 0].value is None
    assert bytes(found[2, 0].value) == b"x" * 1_000_000


def test_what_is_written_compressed_is_read_back(topics, make_topic):
    topic = make_topic()
    frame = topics.spark.range(5000).selectExpr(
        "encode(cast(id as string), 'UTF-8') key", "repeat(cast(id as string), 5) value"
    )
    topics.write(frame, topic, **{"kafka.compression.type": "zstd"})
    back = topics.read(topic).selectExpr("key", "cast(value as string) value")
    assert back.exceptAll(frame).count() == 0 and back.count() == 5000


def test_bounds_by_offset_and_by_time(topics, make_topic):
    topic = make_topic(partitions=2)
    produce(topics.bootstrap, topic, [(None, b"%d" % i, [], 1_700_000_000_000 + i, i % 2) for i in range(20)])
    some = topics.read(
        topic,
        startingOffsets=json.dumps({topic: {"0": 3, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 5, "1": -1}}),
    )
    assert sorted((r.partition, r.offset) for r in some.collect()) == [
        (0, 3), (0, 4), *[(1, i) for i in range(10)],
    ]  # fmt: skip
    late = topics.read(topic, startingTimestamp=1_700_000_000_015, endingTimestamp=1_700_000_000_018)
    assert sorted(int(bytes(row.value)) for row in late.collect()) == [15, 16, 17]


def test_a_start_after_the_last_record_is_an_error_unless_told_otherwise(topics, make_topic):
    topic = make_topic(partitions=1)
    produce(topics.bootstrap, topic, [(None, b"v", [], 1_700_000_000_000, 0)])
    with pytest.raises(Exception, match="no record as young as"):
        topics.read(topic, startingTimestamp=1_800_000_000_000).count()
    chosen = {"startingTimestamp": 1_800_000_000_000, "startingOffsetsByTimestampStrategy": "latest"}
    assert topics.read(topic, **chosen).count() == 0


def test_patterns_and_assigned_partitions(topics, make_topic):
    stem = f"p{time.monotonic_ns()}"
    for name in ("one", "two"):
        topics.numbers(make_topic(name=f"{stem}-{name}"), 0, 30)
    reader = topics.spark.read.format("ottla").option("kafka.bootstrap.servers", topics.bootstrap)
    assert reader.option("subscribePattern", f"{stem}-.*").load().count() == 60
    reader = topics.spark.read.format("ottla").option("kafka.bootstrap.servers", topics.bootstrap)
    some = reader.option("assign", json.dumps({f"{stem}-one": [1]})).load()
    assert {row.partition for row in some.select("partition").distinct().collect()} == {1}


def test_columns_are_picked_and_values_decoded(topics, make_topic):
    topic = make_topic(partitions=1)
    values = [
        b'{"device": "a", "pulse": 60, "at": "2026-01-02T03:04:05Z"}',
        b"no json",
        None,
        b'{"pulse": 1}',
    ]
    produce(topics.bootstrap, topic, [(None, value, [], 0, 0) for value in values])
    chosen = {"valueFormat": "json", "valueSchema": "device STRING, pulse INT, at TIMESTAMP"}
    frame = topics.read(topic, columns="value,offset", **chosen)
    assert frame.columns == ["value", "offset"]
    found = frame.orderBy("offset").select("value.*").collect()
    assert [(row.device, row.pulse) for row in found] == [("a", 60), (None, None), (None, None), (None, 1)]
    assert found[0]["at"].isoformat() == "2026-01-02T03:04:05"
    with pytest.raises(Exception, match=rf"{topic}-0, offset 1"):
        topics.read(topic, valueMode="failfast", **chosen).collect()


def test_a_partition_is_cut_when_more_tasks_are_asked_for(topics, make_topic):
    topic = make_topic(partitions=1)
    topics.numbers(topic, 0, 1000)
    frame = topics.read(topic, minPartitions=3)
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(row.offset for row in frame.select("offset").collect()) == list(range(1000))


def test_only_what_is_committed_is_read_unless_told_otherwise(topics, make_topic):
    topic = make_topic(partitions=1)
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": f"x-{topic}"})
    producer.init_transactions(60)
    for value, commit in ((b"first", True), (b"aborted", False), (b"last", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(60)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    assert topics.values(topics.settled(topic)) == ["first", "last"]
    assert topics.values(topic, kafka__isolation__level="read_uncommitted") == ["aborted", "first", "last"]


def test_mistakes_are_named(topics, make_topic):
    with pytest.raises(Exception, match="did you mean subscribe"):
        topics.spark.read.format("ottla").option("kafka.bootstrap.servers", "x:1").option(
            "subscibe", "a"
        ).load()
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
        topics.read(
            "t", **{"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": 500}
        ).count()
