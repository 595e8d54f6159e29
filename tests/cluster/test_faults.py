"""Processes over ZooKeeper under load: kills, pauses longer than a session, cut networks, ZooKeeper away."""

import random
import time

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.server.zookeeper.ensemble import why_not
from tests.cluster.faults import Faults
from tests.cluster.load import QUIET, Load, create
from tests.cluster.processes import ProcessCluster

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.mark.timeout(240)
def test_ten_faults_at_random_lose_and_double_nothing():
    with ProcessCluster(3) as cluster:
        create(cluster.bootstrap)
        faults = Faults(cluster, random.Random(11))
        with Load(cluster.bootstrap, pause_s=0.005) as load:
            load.wait_for(100)
            for _ in range(10):
                faults.one()
                load.wait_for(50, timeout=60)
            faults.heal()
            cluster.until_in_sync()
        load.check()
        cluster.replicas_agree()


@pytest.mark.timeout(120)
def test_produce_and_consume_go_on_without_zookeeper():
    with ProcessCluster(3, session_ms=2000) as cluster:
        create(cluster.bootstrap)
        with Load(cluster.bootstrap) as load:
            load.wait_for(100)
            cluster.zookeepers.kill()
            began = time.monotonic()
            while time.monotonic() - began < 6:  # longer than any session
                acknowledged = load.count
                load.wait_for(100, timeout=5)
            read_as_many(cluster, acknowledged)
            cluster.zookeepers.restart()
            load.wait_for(100)
        load.check()
        create(cluster.bootstrap, "afterwards")


@pytest.mark.timeout(120)
def test_a_dead_process_is_noticed_long_before_its_session_ends():
    with ProcessCluster(3, session_ms=40_000, proxied=False) as cluster:
        create(cluster.bootstrap)
        with Load(cluster.bootstrap) as load:
            load.wait_for(100)
            for victim in (cluster.controller(), cluster.leader()):
                cluster.kill(victim)
                load.wait_for(100, timeout=15)
                cluster.start(victim)
                cluster.until_in_sync()
        load.check()


def read_as_many(cluster, count, timeout=20.0):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody", **QUIET})
    consumer.assign([TopicPartition("t", index, 0) for index in range(3)])
    deadline, found = time.monotonic() + timeout, 0
    while found < count:
        assert time.monotonic() < deadline, f"only {found} of {count} were read"
        found += sum(each.error() is None for each in consumer.consume(1000, 0.2))
    consumer.close()
