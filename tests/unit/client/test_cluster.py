import asyncio

import pytest

from ottla import errors
from ottla.client.core.cluster import Broker, Cluster, Image, Partition, Topic
from ottla.client.errors import BrokersUnreachable, TimedOut
from ottla.client.loop.runtime import LOOP
from ottla.client.settings import Settings
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import NodeEndpoint
from tests.unit.client.scripted import ScriptedBroker

ID, OTHER_ID = b"a" * 16, b"b" * 16


def told(leader: int, epoch: int, *, topic_id: bytes = ID, error: int = 0, port: int = 9) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition], error_code=error)
    brokers = [MetadataResponseBroker(node_id=n, host="127.0.0.1", port=port) for n in (1, 2)]
    return MetadataResponse(brokers=brokers, topics=[topic], controller_id=1)


def test_an_older_leader_epoch_does_not_replace_a_newer_one() -> None:
    image = Image()
    image.update(told(leader=2, epoch=5))
    image.update(told(leader=1, epoch=4))
    assert image.leader_of("t", 0).leader == 2


def test_a_topic_made_anew_starts_over_with_its_epochs() -> None:
    image = Image()
    image.update(told(leader=2, epoch=5))
    image.update(told(leader=1, epoch=0, topic_id=OTHER_ID))
    assert image.leader_of("t", 0).leader == 1
    assert image.names[OTHER_ID] == "t"


def test_a_deleted_topic_is_forgotten() -> None:
    image = Image()
    image.update(told(leader=2, epoch=5))
    image.update(told(leader=2, epoch=5, error=errors.UnknownTopicOrPartition.code))
    with pytest.raises(errors.UnknownTopicOrPartition):
        image.leader_of("t", 0)


def test_a_partition_without_a_leader_asks_for_patience() -> None:
    image = Image()
    image.update(told(leader=-1, epoch=5))
    with pytest.raises(errors.LeaderNotAvailable):
        image.leader_of("t", 0)
    with pytest.raises(errors.UnknownTopicOrPartition):
        image.leader_of("t", 1)


def test_callers_that_ask_for_the_same_topic_share_one_request() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.answers["MetadataRequest"] = lambda _: told(1, 0, port=broker.port)
            cluster = Cluster(Settings(bootstrap_servers=f"127.0.0.1:{broker.port}"), LOOP)
            await asyncio.gather(*(cluster.refresh(["t"]) for _ in range(10)))
            assert [name for name, _ in broker.requests].count("MetadataRequest") == 1
            await cluster.close()

    asyncio.run(scenario())


def test_the_next_bootstrap_address_is_tried_when_one_is_dead() -> None:
    async def scenario() -> None:
        async with ScriptedBroker() as broker:
            broker.answers["MetadataRequest"] = lambda _: told(1, 0, port=broker.port)
            cluster = Cluster(Settings(bootstrap_servers=f"127.0.0.1:1,127.0.0.1:{broker.port}"), LOOP)
            assert (await cluster.topic("t")).id == ID
            await cluster.close()

    asyncio.run(scenario())


def test_nobody_reachable_is_told_with_every_address_and_given_up_in_time() -> None:
    async def scenario() -> None:
        cluster = Cluster(Settings(bootstrap_servers="127.0.0.1:1,127.0.0.1:2", reconnect_backoff_ms=1), LOOP)
        with pytest.raises(BrokersUnreachable, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
            await cluster.refresh([])
        with pytest.raises(TimedOut, match="gave up"):
            await cluster.retrying(lambda: cluster.refresh([]), "x", timeout_ms=50)
        await cluster.close()

    asyncio.run(scenario())


def test_a_hint_of_a_new_leader_is_taken_if_it_is_newer() -> None:
    image = Image(brokers={1: Broker(1, "a", 1)})
    image.topics["t"] = Topic("t", bytes(16), False, {0: Partition(0, 1, 5, (1, 2), (1, 2))})
    endpoint = NodeEndpoint(node_id=2, host="b", port=2)
    assert not image.moved(("t", 0), 2, 6)  # nobody has said where broker 2 is
    image.add_brokers([endpoint])
    assert not image.moved(("t", 0), 2, 5)  # old news
    assert image.moved(("t", 0), 2, 6)
    assert image.leader_of("t", 0).leader == 2
    assert not image.moved(("t", 1), 2, 9) and not image.moved(("u", 0), 2, 9)
