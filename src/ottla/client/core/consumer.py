"""A consumer: what to read, reading, positions and commits. Its shell says where callers and tasks run."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from ottla.client.core import offsets as offsets_api
from ottla.client.core.chunks import Chunk
from ottla.client.core.cluster import Cluster
from ottla.client.core.committer import Callback, Committer, Exact
from ottla.client.core.membership import Listeners, Membership
from ottla.client.core.metrics import ConsumerCounts
from ottla.client.core.names import checked_topics
from ottla.client.core.places import Partitions, Places
from ottla.client.core.reader import Reader, Unreadable
from ottla.client.core.runtime import Runtime, Shell
from ottla.client.errors import IllegalState, WakeUp
from ottla.client.serializers import deserializer_for
from ottla.client.settings import ConsumerSettings
from ottla.client.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

STEP_S = 0.5  # how long one wait lasts at most: group changes and Ctrl-C get a look


class _HasRows(Protocol):
    """An Arrow batch."""

    @property
    def num_rows(self) -> int: ...


Rows = TypeVar("Rows", bound=_HasRows)
Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


class ConsumerCore:
    """One caller at a time. `clock` is what auto-commit goes by, in seconds."""

    def __init__(
        self, settings: ConsumerSettings, runtime: Runtime, shell: Shell, clock: Callable[[], float] | None
    ) -> None:
        self._settings, self._runtime, self._shell = settings, runtime, shell
        self._woken = False
        self._counts = ConsumerCounts()
        self._reader = Reader(
            deserializer_for(settings.key_deserializer), deserializer_for(settings.value_deserializer)
        )
        self._cluster = Cluster(settings, runtime)
        self._places = Places(shell, self._cluster, self._reader)
        self._places.fetcher.counts = self._counts
        self._committer = Committer(
            shell,
            self._cluster,
            self._places.positions,
            self._committing_as,
            self._counts,
            clock or runtime.now,
        )
        self._membership = Membership(shell, self._cluster, self._places, self._committer, self._counts)

    # -- what to read ------------------------------------------------------------------------------

    async def subscribe(
        self,
        topics: Iterable[str] | str | None,
        pattern: str | re.Pattern[str] | None,
        listeners: Listeners,
    ) -> None:
        if self._settings.group_id is None:
            raise IllegalState("subscribe needs the setting group.id; use assign to read without a group")
        if (topics is None) == (pattern is None):
            raise IllegalState("subscribe to topics or to a pattern, one of the two")
        names = checked_topics(topics)
        if self._places.assigned and not self._membership.is_joined:
            raise IllegalState("subscribe and assign exclude each other; call unsubscribe first")
        await self._membership.subscribe(names, pattern, listeners)

    def subscription(self) -> frozenset[str]:
        return self._membership.topics if self._membership.is_joined else frozenset()

    async def unsubscribe(self) -> None:
        await self._membership.leave()
        await self._places.assign(frozenset())

    async def assign(self, partitions: Partitions) -> None:
        if self._membership.is_joined:
            raise IllegalState("assign and subscribe exclude each other; call unsubscribe first")
        wanted = frozenset(TopicPartition(*partition) for partition in partitions)
        await self._places.assign(wanted, await self._places.committed(wanted - self._places.assigned))

    def assignment(self) -> frozenset[TopicPartition]:
        return self._places.assigned

    async def seek(self, partition: tuple[str, int], at: OffsetAndMetadata) -> None:
        await self._places.seek(self._places.mine(partition), at)

    async def seek_to_time(self, timestamps: Mapping[TopicPartition, int] | int) -> None:
        wanted = dict.fromkeys(self.assignment(), timestamps) if isinstance(timestamps, int) else timestamps
        for partition, timestamp in wanted.items():
            await self._places.seek_to_time(self._places.mine(partition), timestamp)

    async def pause(self, partitions: Partitions | None, paused: bool) -> None:
        await self._places.pause(
            [self._places.mine(partition) for partition in self.chosen(partitions)], paused
        )

    def paused(self) -> frozenset[TopicPartition]:
        return self._places.paused

    # -- reading -----------------------------------------------------------------------------------

    async def poll(self, limit_s: float, max_records: int | None) -> list[ConsumerRecord]:
        limit = max_records or self._settings.max_poll_records
        deadline = self._runtime.now() + limit_s
        while True:
            await self._see_to_duties(deadline)
            taken = await self._take(limit)
            if taken:
                return taken
            remaining = deadline - self._runtime.now()
            if not await self._places.refill(max(0.0, min(remaining, STEP_S))) and remaining <= 0:
                return []

    async def poll_chunks(self, limit_s: float, decode: Callable[[list[Chunk]], Rows]) -> Rows:
        """What has arrived, as `decode` makes rows of it. Of no rows if nothing came in time."""
        for partition, at in self._reader.not_handed_out().items():
            await self._places.seek(partition, at)  # opened for `poll`: fetched again
        deadline = self._runtime.now() + limit_s
        while True:
            await self._see_to_duties(deadline)
            remaining = deadline - self._runtime.now()
            await self._places.refill(max(0.0, min(remaining, STEP_S)))
            rows = decode(self._reader.take_chunks())
            if rows.num_rows or remaining <= 0:
                self._counts.records += rows.num_rows
                return rows

    def take_ready(self) -> list[ConsumerRecord]:
        """The next record if it is here already and nothing else is due: never waits."""
        if self._woken or not self._membership.is_settled or self._committer.is_due:
            return []
        if not self._reader.has_records:
            return []
        taken = self._reader.take(1)
        self._counts.records += len(taken)
        return taken

    def wake(self) -> Callable[[], None]:
        """The `poll` under way, or the next one, ends with `WakeUp`; what is given ends one that waits."""
        self._woken = True
        return self._places.fetcher.interrupt

    # -- positions and offsets ---------------------------------------------------------------------

    async def position(self, partition: tuple[str, int], limit_s: float) -> int:
        return await self._places.position(self._places.mine(partition), limit_s)

    async def lag(self, partition: tuple[str, int], limit_s: float) -> int | None:
        return await self._places.lag(self._places.mine(partition), limit_s)

    async def committed(self, partitions: Partitions | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """As Java's, under any isolation level: an offset that an open transaction may replace is not told."""
        asking = offsets_api.committed(
            self._cluster, self.group_id(), self.chosen(partitions), require_stable=True
        )
        return await self._shell.home(asking)

    async def commit(self, offsets: Offsets | None) -> Exact:
        exact = self._committer.exact(offsets)
        await self._committer.commit(exact)
        return exact

    async def commit_async(self, offsets: Offsets | None, callback: Callback | None) -> None:
        await self._committer.commit_async(self._committer.exact(offsets), callback)

    async def edges(self, partitions: Partitions | None, which: int) -> dict[TopicPartition, int]:
        """The beginnings or the ends."""
        wanted = dict.fromkeys(self.chosen(partitions), which)
        committed_only = self._settings.read_committed
        listed = await self._shell.home(
            offsets_api.list_offsets(self._cluster, wanted, committed_only=committed_only)
        )
        return {partition: listed_offset.offset for partition, listed_offset in listed.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = {TopicPartition(*p): stamp for p, stamp in timestamps.items()}
        listed = await self._shell.home(offsets_api.list_offsets(self._cluster, wanted))
        return {
            p: listed_offset if listed_offset.offset >= 0 else None for p, listed_offset in listed.items()
        }

    async def partitions_for(self, topic: str) -> list[int]:
        asking = self._cluster.retrying(lambda: self._cluster.topic(topic), "partitions could not be listed")
        return sorted((await self._shell.home(asking)).partitions)

    # -- about -------------------------------------------------------------------------------------

    def group_metadata(self) -> GroupMetadata:
        return self._membership.metadata() or GroupMetadata(self.group_id())

    def metrics(self) -> dict[str, float]:
        places = self._places.fetcher.places.copy()
        positions = self._reader.positions.copy()
        lags = [
            place.high_watermark - positions[partition].offset
            for partition, place in places.items()
            if partition in positions and place.high_watermark >= 0
        ]
        here = {"assigned-partitions": len(places), "records-lag-max": max([0, *lags])}
        return self._counts.named() | here

    async def leave(self) -> None:
        await self._membership.leave()
        await self._committer.call_back()

    async def stop(self) -> None:
        """Ends all tasks and closes the connections."""
        await self._shell.home(self._stop())

    async def _stop(self) -> None:
        await self._places.stop()
        await self._committer.stop()
        await self._cluster.close()

    def group_id(self) -> str:
        if self._settings.group_id is None:
            raise IllegalState("this needs the setting group.id")
        return self._settings.group_id

    def chosen(self, partitions: Partitions | None) -> list[TopicPartition]:
        return [TopicPartition(*p) for p in (self.assignment() if partitions is None else partitions)]

    # -- inside ------------------------------------------------------------------------------------

    async def _see_to_duties(self, deadline: float) -> None:
        """What must happen before records are handed out."""
        if self._woken:
            self._woken = False
            raise WakeUp("wakeup was called")
        self._counts.polls += 1
        if self._committer.is_due:
            await self._committer.call_back()
            if self._committer.is_automatic:
                await self._committer.maybe_auto_commit()
        if not self._membership.is_settled:
            await self._shell.whole(self._membership.see_to(deadline))

    def _committing_as(self) -> GroupMetadata:
        return self._membership.committing_as() or GroupMetadata(self.group_id())

    async def _take(self, limit: int) -> list[ConsumerRecord]:
        try:
            taken = self._reader.take(limit)
        except Unreadable as problem:
            # Nothing behind it may be handed out in its place: the next poll comes back here.
            await self._places.seek(problem.partition, OffsetAndMetadata(problem.offset))
            raise
        self._counts.records += len(taken)
        return taken
