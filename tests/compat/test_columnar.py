"""The columnar client on Apache Kafka and on Ottla: what goes in as Arrow comes out as Arrow."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")

from ottla.client.columnar import ColumnarProducer, ColumnarReader, DataLost, Range, TopicChanged  # noqa: E402
from ottla.client.columnar.partitioning import BadRow  # noqa: E402
from ottla.wire import columns  # noqa: E402
from tests.oracle.leaders import wait_for_leaders  # noqa: E402

FIELD = st.none() | st.binary(max_size=50)
HEADERS = st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=3)
ROWS = st.lists(
    st.tuples(FIELD, FIELD, st.integers(0, 1_700_000_000_000), st.none() | HEADERS), min_size=1, max_size=30
)


@pytest.fixture
def topic(target):
    return make(target, f"columnar-{uuid.uuid4().hex[:8]}")


def make(target, name, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    config = {"retention.ms": "-1", **config}  # some rows are of long ago
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(60)
    wait_for_leaders(target.bootstrap, name, partitions)
    return name


def read(target, *ranges, **options):
    with ColumnarReader({"bootstrap.servers": target.bootstrap}) as reader:
        return [row for batch in reader.read(ranges, **options) for row in batch.to_pylist()]


def batch_of(rows):
    headers = [None if h is None else [{"key": k, "value": v} for k, v in h] for *_, h in rows]
    return pa.record_batch(
        {
            "key": pa.array([row[0] for row in rows], pa.binary()),
            "value": pa.array([row[1] for row in rows], pa.binary()),
            "timestamp": pa.array([row[2] for row in rows], pa.int64()),
            "headers": pa.array(headers, columns.HEADERS),
            "partition": pa.array([0] * len(rows), pa.int32()),
        }
    )


@given(rows=ROWS, codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_types_and_values_round_trip(target, rows, codec):
    topic = make(target, f"columnar-{uuid.uuid4().hex[:8]}")
    with ColumnarProducer({"bootstrap.servers": target.bootstrap, "compression.type": codec}) as producer:
        producer.write(batch_of(rows), topic)
        producer.flush()
    found = read(target, Range(topic, 0, 0, len(rows)), headers=True)
    told = [(r["key"], r["value"], round(r["timestamp"].timestamp() * 1000)) for r in found]
    assert told == [(key, value, timestamp) for key, value, timestamp, _ in rows]
    assert [[(h["key"], h["value"]) for h in r["headers"]] for r in found] == [h or [] for *_, h in rows]
    assert [r["offset"] for r in found] == list(range(len(rows)))


def test_only_the_range_is_read_and_gaps_are_no_loss(target, topic):
    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(topic, b"%d-%d" % (number, part))
        producer.flush(60)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(60)
    # Each transaction takes four offsets: three records and the marker.
    found = read(target, Range(topic, 0, 1, 18))
    assert [row["value"] for row in found] == [b"0-1", b"0-2", b"2-0", b"2-1", b"2-2", b"4-0", b"4-1"]


def test_records_that_are_gone_are_reported_or_passed_over(target, topic):
    from confluent_kafka import TopicPartition

    with ColumnarProducer({"bootstrap.servers": target.bootstrap}) as producer:
        producer.write(pa.record_batch({"value": pa.array([b"%d" % i for i in range(10)])}), topic)
        producer.flush()
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    next(iter(admin.delete_records([TopicPartition(topic, 0, 6)]).values())).result(60)
    with pytest.raises(DataLost, match=f"{topic}-0 .*from 2 on are gone, the log begins at 6"):
        read(target, Range(topic, 0, 2, 8))
    assert [r["offset"] for r in read(target, Range(topic, 0, 2, 8), tolerate_loss=True)] == [6, 7]


def test_another_life_of_a_topic_is_never_read(target, topic):
    with pytest.raises(TopicChanged, match="re-created"):
        read(target, Range(topic, 0, 0, 1, b"\1" * 16))
    with pytest.raises(TopicChanged, match="is gone"):
        read(target, Range(f"{topic}-none", 0, 0, 1))


def test_a_record_too_large_for_its_topic_is_named_and_the_others_arrive(target):
    topic = make(target, f"small-{uuid.uuid4().hex[:8]}", **{"max.message.bytes": "3000"})
    values = [b"a" * 100] * 50 + [b"b" * 4000] + [b"c"]
    with ColumnarProducer({"bootstrap.servers": target.bootstrap}) as producer:
        producer.write(pa.record_batch({"value": pa.array(values[:50])}), topic)
        producer.flush()  # split until it fits
        producer.write(pa.record_batch({"value": pa.array(values[49:])}), topic)
        with pytest.raises(BadRow, match=f"row 1: {topic}-0"):
            producer.flush()
    assert [row["value"] for row in read(target, Range(topic, 0, 0, 50))] == values[:50]
