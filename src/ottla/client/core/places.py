"""Where a consumer is in each of its partitions: the fetcher's places and the reader's positions as one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.client.core import offsets as offsets_api
from ottla.client.core.cluster import Cluster
from ottla.client.core.fetcher import Fetcher
from ottla.client.core.reader import Reader
from ottla.client.core.runtime import Shell, Task
from ottla.client.errors import IllegalState, TimedOut
from ottla.client.settings import ConsumerSettings
from ottla.client.values import OffsetAndMetadata, TopicPartition

Partitions = Iterable[tuple[str, int]]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Places:
    def __init__(self, shell: Shell, cluster: Cluster, reader: Reader) -> None:
        assert isinstance(cluster.settings, ConsumerSettings)
        self._settings = cluster.settings
        self._home, self._cluster, self._reader = shell.home, cluster, reader
        self._runtime = cluster.runtime
        self._task: Task[None] | None = None
        self.fetcher = Fetcher(cluster)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self.fetcher.places)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(p for p, place in self.fetcher.places.copy().items() if place.paused)

    async def assign(self, partitions: frozenset[TopicPartition], starts: Offsets | None = None) -> None:
        """Exactly these; those that stay go on where they are, the others begin at `starts`."""
        await self._home(self._assign(partitions, starts or {}))

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where the group has committed, once no open transaction can change it; at most `default.api.timeout.ms`.

        Without a commit it is up to `auto.offset.reset`.
        """
        wanted = list(partitions)
        if not wanted or self._settings.group_id is None:
            return {}
        # Under any isolation level: an open transaction that is about to move a position has processed the records in
        # front of the new one already, and to begin at the old one would process them twice.
        asking = offsets_api.committed(self._cluster, self._settings.group_id, wanted, require_stable=True)
        return await self._home(asking)

    async def seek(self, partition: TopicPartition, at: OffsetAndMetadata) -> None:
        self._reader.place(partition, at)
        await self.on_loop(self.fetcher.seek, partition, at.offset, at.leader_epoch)

    async def seek_to_time(self, partition: TopicPartition, timestamp: int) -> None:
        self._reader.place(partition, None)
        await self.on_loop(self.fetcher.seek_to_time, partition, timestamp)

    async def pause(self, partitions: list[TopicPartition], paused: bool) -> None:
        if paused:
            for partition, at in self._reader.not_handed_out(partitions, opened_only=False).items():
                await self.seek(partition, at)  # what is in store is fetched again after the pause
        await self.on_loop(self.fetcher.pause, partitions, paused)

    def mine(self, partition: tuple[str, int]) -> TopicPartition:
        chosen = TopicPartition(*partition)
        if chosen not in self.fetcher.places:
            raise IllegalState(f"{chosen} is not assigned to this consumer; it has {_named(self.assigned)}")
        return chosen

    async def refill(self, timeout_s: float) -> bool:
        """Takes what has arrived; whether anything has."""
        chunks = await self._home(self.fetcher.take(timeout_s))
        self._reader.add(chunks)
        return bool(chunks)

    async def position(self, partition: TopicPartition, timeout: float) -> int:
        """Looked up if need be."""
        deadline = self._runtime.now() + timeout
        while partition not in self._reader.positions:
            place = self.fetcher.places[partition]
            await self.refill(0)
            first = self._reader.first_waiting(partition)
            if first is not None:
                return first
            if place.offset is not None and not place.ahead:
                return place.offset
            if self._runtime.now() > deadline:
                raise TimedOut(f"{partition} got no position within {timeout} s; are the brokers there?")
            await self._home(self._runtime.sleep(0.005))
        return self._reader.positions[partition].offset

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit covers: what was read and, as in Kafka, where reading would begin in the others."""
        known = self._reader.positions.copy()
        for partition, place in self.fetcher.places.copy().items():
            if partition not in known and place.offset is not None and not place.ahead:
                first = self._reader.first_waiting(partition)
                known[partition] = OffsetAndMetadata(place.offset if first is None else first)
        return known

    async def lag(self, partition: TopicPartition, timeout: float) -> int | None:
        end = self.fetcher.places[partition].high_watermark
        return None if end < 0 else max(0, end - await self.position(partition, timeout))

    async def stop(self) -> None:
        """Ends the fetcher."""
        if self._task is not None:
            self._task.cancel()
            await self._runtime.gather([self._task])
        await self.fetcher.stop()

    async def on_loop(self, call: Callable[..., object], *arguments: Any) -> None:
        """Waits until `call` has run where the fetcher does."""

        async def run() -> None:
            call(*arguments)

        await self._home(run())

    async def _assign(self, partitions: frozenset[TopicPartition], starts: Offsets) -> None:
        """In one go: no fetch may start from somewhere else in between."""
        if self._task is None:
            self._task = self._runtime.spawn(self.fetcher.run())
        for gone in self.assigned - partitions:
            self._reader.place(gone, None)
        self.fetcher.assign(partitions)
        for partition, at in starts.items():
            self._reader.place(partition, at)
            self.fetcher.seek(partition, at.offset, at.leader_epoch)


def _named(partitions: frozenset[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "nothing yet (poll until the group has given it some)"
