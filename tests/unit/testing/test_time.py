"""Time that a test moves: what is due by then happens before `advance` returns."""

from datetime import timedelta

import pytest
from confluent_kafka import Producer

DAY_MS = 86_400_000


def test_old_records_go(broker, produce):
    broker.create_topic("short", retention_ms=DAY_MS)
    broker.create_topic("kept", retention_ms=-1)
    produce(broker, "short", b"x")
    produce(broker, "kept", b"x")
    broker.advance(timedelta(hours=23))
    assert len(broker.records("short")) == 1
    broker.advance(hours=2)
    assert (broker.records("short"), len(broker.records("kept"))) == ([], 1)


def test_compaction_leaves_the_last_of_each_key(broker, produce):
    broker.create_topic("table", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=DAY_MS)
    for value in (b"1", b"2", b"3"):
        produce(broker, "table", value, key=b"k")
    broker.advance(days=2)
    assert [each.value for each in broker.records("table")] == [b"3"]


def test_a_silent_member_is_out(broker, produce, consumer):
    produce(broker, "t", b"x")
    reader = consumer(broker, "t", session_timeout_ms=45_000)
    assert reader.poll(60) is not None
    (member,) = broker.wait_for_group("g").members
    broker.advance(46_000)
    assert member not in broker.group("g").members


def test_a_transaction_over_its_time_is_aborted(broker):
    broker.create_topic("t")
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "slow", "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.flush(60)
    assert len(broker.records("t", committed=False)) == 1
    broker.advance(minutes=2)
    broker.wait_until(lambda: broker.transactions() == {"slow": "CompleteAbort"}, what="the abort")
    assert broker.records("t") == []


def test_offsets_of_a_group_without_members_expire(broker, produce, consumer):
    produce(broker, "t", b"x")
    reader = consumer(broker, "t")
    reader.commit(reader.poll(60), asynchronous=False)
    assert broker.group("g").offsets == {("t", 0): 1}
    reader.close()
    broker.advance(days=8)
    assert "g" not in broker.groups()


def test_time_goes_on_over_a_restart_and_never_back(broker, produce):
    broker.create_topic("t", message_timestamp_type="LogAppendTime")
    produce(broker, "t", b"1")
    broker.advance(days=1)
    broker.restart()
    produce(broker, "t", b"2")
    first, second = (each.timestamp_ms for each in broker.records("t"))
    assert second - first >= DAY_MS
    with pytest.raises(ValueError, match="does not go back"):
        broker.advance(-1)
