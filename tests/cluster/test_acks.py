"""What acks promise: 1 may lose what only the leader had, all does not; nothing uncommitted is readable."""

import pytest
from confluent_kafka import Producer

from tests.cluster.load import QUIET, create, read_all
from tests.cluster.local import LocalCluster


@pytest.fixture
def cluster():
    with LocalCluster(3) as cluster:
        create(cluster.bootstrap, partitions=1)
        produce(cluster, "all", b"1")
        cluster.until(
            lambda: cluster.partition(cluster.any().image.partition("t", 0).leader).log.high_watermark == 1
        )
        yield cluster


def produce(cluster, acks, value, timeout_ms=60_000):
    outcome = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": acks, "message.timeout.ms": timeout_ms, **QUIET}
    )
    producer.produce("t", value, on_delivery=lambda error, message: outcome.append(error))
    producer.flush(timeout_ms / 1000 + 5)
    return outcome[0]


def followers_stand_still(cluster):
    leader = cluster.leader()
    for broker_id, node in cluster.nodes.items():
        if broker_id != leader:
            cluster.call(node.broker.followers.close)
    return leader


def test_acks_1_loses_what_was_not_replicated_when_the_leader_dies(cluster):
    leader = followers_stand_still(cluster)
    assert produce(cluster, "1", b"2") is None, "it is acknowledged"
    cluster.kill(leader)
    cluster.until(lambda: cluster.any().image.partition("t", 0).leader not in (-1, leader))
    assert cluster.partition(cluster.leader()).log.end_offset == 1, "and gone"


def test_acks_all_is_not_acknowledged_before_the_followers_have_it(cluster):
    leader = followers_stand_still(cluster)
    assert produce(cluster, "all", b"2", timeout_ms=1500) is not None
    assert cluster.partition(leader).log.high_watermark == 1


def test_a_record_above_the_high_watermark_is_not_readable(cluster):
    leader = followers_stand_still(cluster)
    assert produce(cluster, "1", b"2") is None
    assert cluster.partition(leader).log.end_offset == 2
    found = read_all(cluster.bootstrap, "t", 1, isolation="read_uncommitted")
    assert [value for _, value in found[0]] == [1]
