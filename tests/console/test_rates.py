"""Rates of records and bytes tell what arrives, not what comes back into sight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from ottla import TopicPartition, aio
from ottla.console.sampler import SETTLED_EVERY_S, Sampler, Snapshot
from ottla.console.workspace import SAMPLE_TIMEOUT_MS
from ottla.testing import Broker, Cluster
from tests.console.consoles import PATIENCE_S

RECORDS, VALUE = 20, "x" * 10_000


class Watching:
    """A sampler, and the time that it reads: every sample is a late one, so that it measures folders as well."""

    def __init__(self, admin: aio.Admin) -> None:
        self.now = 1000.0
        self.sampler = Sampler(admin, clock=lambda: self.now)

    async def sample(self) -> Snapshot:
        self.now += SETTLED_EVERY_S
        return await self.sampler.fresh(0)

    async def until(self, is_so: Callable[[Snapshot], bool]) -> Snapshot:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                snapshot = await self.sample()
                if snapshot.trouble is None and is_so(snapshot):
                    return snapshot

    def rates(self, kind: str, name: str) -> list[float]:
        return [value for _, value in self.sampler.history.get(kind, name).last(3600, self.now)]

    def totals(self) -> tuple[float, float]:
        return sum(self.rates("cluster", "records")), sum(self.rates("cluster", "bytes"))


@asynccontextmanager
async def watching(bootstrap: str) -> AsyncIterator[Watching]:
    limits = {"request.timeout.ms": SAMPLE_TIMEOUT_MS, "default.api.timeout.ms": SAMPLE_TIMEOUT_MS}
    async with aio.Admin({"bootstrap.servers": bootstrap, **limits}) as admin:
        running = Watching(admin)
        try:
            yield running
        finally:
            running.sampler.close()


def in_a_loop_of_its_own(work: Callable[[], Awaitable[None]]) -> None:
    """While Playwright runs, this thread has a running loop already."""

    async def main() -> None:
        await work()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, main()).result()


def test_a_broker_that_comes_back_brings_no_records_and_no_bytes():
    places = [TopicPartition("lasting", index) for index in range(3)]

    def fill(cluster: Cluster) -> int:
        """The number of a broker that is not the controller, and alone has a partition."""
        cluster.create_topic("lasting", 3, replication_factor=1)
        for place in places:
            for _ in range(RECORDS):
                cluster.send("lasting", VALUE, partition=place.partition)
        controller = cluster.controller
        return next(number for number in (1, 2, 3) if cluster[number] is not controller)

    def is_whole(snapshot: Snapshot) -> bool:
        return snapshot.ends.keys() >= set(places) and {f.broker for f in snapshot.log_dirs} == {1, 2, 3}

    async def watch() -> None:
        away = await asyncio.to_thread(fill, cluster)
        async with watching(cluster.bootstrap) as running:
            before = await running.until(is_whole)
            total = sum(before.sizes.values())
            assert total > 3 * RECORDS * len(VALUE)
            await asyncio.to_thread(cluster.kill, away)
            await running.until(
                lambda snapshot: (
                    not snapshot.ends.keys() >= set(places)
                    and away not in {folder.broker for folder in snapshot.log_dirs}
                )
            )
            await asyncio.to_thread(cluster.restart, away)
            await running.until(is_whole)
            await running.sample()
            assert set(running.rates("topic", "lasting")) == {0.0}
            assert set(running.rates("cluster", "records")) == {0.0}
            assert max(running.rates("cluster", "bytes")) < len(VALUE) / SETTLED_EVERY_S

    with Cluster() as cluster:
        in_a_loop_of_its_own(watch)


def test_what_arrives_in_a_new_partition_is_counted_and_the_bytes_of_a_new_topic():
    async def watch() -> None:
        async with watching(broker.bootstrap) as running, aio.Admin(broker.client_settings()) as admin:
            await asyncio.to_thread(broker.create_topic, "growing", 1)
            await running.until(lambda snapshot: "growing" in snapshot.sizes)
            await asyncio.to_thread(broker.send, "growing", VALUE)
            await running.until(lambda snapshot: snapshot.sizes["growing"] >= len(VALUE))
            records, bytes_in = running.totals()
            assert records > 0 and bytes_in > 0
            await admin.add_partitions("growing", 2)
            await asyncio.to_thread(broker.send, "growing", VALUE, partition=1)
            await running.until(lambda snapshot: snapshot.sizes["growing"] >= 2 * len(VALUE))
            more_records, more_bytes = running.totals()
            assert more_records > records and more_bytes > bytes_in
            await asyncio.to_thread(broker.create_topic, "later", 1)
            await asyncio.to_thread(broker.send, "later", VALUE)
            await running.until(lambda snapshot: "later" in snapshot.sizes)
            assert running.totals()[1] > more_bytes

    with Broker() as broker:
        in_a_loop_of_its_own(watch)
