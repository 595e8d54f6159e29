"""`Consumer`: poll for records, alone or as a member of a group. One thread at a time."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.blocking.engine import Engine
from ottla.client.blocking.guard import Guard
from ottla.client.core import offsets as offsets_api
from ottla.client.core.cluster import Cluster
from ottla.client.core.committer import Callback, Committer
from ottla.client.core.membership import Listener, Listeners, Membership
from ottla.client.core.metrics import ConsumerCounts
from ottla.client.core.names import checked_topics
from ottla.client.core.places import Partitions, Places
from ottla.client.core.reader import Reader, Unreadable
from ottla.client.errors import IllegalState, WakeUp
from ottla.client.serializers import deserializer_for
from ottla.client.settings import ConsumerSettings
from ottla.client.timeouts import Timeout, seconds
from ottla.client.values import (
    ConsumerRecord,
    GroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

STEP_S = 0.5  # how long one wait lasts at most: group changes and Ctrl-C get a look


class Consumer:
    """`Consumer({"bootstrap.servers": ..., "group.id": ...})` or keyword arguments with underscores.

    `clock` is what auto-commit goes by, in seconds; tests hand in their own.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        clock: Callable[[], float] = time.monotonic,
        **more: Any,
    ) -> None:
        self.settings = ConsumerSettings.parse(settings or {}, **more)
        self._guard = Guard("consumer")
        self._woken = False
        self._counts = ConsumerCounts()
        self._reader = Reader(
            deserializer_for(self.settings.key_deserializer),
            deserializer_for(self.settings.value_deserializer),
        )
        self._cluster = Cluster(self.settings)
        self._engine = Engine("consumer", self._guard.refuse)
        self._places = Places(self._engine, self._cluster, self._reader)
        self._places.fetcher.counts = self._counts
        self._committer = Committer(
            self._engine, self._cluster, self._places.positions, self._committing_as, self._counts, clock
        )
        self._membership = Membership(
            self._engine, self._cluster, self._places, self._committer, self._counts
        )

    # -- what to read ------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Reads topics as a member of `group.id`. Listeners are called inside `poll`, with the partitions.

        A pattern given as text is evaluated by the broker where it can (in RE2's language), so that all
        members see the same topics; a compiled one, or one for an older broker, by this consumer.
        """
        if self.settings.group_id is None:
            raise IllegalState("subscribe needs the setting group.id; use assign to read without a group")
        if (topics is None) == (pattern is None):
            raise IllegalState("subscribe to topics or to a pattern, one of the two")
        names = checked_topics(topics)
        with self._guard:
            if self._places.assigned and not self._membership.is_joined:
                raise IllegalState("subscribe and assign exclude each other; call unsubscribe first")
            self._membership.subscribe(names, pattern, Listeners(on_assigned, on_revoked, on_lost))

    def subscription(self) -> frozenset[str]:
        """The topics that are read as a member of the group."""
        return self._membership.topics if self._membership.is_joined else frozenset()

    def unsubscribe(self) -> None:
        """Leaves the group, or lets go of what was assigned by hand."""
        with self._guard:
            self._membership.leave()
            self._places.assign(frozenset())

    def assign(self, partitions: Partitions) -> None:
        """Reads these partitions, without a group's help."""
        with self._guard:
            if self._membership.is_joined:
                raise IllegalState("assign and subscribe exclude each other; call unsubscribe first")
            wanted = frozenset(TopicPartition(*each) for each in partitions)
            self._places.assign(wanted, self._places.committed(wanted - self._places.assigned))

    def assignment(self) -> frozenset[TopicPartition]:
        return self._places.assigned

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """The next record from this partition is the one at `offset`."""
        at = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        with self._guard:
            self._places.seek(self._places.mine(partition), at)

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        self.seek_to_time(dict.fromkeys(self._chosen(partitions), offsets_api.EARLIEST))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        self.seek_to_time(dict.fromkeys(self._chosen(partitions), offsets_api.LATEST))

    def seek_to_time(self, timestamps: Mapping[TopicPartition, int] | int) -> None:
        """To the first record at or after a time in ms; to the end where there is none."""
        wanted = dict.fromkeys(self.assignment(), timestamps) if isinstance(timestamps, int) else timestamps
        with self._guard:
            for partition, timestamp in wanted.items():
                self._places.seek_to_time(self._places.mine(partition), timestamp)

    def pause(self, partitions: Partitions | None = None) -> None:
        """`poll` goes on keeping the membership alive and brings nothing of these, until `resume`."""
        with self._guard:
            self._places.pause([self._places.mine(each) for each in self._chosen(partitions)], True)

    def resume(self, partitions: Partitions | None = None) -> None:
        with self._guard:
            self._places.pause([self._places.mine(each) for each in self._chosen(partitions)], False)

    def paused(self) -> frozenset[TopicPartition]:
        return self._places.paused

    # -- reading -----------------------------------------------------------------------------------

    def poll(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Up to `max.poll.records` records, waiting up to `timeout` seconds for the first.

        A `timedelta` or `timeout_ms` leaves no doubt about the unit; `poll(100)` is refused.
        """
        limit = max_records or self.settings.max_poll_records
        limit_s = seconds("poll", timeout, timeout_ms) or 0.0
        with self._guard:
            deadline = time.monotonic() + limit_s
            while True:
                self._see_to_duties(deadline)
                taken = self._take(limit)
                if taken:
                    return taken
                left = deadline - time.monotonic()
                if not self._places.refill(max(0.0, min(left, STEP_S))) and left <= 0:
                    return []

    def poll_arrow(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, headers: bool = False
    ) -> "pa.RecordBatch":
        """What has arrived as one Arrow batch (key, value, topic, partition, offset, timestamp, ...).

        No record becomes a Python object. Of no rows if nothing came in time.
        """
        from ottla.client.arrow import decode

        limit_s = seconds("poll_arrow", timeout, timeout_ms) or 0.0
        with self._guard:
            for partition, at in self._reader.not_handed_out().items():
                self._places.seek(partition, at)  # opened for `poll`: fetched again
            deadline = time.monotonic() + limit_s
            while True:
                self._see_to_duties(deadline)
                left = deadline - time.monotonic()
                self._places.refill(max(0.0, min(left, STEP_S)))
                rows = decode(self._reader.take_chunks(), headers=headers)
                if rows.num_rows or left <= 0:
                    self._counts.records += rows.num_rows
                    return rows

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, for ever. A commit in the loop covers exactly the records seen so far."""
        while True:
            yield from self.poll(1.0, max_records=1)

    def take_ready(self) -> list[ConsumerRecord]:
        """The next record if it is here already and nothing else is due: never waits."""
        with self._guard:
            if self._woken or not self._membership.is_settled or self._committer.is_due:
                return []
            return self._take(1) if self._reader.has_records else []

    def wakeup(self) -> None:
        """Ends the `poll` under way, or the next one, with `WakeUp`. May be called from any thread."""
        self._woken = True
        self._engine.soon(self._places.fetcher.interrupt)

    # -- positions and offsets ---------------------------------------------------------------------

    def position(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int:
        """The offset of the next record that `poll` will return."""
        limit_s = seconds("position", timeout, timeout_ms) or 0.0
        with self._guard:
            return self._places.position(self._places.mine(partition), limit_s)

    def committed(self, partitions: Partitions | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out."""
        group = self._group_id()
        with self._guard:
            return self._engine.run(offsets_api.committed(self._cluster, group, self._chosen(partitions)))

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commits the positions, or these offsets (of the next record to read); what was committed."""
        with self._guard:
            exact = self._committer.exact(offsets)
            self._committer.commit(exact)
            return exact

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        callback: Callback | None = None,
    ) -> None:
        """As `commit`, without waiting or a second try; a later `poll` calls `callback(offsets, error)`."""
        with self._guard:
            self._committer.commit_async(self._committer.exact(offsets), callback)

    def beginning_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        return self._edge(partitions, offsets_api.EARLIEST)

    def end_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        """Behind the last record that may be read: the high watermark, or the last stable offset."""
        return self._edge(partitions, offsets_api.LATEST)

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        wanted = {TopicPartition(*p): stamp for p, stamp in timestamps.items()}
        with self._guard:
            found = self._engine.run(offsets_api.list_offsets(self._cluster, wanted))
        return {p: told if told.offset >= 0 else None for p, told in found.items()}

    def lag(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int | None:
        """How many offsets the position is behind the end, as far as the last fetch told; None before one."""
        limit_s = seconds("lag", timeout, timeout_ms) or 0.0
        with self._guard:
            return self._places.lag(self._places.mine(partition), limit_s)

    # -- about -------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[int]:
        with self._guard:
            asking = self._cluster.retrying(lambda: self._cluster.topic(topic), f"topic {topic}")
            return sorted(self._engine.run(asking).partitions)

    def group_metadata(self) -> GroupMetadata:
        """Who this member is: for a transactional producer's `send_offsets_to_transaction`."""
        return self._membership.metadata() or GroupMetadata(self._group_id())

    def metrics(self) -> dict[str, float]:
        """Totals since the start, under Kafka's names."""
        places = self._places.fetcher.places.copy()
        positions = self._reader.positions.copy()
        lags = [
            place.high_watermark - positions[partition].offset
            for partition, place in places.items()
            if partition in positions and place.high_watermark >= 0
        ]
        here = {"assigned-partitions": len(places), "records-lag-max": max([0, *lags])}
        return self._counts.named() | here

    def close(self) -> None:
        """Commits (if it does so by itself), leaves the group, ends."""
        if self._engine.is_closed or self._engine.is_forked:
            return
        with self._guard:
            try:
                self._membership.leave()
                self._committer.call_back()
            finally:
                self._engine.run(self._cluster.close())
                self._engine.close()

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------

    def _see_to_duties(self, deadline: float) -> None:
        """What must happen before records are handed out."""
        if self._woken:
            self._woken = False
            raise WakeUp("wakeup was called")
        self._counts.polls += 1
        self._committer.call_back()
        if self._committer.is_automatic:
            self._committer.maybe_auto_commit()
        self._membership.see_to(deadline)

    def _committing_as(self) -> GroupMetadata:
        return self._membership.committing_as() or GroupMetadata(self._group_id())

    def _take(self, limit: int) -> list[ConsumerRecord]:
        try:
            taken = self._reader.take(limit)
        except Unreadable as problem:
            # Nothing behind it may be handed out in its place: the next poll comes back here.
            self._places.seek(problem.partition, OffsetAndMetadata(problem.offset))
            raise
        self._counts.records += len(taken)
        return taken

    def _chosen(self, partitions: Partitions | None) -> list[TopicPartition]:
        return [TopicPartition(*p) for p in (self.assignment() if partitions is None else partitions)]

    def _edge(self, partitions: Partitions | None, which: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(self._chosen(partitions), which)
        committed_only = self.settings.read_committed
        with self._guard:
            found = self._engine.run(
                offsets_api.list_offsets(self._cluster, wanted, committed_only=committed_only)
            )
        return {partition: told.offset for partition, told in found.items()}

    def _group_id(self) -> str:
        if self.settings.group_id is None:
            raise IllegalState("this needs the setting group.id")
        return self.settings.group_id
