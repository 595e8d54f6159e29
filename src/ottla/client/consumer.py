"""`Consumer`: poll for records, alone or as a member of a group. One thread at a time."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ottla.client import offsets as offsets_api
from ottla.client.chunks import Chunk
from ottla.client.cluster import Cluster
from ottla.client.engine import Engine
from ottla.client.errors import ClientError, IllegalState, NotSupported
from ottla.client.fetcher import Fetcher
from ottla.client.group.member import Member
from ottla.client.reader import Reader, Unreadable
from ottla.client.serializers import deserializer_for
from ottla.client.settings import ConsumerSettings
from ottla.client.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.errors import OttlaError

log = logging.getLogger(__name__)
Partitions = Iterable[tuple[str, int]]
Listener = Callable[[frozenset[TopicPartition]], Any]
Offsets = Mapping[TopicPartition, OffsetAndMetadata]
STEP_S = 0.5  # how long one wait lasts at most: group changes and Ctrl-C get a look


class Consumer:
    """`Consumer({"bootstrap.servers": ..., "group.id": ...})` or keyword arguments with underscores."""

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self.settings = ConsumerSettings.parse(settings or {}, **more)
        self._reader = Reader(
            deserializer_for(self.settings.key_deserializer),
            deserializer_for(self.settings.value_deserializer),
        )
        self._cluster = Cluster(self.settings)
        self._engine = Engine("consumer")
        self._user = threading.Lock()
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self._next_commit = 0.0
        self._member: Member | None = None
        self._pattern: re.Pattern[str] | None = None
        self._subscribed: frozenset[str] = frozenset()
        self._pattern_checked = 0.0
        self._on_assigned: Listener = lambda partitions: None
        self._on_revoked: Listener = lambda partitions: None
        self._on_lost: Listener | None = None
        self._fetcher = self._engine.run(self._start())

    # -- what to read ------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Reads topics as a member of `group.id`. Listeners are called inside `poll`, with the partitions."""
        if self.settings.group_id is None:
            raise IllegalState("subscribe needs the setting group.id; use assign to read without a group")
        if (topics is None) == (pattern is None):
            raise IllegalState("subscribe to topics or to a pattern, one of the two")
        with self._single():
            self._pattern = re.compile(pattern) if pattern is not None else None
            self._subscribed = frozenset([topics] if isinstance(topics, str) else topics or ())
            self._on_assigned = on_assigned or (lambda partitions: None)
            self._on_revoked = on_revoked or (lambda partitions: None)
            self._on_lost = on_lost
            if self._member is None:
                self._member = self._engine.run(self._new_member())
            self._subscribe_member()

    def unsubscribe(self) -> None:
        with self._single():
            self._leave()
            self._engine.run(self._assign(frozenset()))

    def assign(self, partitions: Partitions) -> None:
        """Reads these partitions, without a group's help."""
        with self._single():
            if self._member is not None:
                raise IllegalState("assign and subscribe exclude each other; call unsubscribe first")
            wanted = frozenset(TopicPartition(*each) for each in partitions)
            new = wanted - self.assignment()
            self._engine.run(self._assign(wanted, self._committed_for(new)))

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._fetcher.places)

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        with self._single():
            self._seek(self._mine(partition), OffsetAndMetadata(offset))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        self.seek_to_time(dict.fromkeys(self._chosen(partitions), offsets_api.EARLIEST))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        self.seek_to_time(dict.fromkeys(self._chosen(partitions), offsets_api.LATEST))

    def seek_to_time(self, timestamps: Mapping[TopicPartition, int]) -> None:
        """To the first record at or after a time in ms; to the end where there is none."""
        with self._single():
            for partition, timestamp in timestamps.items():
                self._reader.place(self._mine(partition), None)
                self._engine.run(self._on_loop(self._fetcher.seek_to_time, partition, timestamp))

    def pause(self, partitions: Partitions) -> None:
        chosen = [self._mine(each) for each in partitions]
        self._engine.run(self._on_loop(self._fetcher.pause, chosen, True))

    def resume(self, partitions: Partitions) -> None:
        chosen = [self._mine(each) for each in partitions]
        self._engine.run(self._on_loop(self._fetcher.pause, chosen, False))

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(p for p, place in self._fetcher.places.copy().items() if place.paused)

    # -- reading -----------------------------------------------------------------------------------

    def poll(self, timeout: float = 1.0, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Up to `max.poll.records` records, waiting up to `timeout` seconds for the first."""
        limit = max_records or self.settings.max_poll_records
        with self._single():
            deadline = time.monotonic() + timeout
            while True:
                self._see_to_group(deadline)
                taken = self._take(limit)
                left = deadline - time.monotonic()
                if taken or (left <= 0 and not self._refill(0)):
                    return taken
                if left > 0:
                    self._refill(min(left, STEP_S))

    def poll_batches(self, timeout: float = 1.0) -> list[Chunk]:
        """What has arrived as whole batches: no record is made an object. Not to be mixed with `poll`."""
        with self._single():
            deadline = time.monotonic() + timeout
            while True:
                self._see_to_group(deadline)
                left = deadline - time.monotonic()
                if self._refill(max(0.0, min(left, STEP_S))) or left <= 0:
                    return self._reader.take_chunks()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield from self.poll(1.0)

    # -- positions and offsets ---------------------------------------------------------------------

    def position(self, partition: tuple[str, int], timeout: float = 60.0) -> int:
        """The offset of the next record that `poll` will return."""
        chosen = self._mine(partition)
        deadline = time.monotonic() + timeout
        while chosen not in self._reader.positions:
            place = self._fetcher.places[chosen]
            self._refill(0)
            first = self._reader.first_waiting(chosen)
            if first is not None:
                return first
            if place.offset is not None and not place.ahead:
                return place.offset
            if time.monotonic() > deadline:
                raise ClientError(f"{chosen} got no position within {timeout} s")
            time.sleep(0.005)
        return self._reader.positions[chosen].offset

    def committed(self, partitions: Partitions) -> dict[TopicPartition, OffsetAndMetadata]:
        wanted = [TopicPartition(*each) for each in partitions]
        group = self._group_id()
        return self._engine.run(offsets_api.committed(self._cluster, group, wanted))

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commits the positions, or these offsets; what was committed."""
        with self._single():
            return self._commit(offsets)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], Any] | None = None,
    ) -> None:
        """As `commit`, without waiting; `callback(offsets, error)` runs on the consumer's own thread."""
        exact = self._exact(offsets)
        metadata = self.group_metadata()

        async def work() -> None:
            error: Exception | None = None
            try:
                await offsets_api.commit(self._cluster, metadata, exact)
            except OttlaError as failure:
                error = failure
            if callback is not None:
                callback(exact, error)

        self._engine.soon(lambda: asyncio.ensure_future(work()))

    def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return self._edge(partitions, offsets_api.EARLIEST)

    def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return self._edge(partitions, offsets_api.LATEST)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = {TopicPartition(*p): stamp for p, stamp in timestamps.items()}
        found = self._engine.run(offsets_api.list_offsets(self._cluster, wanted))
        return {p: told if told.offset >= 0 else None for p, told in found.items()}

    def lag(self, partition: tuple[str, int]) -> int | None:
        """How many offsets the position is behind the end, as far as the last fetch told."""
        chosen = self._mine(partition)
        end = self._fetcher.places[chosen].high_watermark
        return None if end < 0 else max(0, end - self.position(chosen))

    def partitions_for(self, topic: str) -> list[int]:
        found = self._engine.run(self._cluster.retrying(lambda: self._cluster.topic(topic), f"topic {topic}"))
        return sorted(found.partitions)

    def group_metadata(self) -> GroupMetadata:
        """Who this member is: for a transactional producer's `send_offsets_to_transaction`."""
        return self._member.metadata() if self._member is not None else GroupMetadata(self._group_id())

    def close(self) -> None:
        """Commits (if it does so by itself), leaves the group, ends."""
        if self._engine.is_closed:
            return
        with self._single():
            try:
                self._leave()
            finally:
                self._engine.run(self._cluster.close())
                self._engine.close()

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- records -----------------------------------------------------------------------------------

    def _take(self, limit: int) -> list[ConsumerRecord]:
        try:
            return self._reader.take(limit)
        except Unreadable as problem:
            # Nothing is skipped in silence: it comes again with every poll until the user seeks past it.
            self._seek(problem.partition, OffsetAndMetadata(problem.offset))
            raise

    def _refill(self, timeout_s: float) -> bool:
        chunks = self._engine.run(self._fetcher.take(timeout_s))
        self._reader.add(chunks)
        return bool(chunks)

    # -- the group ---------------------------------------------------------------------------------

    def _see_to_group(self, deadline: float) -> None:
        if self.settings.group_id is not None and self.settings.enable_auto_commit:
            self._auto_commit()
        member = self._member
        if member is None:
            return
        self._engine.run(self._on_loop(member.polled))
        if member.failure is not None:
            failure, self._member = member.failure, None
            raise failure
        self._look_for_new_topics(member)
        if member.lost:
            gone = member.owned
            self._engine.run(self._assign(frozenset()))
            (self._on_lost or self._on_revoked)(gone)
            self._engine.run(self._on_loop(member.reached, frozenset()))
        if member.must_revoke_all:
            self._reach(member, frozenset())
        left = max(0.0, min(deadline - time.monotonic(), STEP_S))
        target = self._engine.run(member.target(left))
        if target is not None:
            self._reach(member, target)

    def _reach(self, member: Member, target: frozenset[TopicPartition]) -> None:
        """Lets go first (committed and told), then takes on."""
        revoked, added = member.owned - target, target - member.owned
        if revoked:
            if self.settings.enable_auto_commit:
                self._commit_quietly(revoked)
            self._on_revoked(revoked)
        self._engine.run(self._assign(target, self._committed_for(added)))
        self._engine.run(self._on_loop(member.reached, target))
        if added or not revoked:
            self._on_assigned(added)

    def _committed_for(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """New partitions begin at what the group has committed; without a commit at `auto.offset.reset`."""
        if not partitions or self.settings.group_id is None:
            return {}
        stable = self.settings.read_committed
        return self._engine.run(
            offsets_api.committed(self._cluster, self.settings.group_id, partitions, require_stable=stable)
        )

    def _look_for_new_topics(self, member: Member) -> None:
        if self._pattern is None or time.monotonic() < self._pattern_checked:
            return
        self._pattern_checked = time.monotonic() + min(self.settings.metadata_max_age_ms / 1000, 5.0)
        self._subscribe_member()

    def _subscribe_member(self) -> None:
        assert self._member is not None
        if self._pattern is not None:
            self._engine.run(self._cluster.retrying(lambda: self._cluster.refresh(None), "topics"))
            pattern = self._pattern
            topics = self._cluster.image.topics.values()
            self._subscribed = frozenset(
                t.name for t in topics if not t.internal and pattern.fullmatch(t.name)
            )
        else:
            self._engine.run(
                self._cluster.retrying(
                    lambda: self._cluster.refresh(
                        self._subscribed, create=self.settings.allow_auto_create_topics
                    ),
                    "topics",
                )
            )
        self._engine.run(self._on_loop(self._member.subscribe, self._subscribed, None))

    def _leave(self) -> None:
        member, self._member = self._member, None
        if self.settings.enable_auto_commit and self.settings.group_id is not None:
            self._member = member
            self._commit_quietly(frozenset(self._reader.positions))
            self._member = None
        if member is not None:
            if member.owned:
                self._on_revoked(member.owned)
            self._engine.run(member.leave())

    async def _new_member(self) -> Member:
        from ottla.client.group.classic import ClassicMember
        from ottla.client.group.consumer_protocol import ConsumerMember, is_served

        wanted = self.settings.group_protocol
        served = await self._cluster.retrying(
            lambda: is_served(self._cluster), "the cluster's group protocols"
        )
        if wanted == "consumer" and not served:
            raise NotSupported(
                "the cluster does not serve the new group protocol; set group.protocol=classic"
            )
        kind = ClassicMember if wanted == "classic" or not served else ConsumerMember
        return kind(self._cluster, self._fetcher.interrupt)

    # -- commits -----------------------------------------------------------------------------------

    def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        exact = self._exact(offsets)
        self._engine.run(offsets_api.commit(self._cluster, self.group_metadata(), exact))
        self._committed.update(exact)
        return exact

    def _exact(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        given = self._reader.positions if offsets is None else offsets
        return {
            TopicPartition(*p): OffsetAndMetadata(each) if isinstance(each, int) else each
            for p, each in given.items()
        }

    def _auto_commit(self) -> None:
        now = time.monotonic()
        if not self._next_commit:
            self._next_commit = now + self.settings.auto_commit_interval_ms / 1000
        if now >= self._next_commit:
            self._next_commit = now + self.settings.auto_commit_interval_ms / 1000
            changed = {p: at for p, at in self._reader.positions.items() if self._committed.get(p) != at}
            if changed:
                self.commit_async(changed, self._on_auto_commit)

    def _on_auto_commit(
        self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None
    ) -> None:
        """Only what the broker has acknowledged need not be committed again."""
        if error is None:
            self._committed.update(offsets)
        else:
            log.warning("offsets were not committed: %s", error)

    def _commit_quietly(self, partitions: Iterable[TopicPartition]) -> None:
        """On the way out a failed commit means that records come again, which at-least-once allows."""
        changed = {
            p: self._reader.positions[p]
            for p in partitions
            if p in self._reader.positions and self._committed.get(p) != self._reader.positions[p]
        }
        try:
            self._commit(changed)
        except OttlaError as error:
            log.warning("offsets were not committed: %s", error)

    # -- small things ------------------------------------------------------------------------------

    @contextmanager
    def _single(self) -> Iterator[None]:
        if not self._user.acquire(blocking=False):
            raise IllegalState("another thread is using this consumer; give each thread one of its own")
        try:
            yield
        finally:
            self._user.release()

    def _seek(self, partition: TopicPartition, at: OffsetAndMetadata) -> None:
        self._reader.place(partition, at)
        self._engine.run(self._on_loop(self._fetcher.seek, partition, at.offset, at.leader_epoch))

    def _mine(self, partition: tuple[str, int]) -> TopicPartition:
        chosen = TopicPartition(*partition)
        if chosen not in self._fetcher.places:
            raise IllegalState(f"{chosen} is not assigned to this consumer")
        return chosen

    def _chosen(self, partitions: Partitions | None) -> list[TopicPartition]:
        return [TopicPartition(*p) for p in (self.assignment() if partitions is None else partitions)]

    def _edge(self, partitions: Partitions, which: int) -> dict[TopicPartition, int]:
        wanted = {TopicPartition(*each): which for each in partitions}
        committed_only = self.settings.read_committed
        found = self._engine.run(
            offsets_api.list_offsets(self._cluster, wanted, committed_only=committed_only)
        )
        return {partition: told.offset for partition, told in found.items()}

    def _group_id(self) -> str:
        if self.settings.group_id is None:
            raise IllegalState("this needs the setting group.id")
        return self.settings.group_id

    async def _start(self) -> Fetcher:
        fetcher = Fetcher(self._cluster)
        self._task = asyncio.ensure_future(fetcher.run())
        return fetcher

    async def _assign(self, partitions: frozenset[TopicPartition], starts: Offsets | None = None) -> None:
        """In one go: no fetch may start from somewhere else in between."""
        for gone in self.assignment() - partitions:
            self._reader.place(gone, None)
            self._committed.pop(gone, None)
        self._fetcher.assign(partitions)
        for partition, at in (starts or {}).items():
            self._reader.place(partition, at)
            self._fetcher.seek(partition, at.offset, at.leader_epoch)

    async def _on_loop(self, call: Callable[..., object], *arguments: Any) -> None:
        call(*arguments)
