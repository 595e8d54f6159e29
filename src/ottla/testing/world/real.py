"""Our own client in the world, beside the scripted ones: what it is told and what it is given must be true."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla import aio
from ottla.errors import OttlaError
from ottla.testing.world.ledger import TopicPartition, hold
from ottla.testing.world.runtime import SimulatedLoop, SimulatedRuntime, started
from ottla.testing.world.world import World

if TYPE_CHECKING:
    from collections.abc import Coroutine

SETTINGS = {
    "request.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 3_000,
    "default.api.timeout.ms": 600_000,
    "on_retry": lambda error: None,
}


class RealClient:
    """A task of the loop that the world waits for."""

    waits_for = "our own client"

    def __init__(self, name: str, task: asyncio.Task[Any]) -> None:
        self.name, self._task = name, task

    @property
    def is_done(self) -> bool:
        if self._task.done() and not self._task.cancelled() and self._task.exception() is not None:
            raise self._task.exception()  # type: ignore[misc]
        return self._task.done()


class ClientWorld(World):
    """As `World`, with two producers and two consumers of ours."""

    name = "client"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.loop = SimulatedLoop(self.time)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.loop.close()

    def _populate(self) -> None:
        super()._populate()
        for _ in range(2):
            name = self.new_name("writer-real-")
            self._start(name, produce(self, name, self.random.randint(10, 60)))
        for topic, isolation in (("plain", "read_uncommitted"), ("money", "read_committed")):
            self._start(self.new_name("reader-real-"), consume(self, topic, isolation))

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.clients.append(RealClient(name, started(self.loop, work)))  # type: ignore[arg-type]


async def produce(world: World, name: str, count: int) -> None:
    """Idempotent. What is acknowledged must be where it was said to be, once."""
    settings = SETTINGS | {
        # With more, a restart between a lost answer and the retry is a hole of the protocol: a broker that
        # starts from its snapshot knows the last batch of a producer alone.
        "max.in.flight.requests.per.connection": 1,
        "delivery.timeout.ms": 600_000,
        "max.block.ms": 600_000,
        "linger.ms": world.random.choice([0, 20]),
        "batch.size": world.random.choice([80, 400]),
    }
    async with aio.Producer(settings, runtime=SimulatedRuntime(world, name)) as producer:

        async def send(number: int) -> None:
            value = f"{name}/{number}".encode()
            target = world.some_partition("plain")
            try:
                where = await (await producer.send("plain", value, partition=target[1]))
            except OttlaError as error:
                world.note(f"{name}: {value!r} was given up: {error}")
                return
            world.ledger.on_acknowledged(target, where.offset, [value])

        sending = []
        for number in range(count):
            sending.append(asyncio.ensure_future(send(number)))
            await asyncio.sleep(world.random.choice([0, 0, 0.001, 0.2]))
        await asyncio.gather(*sending)


async def consume(world: World, topic: str, isolation: str) -> None:
    """Everything from the start, in order, until the world is over and nothing is left."""
    settings = SETTINGS | {
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "max.partition.fetch.bytes": 400,
    }
    read_committed = isolation == "read_committed"
    next_offsets = dict.fromkeys(world.partitions(topic), 0)
    async with aio.Consumer(settings, runtime=SimulatedRuntime(world, topic)) as consumer:
        await consumer.assign(next_offsets)
        while not await _is_over(world, consumer, list(next_offsets)):
            for record in await consumer.poll(0.5, max_records=10):
                name = (record.topic, record.partition)
                hold(record.offset >= next_offsets[name], f"{name}: our consumer got {record.offset} again")
                _check_nothing_skipped(world, name, next_offsets[name], record.offset, read_committed)
                next_offsets[name] = record.offset + 1
                world.ledger.on_read(name, record.offset, record.value, read_committed=read_committed)
    for name, offset in next_offsets.items():
        end = world.ledger.truths[name].high_watermark
        _check_nothing_skipped(world, name, offset, end, read_committed)


def _check_nothing_skipped(
    world: World, name: TopicPartition, start: int, end: int, read_committed: bool
) -> None:
    """Only markers and, for read_committed, aborted records may be missing from `start` up to `end`."""
    hidden = ("aborted",) if read_committed else ()
    for offset, entry in enumerate(world.ledger.truths[name].entries[start:end], start):
        hold(entry.marker or entry.fate in hidden, f"{name}: our consumer skipped {offset}")


async def _is_over(world: World, consumer: aio.Consumer, names: list[TopicPartition]) -> bool:
    if not world.finishing:
        return False
    ends = [world.is_at_the_end(name, await consumer.position(name, timeout_ms=60_000)) for name in names]
    return all(ends)
