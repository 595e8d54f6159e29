"""Several brokers in a test: they replicate, fail over, and do what a test does to them."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from ottla import errors
from ottla.testing import Broker, Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as three:
        yield three


def values(cluster: Cluster, topic: str) -> list[bytes]:
    return sorted(record.value for record in cluster.records(topic))


def descriptors() -> set[str]:
    gc.collect()
    return {each.name for each in Path("/proc/self/fd").iterdir() if each.exists()}


def test_a_stopped_cluster_leaves_no_thread_and_no_handle():
    with Cluster(brokers=2) as warm:
        warm.create_topic("t")
    before, threads = descriptors(), threading.enumerate()
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t")
        cluster.pause(2)
        cluster.kill(3)
    cluster.stop()  # once more does no harm
    assert threading.enumerate() == threads
    assert descriptors() == before


def test_a_topic_has_three_replicas_in_sync_and_leaders_are_spread(cluster):
    cluster.create_topic("t", partitions=3)
    assert all(sorted(cluster.isr("t", index)) == [1, 2, 3] for index in range(3))
    assert {cluster.leader("t", index).broker_id for index in range(3)} == {1, 2, 3}
    cluster.create_topic("alone", replication_factor=1)
    assert len(cluster.isr("alone")) == 1


def test_a_client_goes_on_when_the_leader_is_killed_and_nothing_is_lost(cluster):
    cluster.create_topic("t", min_insync_replicas=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    producer.produce("t", b"before")
    assert producer.flush(60) == 0
    old = cluster.leader("t").broker_id
    cluster.kill(old)
    producer.produce("t", b"after")
    assert producer.flush(60) == 0
    assert cluster.leader("t").broker_id != old
    cluster.restart(old)
    cluster.wait_for_isr("t")
    assert values(cluster, "t") == [b"after", b"before"]


def test_a_group_goes_on_when_its_coordinator_is_killed(cluster):
    cluster.create_topic("t")
    cluster.send("t", "one")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["t"])
        first = consumer.poll(60)
        assert first is not None and first.value() == b"one"
        consumer.commit(first, asynchronous=False)
        assert cluster.group("g").offsets == {("t", 0): 1}
        coordinator = cluster.leader("__consumer_offsets").broker_id
        cluster.kill(coordinator)
        cluster.send("t", "two")
        assert next(each for each in iter(lambda: consumer.poll(60), None)).value() == b"two"
        assert cluster.group("g").offsets == {("t", 0): 1}
        assert cluster.group("g").lag == 1
    finally:
        consumer.close()


def test_a_leader_moves_to_the_broker_that_the_test_names(cluster):
    cluster.create_topic("t")
    heir = cluster.followers("t")[0].broker_id
    assert cluster.move_leader("t", to=heir).broker_id == heir
    cluster.send("t", "x")
    assert values(cluster, "t") == [b"x"]
    with pytest.raises(ValueError, match="cannot take over"):
        cluster.move_leader("t", to=heir)


def test_with_too_few_in_sync_acks_all_is_refused_until_it_is_healed(cluster):
    cluster.create_topic("t", min_insync_replicas=2)
    assert len(cluster.shrink_isr("t", to=1)) == 1
    with pytest.raises(errors.NotEnoughReplicas):
        cluster.send("t", "refused")
    cluster.heal()
    cluster.wait_for_isr("t")
    cluster.send("t", "taken")
    assert values(cluster, "t") == [b"taken"]


def test_a_paused_leader_answers_nobody_and_another_leads_when_its_session_is_over(cluster):
    cluster.create_topic("t")
    old = cluster.leader("t").broker_id
    cluster.pause(old)
    with pytest.raises(RuntimeError, match=f"broker {old} is paused"):
        cluster[old].records("t")
    cluster.advance(seconds=7)
    assert cluster.leader("t").broker_id != old
    cluster.send("t", "x")
    cluster.resume(old)
    cluster.wait_for_isr("t")
    assert cluster[old].is_running


def test_an_isolated_leader_takes_records_that_are_not_acknowledged_and_are_gone_afterwards(cluster):
    cluster.create_topic("t")
    old = cluster.leader("t")
    cluster.isolate(old.broker_id)
    producer = Producer(
        {
            "bootstrap.servers": old.bootstrap,
            "acks": 1,
            "linger.ms": 0,
            "topic.metadata.refresh.interval.ms": -1,
        }
    )
    delivered = []
    producer.produce("t", b"lost", on_delivery=lambda error, message: delivered.append(error))
    assert producer.flush(60) == 0
    assert delivered == [None]  # acks=1: the leader alone has it
    cluster.advance(seconds=7)
    cluster.wait_until(lambda: old.broker_id not in cluster.isr("t"))
    cluster.send("t", "kept")
    cluster.heal()
    cluster.wait_for_isr("t")
    assert values(cluster, "t") == [b"kept"]


def test_a_cut_link_takes_a_follower_out_of_the_isr_of_that_leader_alone(cluster):
    cluster.create_topic("t", partitions=3)
    leader = cluster.leader("t", 0).broker_id
    # Not the controller: a leader that cannot reach it cannot change its ISR.
    other = next(each.broker_id for each in cluster.followers("t", 0) if each is not cluster.controller)
    cluster.send("t", "all have it", partition=0)
    cluster.cut(leader, other)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": 1, "linger.ms": 0})
    producer.produce("t", b"x", partition=0)  # a follower that has everything is in sync, however silent
    assert producer.flush(60) == 0
    cluster.advance(seconds=31)  # replica.lag.time.max.ms
    cluster.wait_until(lambda: other not in cluster.isr("t", 0), what="the follower to leave the ISR")
    third = next(index for index in range(3) if cluster.leader("t", index).broker_id not in (leader, other))
    cluster.wait_for_isr("t", third)
    cluster.restore(leader, other)
    cluster.wait_for_isr("t", 0)


def test_faults_of_one_broker_are_its_own(cluster):
    cluster.create_topic("t")
    fault = cluster.leader("t").fail("Produce", "NOT_LEADER_OR_FOLLOWER")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    producer.produce("t", b"x")
    assert producer.flush(60) == 0
    assert fault.met == 1
    assert values(cluster, "t") == [b"x"]


def test_a_power_cut_of_one_broker_loses_nothing_that_all_have(cluster):
    cluster.create_topic("t", min_insync_replicas=2)
    cluster.send("t", "kept")
    leader = cluster.leader("t").broker_id
    cluster.kill(leader, lose_unsynced=True)
    assert cluster.leader("t").broker_id != leader
    cluster.restart(leader)
    cluster.wait_for_isr("t")
    cluster.move_leader("t", to=leader)
    assert values(cluster, "t") == [b"kept"]


@pytest.mark.ottla(brokers=2, num_partitions=2)
def test_the_fixture_takes_its_number_of_brokers_and_settings_from_the_marker(ottla_cluster):
    assert len(ottla_cluster) == 2
    ottla_cluster.send("t", "x")
    assert ottla_cluster.topics() == {"t": 2}


def test_a_record_is_sent_without_a_client_and_its_topic_is_created():
    with Broker(num_partitions=4) as broker:
        assert broker.records("t") == []
        sent = broker.send("t", "apple", key="7", headers={"from": "here"}, timestamp_ms=1_700_000_000_000)
        assert broker.records("t") == [sent]
        assert (sent.value, sent.key, sent.headers) == (b"apple", b"7", (("from", b"here"),))
        with pytest.raises(errors.UnknownTopicOrPartition, match="no partition 9"):
            broker.records("t", 9)


def test_a_topic_is_not_created_where_the_settings_forbid_it():
    with Broker(auto_create_topics_enable=False) as broker, pytest.raises(errors.UnknownTopicOrPartition):
        broker.send("t", "apple")
