"""`Consumer`: poll for records, alone or as a member of a group. One thread at a time."""

import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.client.blocking.driving import CallersThread, drive
from ottla.client.blocking.engine import Engine
from ottla.client.blocking.guard import Guard
from ottla.client.core.committer import Callback
from ottla.client.core.consumer import ConsumerCore, Offsets
from ottla.client.core.membership import Listener, Listeners
from ottla.client.core.offsets import EARLIEST, LATEST
from ottla.client.core.places import Partitions
from ottla.client.loop.runtime import LOOP
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

T = TypeVar("T")


class Consumer:
    """`Consumer({"bootstrap.servers": ..., "group.id": ...})` or keyword arguments with underscores.

    `clock` is what auto-commit goes by, in seconds; tests hand in their own.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        /,
        *,
        clock: Callable[[], float] | None = None,
        **more: object,
    ) -> None:
        self.settings = ConsumerSettings.parse(settings or {}, **more)
        self._guard = Guard("consumer")
        self._engine = Engine("consumer", self._guard.refuse)
        self._core = ConsumerCore(self.settings, LOOP, CallersThread(), clock)

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
        listeners = Listeners(on_assigned, on_revoked, on_lost)
        self._run(self._core.subscribe(topics, pattern, listeners))

    def subscription(self) -> frozenset[str]:
        """The topics that are read as a member of the group."""
        return self._core.subscription()

    def unsubscribe(self) -> None:
        """Leaves the group, or lets go of what was assigned by hand."""
        self._run(self._core.unsubscribe())

    def assign(self, partitions: Partitions) -> None:
        """Reads these partitions, without a group's help."""
        self._run(self._core.assign(partitions))

    def assignment(self) -> frozenset[TopicPartition]:
        return self._core.assignment()

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """The next record from this partition is the one at `offset`."""
        at = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        self._run(self._core.seek(partition, at))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        self.seek_to_time(dict.fromkeys(self._core.chosen(partitions), EARLIEST))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        self.seek_to_time(dict.fromkeys(self._core.chosen(partitions), LATEST))

    def seek_to_time(self, timestamps: Mapping[TopicPartition, int] | int) -> None:
        """To the first record at or after a time in ms; to the end where there is none."""
        self._run(self._core.seek_to_time(timestamps))

    def pause(self, partitions: Partitions | None = None) -> None:
        """`poll` goes on keeping the membership alive and brings nothing of these, until `resume`."""
        self._run(self._core.pause(partitions, True))

    def resume(self, partitions: Partitions | None = None) -> None:
        self._run(self._core.pause(partitions, False))

    def paused(self) -> frozenset[TopicPartition]:
        return self._core.paused()

    # -- reading -----------------------------------------------------------------------------------

    def poll(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, max_records: int | None = None
    ) -> list[ConsumerRecord]:
        """Up to `max.poll.records` records, waiting up to `timeout` seconds for the first.

        A `timedelta` or `timeout_ms` leaves no doubt about the unit; `poll(100)` is refused.
        """
        return self._run(self._core.poll(seconds("poll", timeout, timeout_ms) or 0.0, max_records))

    def poll_arrow(
        self, timeout: Timeout = 1.0, *, timeout_ms: float | None = None, headers: bool = False
    ) -> "pa.RecordBatch":
        """What has arrived as one Arrow batch (key, value, topic, partition, offset, timestamp, ...).

        No record becomes a Python object. Of no rows if nothing came in time.
        """
        from ottla.client.arrow import decode

        limit_s = seconds("poll_arrow", timeout, timeout_ms) or 0.0
        return self._run(self._core.poll_chunks(limit_s, lambda chunks: decode(chunks, headers=headers)))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, for ever. A commit in the loop covers exactly the records seen so far."""
        while True:
            yield from self.take_ready() or self.poll(1.0, max_records=1)

    def take_ready(self) -> list[ConsumerRecord]:
        """The next record if it is here already and nothing else is due: never waits."""
        with self._guard:
            return self._core.take_ready()

    def wakeup(self) -> None:
        """Ends the `poll` under way, or the next one, with `WakeUp`. May be called from any thread."""
        self._engine.soon(self._core.wake())

    # -- positions and offsets ---------------------------------------------------------------------

    def position(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int:
        """The offset of the next record that `poll` will return."""
        return self._run(self._core.position(partition, seconds("position", timeout, timeout_ms) or 0.0))

    def lag(
        self, partition: tuple[str, int], timeout: Timeout = 60.0, *, timeout_ms: float | None = None
    ) -> int | None:
        """How many offsets the position is behind the end, as far as the last fetch told; None before one."""
        return self._run(self._core.lag(partition, seconds("lag", timeout, timeout_ms) or 0.0))

    def committed(self, partitions: Partitions | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """What the group has committed; partitions without a commit are left out.

        Waits up to `default.api.timeout.ms` for open transactions that are about to commit other offsets.
        """
        return self._run(self._core.committed(partitions))

    def commit(self, offsets: Offsets | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commits the positions, or these offsets (of the next record to read); what was committed."""
        return self._run(self._core.commit(offsets))

    def commit_async(self, offsets: Offsets | None = None, callback: Callback | None = None) -> None:
        """As `commit`, without waiting or a second try; a later `poll` calls `callback(offsets, error)`."""
        self._run(self._core.commit_async(offsets, callback))

    def beginning_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        return self._run(self._core.edges(partitions, EARLIEST))

    def end_offsets(self, partitions: Partitions | None = None) -> dict[TopicPartition, int]:
        """Behind the last record that may be read: the high watermark, or the last stable offset."""
        return self._run(self._core.edges(partitions, LATEST))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a time in ms; None where there is none."""
        return self._run(self._core.offsets_for_times(timestamps))

    # -- about -------------------------------------------------------------------------------------

    def partitions_for(self, topic: str) -> list[int]:
        return self._run(self._core.partitions_for(topic))

    def group_metadata(self) -> GroupMetadata:
        """Who this member is: for a transactional producer's `send_offsets_to_transaction`."""
        return self._core.group_metadata()

    def metrics(self) -> dict[str, float]:
        """Totals since the start, under Kafka's names."""
        return self._core.metrics()

    def close(self) -> None:
        """Commits (if it does so by itself), leaves the group, ends."""
        if self._engine.is_closed or self._engine.is_forked:
            return
        with self._guard:
            try:
                self._run(self._core.leave())
            finally:
                self._run(self._core.stop())
                self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """On this thread, which listeners and callbacks are called on too; the engine does what takes time."""
        try:
            with self._guard:
                return drive(self._engine, work)
        finally:
            work.close()
