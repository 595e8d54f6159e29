"""`df.write`: where rows go, and errors that name the row."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

from pyspark.errors import AnalysisException

from ottla.spark.errors import OptionError

WAY = r"ottla\.spark\.write_update"


def test_rows_go_where_their_columns_say(topics, make_topic):
    one, two = make_topic(partitions=3), make_topic(partitions=2)
    rows = [(b"k", b"v", one, 2, 1_700_000_000_123), (None, None, two, 1, None), (b"", b"", two, None, 5)]
    frame = topics.spark.createDataFrame(
        rows, "key binary, value binary, topic string, partition int, timestamp bigint"
    )
    topics.write(frame)
    (first,) = topics.read(one).collect()
    assert (bytes(first.key), bytes(first.value), first.partition) == (b"k", b"v", 2)
    assert round(first.timestamp.timestamp() * 1000) == 1_700_000_000_123
    found = {None if row.key is None else bytes(row.key): row for row in topics.read(two).collect()}
    assert found[None].partition == 1 and found[None].value is None
    assert bytes(found[b""].value) == b""


def test_headers_are_written_in_order(topics, make_topic):
    topic = make_topic(partitions=1)
    kind = "value string, headers array<struct<key: string, value: binary>>"
    topics.write(topics.spark.createDataFrame([("a", [("h", b"1"), ("h", None)]), ("b", None)], kind), topic)
    found = topics.read(topic, includeHeaders="true").orderBy("value").collect()
    assert [(h.key, h.value and bytes(h.value)) for h in found[0].headers] == [("h", b"1"), ("h", None)]
    assert found[1].headers is None


def test_keys_go_to_the_partitions_of_other_clients(topics, make_topic):
    from confluent_kafka import Producer

    ours, theirs = make_topic(partitions=5), make_topic(partitions=5)
    keys = [f"key-{i}".encode() for i in range(200)]
    frame = topics.spark.createDataFrame([(key, b"") for key in keys], "key binary, value binary")
    topics.write(frame, ours)
    producer = Producer({"bootstrap.servers": topics.bootstrap, "partitioner": "murmur2"})
    for key in keys:
        producer.produce(theirs, b"", key)
    assert producer.flush(60) == 0
    where = [{bytes(r.key): r.partition for r in topics.read(topic).collect()} for topic in (ours, theirs)]
    assert where[0] == where[1]


def test_a_million_distinct_keys_survive(topics, make_topic):
    topic = make_topic(partitions=4)
    frame = topics.spark.range(1_000_000).selectExpr("cast(id as string) key", "cast(id * 3 as string) value")
    topics.write(frame, topic)
    back = topics.read(topic, columns="key,value").selectExpr(
        "cast(cast(key as string) as bigint) k", "cast(cast(value as string) as bigint) v"
    )
    row = back.selectExpr("count(*) n", "count(distinct k) d", "sum(v - 3 * k) s").first()
    assert (row.n, row.d, row.s) == (1_000_000, 1_000_000, 0)


def test_a_batch_can_be_one_transaction(topics, make_topic):
    topic = make_topic()
    frame = topics.spark.range(0, 1000, numPartitions=3)
    good = frame.selectExpr("cast(id as string) value")
    topics.write(good, topic, guarantee="exactly-once")
    assert len(topics.values(topics.settled(topic))) == 1000
    bad = frame.selectExpr("if(id = 999, cast(raise_error('no') as string), cast(id as string)) value")
    with pytest.raises(Exception, match="no"):
        topics.write(bad, topic, guarantee="exactly-once")
    assert len(topics.values(topic)) == 1000


@pytest.mark.parametrize(
    ("columns", "row", "text"),
    [
        ("value string, topic string", ("v", None), "row 0: its topic is null"),
        (
            "value string, topic string, partition int",
            ("v", "{topic}", 9),
            "row 0: partition 9 does not exist",
        ),
        (
            "value string, topic string",
            ("x" * 2_000_000, "{topic}"),
            r"row 0: the record takes .* max\.request\.size",
        ),
        ("value string, topic string", ("v", "no such topic!"), "row 0: topic no such topic!"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(topics, make_topic, columns, row, text):
    topic = make_topic()
    filled = tuple(topic if each == "{topic}" else each for each in row)
    with pytest.raises(Exception, match=text):
        topics.write(topics.spark.createDataFrame([filled], columns), **{"kafka.max.block.ms": 3000})


def test_a_record_too_large_for_its_topic_is_named(topics, make_topic):
    topic = make_topic(partitions=1, **{"max.message.bytes": "2000"})
    frame = topics.spark.createDataFrame([("a",), ("x" * 5000,), ("b",)], "value string").coalesce(1)
    with pytest.raises(Exception, match=rf"row 1: {topic}-0"):
        topics.write(frame, topic)


def test_wrong_schemas_are_refused(topics, make_topic):
    with pytest.raises(Exception, match="column value is bigint"):
        topics.write(topics.spark.range(1).selectExpr("id value"), make_topic())


def test_start_refuses_update_mode_and_names_the_way(topics, make_topic, checkpoint):
    counts = (
        topics.stream(make_topic()).groupBy("key").count().selectExpr("key", "cast(count as string) value")
    )
    writer = topics.sink(counts, make_topic(), checkpoint)
    for start in (
        lambda: writer.start(outputMode="update"),
        lambda: writer.start(None, "OTTLA", "Update"),
        lambda: writer.outputMode("update").start(),
        lambda: counts.writeStream.outputMode(outputMode="update").format(source="ottla").start(),
    ):
        with pytest.raises(OptionError, match=WAY):
            start()
    assert not list(Path(checkpoint).iterdir())  # the query has not begun


def test_update_mode_of_other_sinks_is_as_it_was(topics, make_topic, checkpoint):
    from ottla.spark import register

    register(topics.spark)  # a second time, after the session
    topic = make_topic(partitions=1)
    topics.numbers(topic, 0, 3)
    counts = topics.stream(topic).groupBy("key").count().selectExpr("key", "cast(count as string) value")
    with pytest.raises(AnalysisException, match="not supported in Data Source parquet") as refused:
        counts.writeStream.format("parquet").outputMode("update").start(f"{checkpoint}/files")
    assert "ottla" not in str(refused.value)
    taken = []
    writer = counts.writeStream.format("ottla").outputMode("update").trigger(availableNow=True)
    query = writer.foreachBatch(lambda rows, _: taken.extend(rows.collect())).start()  # instead of the format
    assert query.awaitTermination(120)
    assert len(taken) == 3
