"""`ottla.aio`: the same clients with `await`, and an event loop that is never blocked."""

import asyncio
from collections.abc import Iterator

import pytest

from ottla import aio
from ottla.client.errors import IllegalState
from ottla.client.values import TopicPartition
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2) as running:
        yield running


def test_a_tour(broker: Broker) -> None:
    async def tour() -> None:
        async with aio.Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic("tour", 2)
            assert "tour" in await admin.list_topics()
        async with aio.Producer(bootstrap_servers=broker.bootstrap) as producer:
            sent = [await producer.send("tour", str(i), partition=i % 2) for i in range(20)]
            places = [await each for each in sent]
            assert [place.offset for place in places if place.partition == 0] == list(range(10))
            assert (await producer.send_and_wait("tour", "last", partition=0)).offset == 10
        settings = {"group.id": "tour", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        committed: list[object] = []
        async with aio.Consumer(settings, bootstrap_servers=broker.bootstrap) as consumer:

            async def on_revoked(partitions: frozenset[TopicPartition]) -> None:
                committed.append(await consumer.commit())  # from inside poll or close, on the loop

            await consumer.subscribe("tour", on_revoked=on_revoked)
            seen = 0
            async for _ in consumer:
                seen += 1
                if seen == 21:
                    break
        assert committed

    asyncio.run(tour())


def test_two_tasks_are_told_apart(broker: Broker) -> None:
    async def two() -> None:
        async with aio.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            await consumer.assign([("quiet", 0)])
            first = asyncio.ensure_future(consumer.poll(1.0))
            await asyncio.sleep(0.1)
            with pytest.raises(IllegalState, match="another thread or task"):
                await consumer.poll(0)
            assert await first == []

    broker.create_topic("quiet")
    asyncio.run(two())


def test_the_loop_goes_on_while_a_poll_waits(broker: Broker) -> None:
    async def both() -> int:
        async with aio.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
            await consumer.assign([("quiet-too", 0)])
            waiting = asyncio.ensure_future(consumer.poll(1.0))
            turns = 0
            while not waiting.done():
                turns += 1
                await asyncio.sleep(0.01)
            return turns

    broker.create_topic("quiet-too")
    assert asyncio.run(both()) > 5  # some hundred on a quiet machine; one or two if the poll blocks the loop
