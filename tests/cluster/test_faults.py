"""Processes over ZooKeeper under load: kills, pauses longer than a session, cut networks, ZooKeeper away."""

import asyncio
import random
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.ensemble import why_not
from ottla.server.zookeeper.paths import unpack_entry
from ottla.server.zookeeper.session import Options, Session
from tests.cluster.faults import Faults
from tests.cluster.load import QUIET, Load, create
from tests.cluster.processes import ProcessCluster

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.mark.timeout(600)
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


@pytest.mark.timeout(600)
def test_produce_and_consume_go_on_without_zookeeper():
    with ProcessCluster(3, session_ms=2000) as cluster:
        create(cluster.bootstrap)
        with Load(cluster.bootstrap) as load:
            load.wait_for(100)
            cluster.zookeepers.kill()
            began = time.monotonic()
            while time.monotonic() - began < 6:  # longer than any session
                acknowledged = load.count
                load.wait_for(100)
            read_as_many(cluster, acknowledged)
            cluster.zookeepers.restart()
            load.wait_for(100)
        load.check()
        create(cluster.bootstrap, "afterwards")


@pytest.mark.timeout(600)
def test_a_dead_process_is_noticed_long_before_its_session_ends():
    with ProcessCluster(3, session_ms=40_000, proxied=False) as cluster:
        create(cluster.bootstrap)
        with Load(cluster.bootstrap) as load:
            load.wait_for(100)
            for victim in (cluster.controller(), cluster.leader()):
                cluster.kill(victim)
                load.wait_for(100, timeout=30)
                cluster.start(victim)
                cluster.until_in_sync()
        load.check()


@pytest.mark.timeout(600)
def test_a_controller_that_slept_for_too_long_writes_nothing_when_it_wakes():
    """What it was asked meanwhile waits in its socket: it would decide on it at once."""
    with ProcessCluster(3, session_ms=2000) as cluster:
        create(cluster.bootstrap)
        for number in range(3):
            zombie = cluster.controller()
            before = controller_epochs(cluster)[-1]
            asked = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster.ports[zombie]}", **QUIET})
            asked.list_topics(timeout=60)
            cluster.pause(zombie)
            futures = asked.create_topics([NewTopic(f"z-{number}", 1, 3)], operation_timeout=60)
            wait_until(lambda: controller_epochs(cluster)[-1] > before)  # noqa: B023
            cluster.resume(zombie)
            futures[f"z-{number}"].exception(60)  # made by the new controller, or refused
            cluster.until_in_sync()
        epochs = controller_epochs(cluster)
        assert epochs == sorted(epochs) and len(set(epochs)) > 3


def controller_epochs(cluster):
    """Of all entries of the metadata log, in their order."""

    async def read():
        connected = asyncio.Event()
        host, port = cluster.zookeepers.connect.split(":")
        session = Session(
            Options(((host, int(port)),)),
            on_connected=connected.set,
            on_event=lambda path: None,
            on_expired=lambda: None,
        )
        await connected.wait()
        names = sorted(await session.children("/ottla/log"))
        entries = await session.get_many([f"/ottla/log/{name}" for name in names])
        session.close()
        return [unpack_entry(each.data)[0] for each in entries]

    return asyncio.run(asyncio.wait_for(read(), 60))


def wait_until(is_so, timeout=90.0):
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


def read_as_many(cluster, count, timeout=60.0):
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "nobody", **QUIET})
    consumer.assign([TopicPartition("t", index, 0) for index in range(3)])
    deadline, found = time.monotonic() + timeout, 0
    while found < count:
        assert time.monotonic() < deadline, f"only {found} of {count} were read"
        found += sum(each.error() is None for each in consumer.consume(1000, 0.2))
    consumer.close()
