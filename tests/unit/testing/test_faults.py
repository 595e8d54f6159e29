"""Faults that a test orders, seen from real clients."""

import threading
import time

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from ottla import errors

QUICK = {"retry.backoff.ms": 5, "reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20}


def test_the_next_requests_fail_and_a_client_that_retries_gets_through(broker, produce):
    broker.create_topic("t")
    fault = broker.fail("Produce", "NOT_ENOUGH_REPLICAS", times=2)
    assert produce(broker, "t", b"x", **QUICK) == [None]
    assert (fault.met, fault.is_spent) == (2, True)
    answers = [each.answer for each in broker.requests("Produce")]
    assert answers == ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "ok"]
    assert len(broker.records("t")) == 1


def test_a_fatal_error_reaches_the_application(broker, produce):
    broker.create_topic("t")
    broker.fail("Produce", errors.InvalidRecord)
    assert produce(broker, "t", b"x") == ["INVALID_RECORD"]
    assert broker.records("t") == []


@pytest.mark.parametrize("idempotent, copies", [(False, 2), (True, 1)])
@pytest.mark.parametrize("how", ["error", "closed"])
def test_an_answer_lost_after_the_effect_makes_duplicates_unless_the_producer_is_idempotent(
    broker, produce, idempotent, copies, how
):
    broker.create_topic("t")
    if how == "error":
        broker.fail("Produce", "REQUEST_TIMED_OUT", after_effect=True)
    else:
        broker.disconnect("Produce", after_effect=True)
    assert produce(broker, "t", b"x", enable_idempotence=idempotent, **QUICK) == [None]
    assert len(broker.records("t")) == copies


def test_a_connection_closed_before_the_effect_leaves_nothing(broker, produce):
    broker.create_topic("t")
    broker.disconnect("Produce")
    assert produce(broker, "t", b"x", **QUICK) == [None]
    assert len(broker.records("t")) == 1
    assert broker.requests("Produce")[0].answer == "connection closed"


def test_faults_are_for_one_client_topic_or_partition(broker, produce):
    broker.create_topic("a")
    broker.create_topic("b", partitions=2)
    broker.fail("Produce", "INVALID_RECORD", topic="b", partition=0, client_id="bad", times=None)
    assert produce(broker, "a", b"x", client_id="bad") == [None]
    assert produce(broker, "b", b"x", key=b"k", client_id="good") == [None]
    index = broker.records("b")[0].partition
    broker.heal()
    with broker.fail("Produce", "INVALID_RECORD", topic="b", partition=index, times=None) as fault:
        assert produce(broker, "b", b"x", key=b"k") == ["INVALID_RECORD"]
        assert fault.met == 1
    assert produce(broker, "b", b"x", key=b"k") == [None]


def test_a_fetch_fails_for_its_partitions_and_consumers_go_on(broker, produce, consumer):
    produce(broker, "t", b"x")
    fault = broker.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="t", times=2)
    assert consumer(broker, "t", **QUICK).poll(60).value() == b"x"
    assert fault.is_spent


def test_a_delay_waits_before_or_after_the_effect(broker, produce):
    broker.create_topic("t")
    broker.delay("Produce", 150, after_effect=True)
    began = time.monotonic()
    sender = threading.Thread(target=produce, args=(broker, "t", b"x"))
    sender.start()
    assert len(broker.wait_for_records("t", 1)) == 1  # there before it is acknowledged
    sender.join()
    assert time.monotonic() - began >= 0.15


def test_unknown_names_are_told():
    from ottla.testing import Broker

    broker = Broker()
    with pytest.raises(ValueError, match="did you mean Produce"):
        broker.fail("Prodce", 1)
    with pytest.raises(ValueError, match="did you mean NOT_COORDINATOR"):
        broker.fail("Produce", "NOT_COORDINATER")
    with pytest.raises(ValueError, match="no error 4711"):
        broker.fail("Produce", 4711)


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(broker, produce):
    broker.create_topic("t")
    produce(broker, "t", b"before")
    broker.fill_disk()
    assert produce(broker, "t", b"x", message_timeout_ms=3000, **QUICK) == ["_MSG_TIMED_OUT"]
    assert "KAFKA_STORAGE_ERROR" in broker.requests("Produce")[-1].errors
    broker.heal()
    assert produce(broker, "t", b"after") == [None]
    assert [each.value for each in broker.records("t")] == [b"before", b"after"]


def test_a_slow_disk_makes_acknowledgements_late(broker, produce):
    broker.create_topic("t")
    broker.slow_disk(120)
    began = time.monotonic()
    produce(broker, "t", b"x")
    assert time.monotonic() - began >= 0.12
    broker.heal()


def test_a_leader_that_moves_gets_a_new_epoch_and_clients_follow(broker, produce, consumer):
    produce(broker, "t", b"one")
    reader = consumer(broker, "t", **QUICK)
    assert reader.poll(60).value() == b"one"
    broker.move_leader("t")
    produce(broker, "t", b"two")
    message = reader.poll(60)
    assert (message.value(), message.leader_epoch()) == (b"two", 2)


def test_a_partition_can_be_without_a_leader_for_a_while(broker, produce):
    broker.create_topic("t")
    mover = threading.Thread(target=broker.move_leader, args=("t",), kwargs={"away": 100})
    mover.start()
    assert produce(broker, "t", b"x", **QUICK) == [None]
    mover.join()


def test_a_coordinator_that_moves_knows_its_groups(broker, produce, consumer):
    produce(broker, "t", b"x")
    reader = consumer(broker, "t", **QUICK)
    reader.commit(reader.poll(60), asynchronous=False)
    before = broker.wait_for_group("g")
    broker.move_coordinator(group="g")
    assert broker.group("g") == before
    reader.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    with pytest.raises(ValueError):
        broker.move_coordinator()


def test_a_fenced_producer_cannot_go_on(broker):
    broker.create_topic("t")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shop", "linger.ms": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.flush(60)
    broker.fence("shop")
    with pytest.raises(KafkaException) as failed:
        producer.commit_transaction(60)
    assert failed.value.args[0].fatal()
    assert broker.records("t") == []
    assert len(broker.records("t", committed=False)) == 1
