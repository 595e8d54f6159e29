"""A partition of a fetch: what is asked for, where that is read, and what its fetcher was told last."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.metadata.image import Partition as State
from ottla.replication.partition import Partition
from ottla.replication.replica import Replica
from ottla.replication.throttle import Throttle
from ottla.replication.waiters import Ticket, Waiters
from ottla.storage.log import Log
from ottla.storage.reading import Place

if TYPE_CHECKING:  # a start without a fetch does without
    from ottla.wire.messages.fetch import FetchPartition, PartitionData

Key = tuple[str | bytes, int]  # topic by name, or by id from v13 on


@dataclass(slots=True, eq=False)
class Wanted:
    """A partition as it is asked for. In a session it stays, and with it what was found out about it."""

    topic: str | bytes
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    resting: "Readable | None" = None  # nothing to read at the last look; see `Readable.is_quiet`

    def update(self, other: "Wanted") -> None:
        self.wake()
        self.fetch_offset, self.partition_max_bytes = other.fetch_offset, other.partition_max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset

    def wake(self) -> None:
        """It has to be looked at from the start."""
        resting, self.resting = self.resting, None
        if resting is not None:
            resting.stop_listening()

    def is_news(self, data: "PartitionData") -> bool:
        """Whether an incremental response must carry it; remembers that it does."""
        news = (
            bool(data.records)
            or data.error_code != 0
            or data.high_watermark != self.told_high_watermark
            or data.log_start_offset != self.told_log_start_offset
            or data.preferred_read_replica != -1
            or data.diverging_epoch.epoch != -1
        )
        if news:
            # An error is told again until it is gone.
            succeeded = data.error_code == 0
            self.told_high_watermark = data.high_watermark if succeeded else -1
            self.told_log_start_offset = data.log_start_offset if succeeded else -1
        return news


def wanted_of(topic: str | bytes, asked: "FetchPartition") -> Wanted:
    return Wanted(
        topic,
        asked.partition,
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.last_fetched_epoch,
        asked.log_start_offset,
    )


class Bell:
    """How the partitions of a session, or of one fetch, wake the fetch that waits for them now."""

    __slots__ = ("_listener",)

    def __init__(self) -> None:
        self._listener: Callable[[Readable], None] | None = None

    def wake(self, listener: "Callable[[Readable], None]") -> None:
        """From now on this fetch: a later one takes the place of an earlier one."""
        self._listener = listener

    def forget(self, listener: "Callable[[Readable], None]") -> None:
        if self._listener == listener:
            self._listener = None

    def ring(self, readable: "Readable") -> None:
        if self._listener is not None:
            self._listener(readable)


@dataclass(slots=True, eq=False)
class Readable:
    """A partition that can be read from: its leader, epoch and offset were checked under `state`."""

    wanted: Wanted
    partition: Partition
    log: Log
    state: State
    bell: Bell
    throttle: Throttle | None = None  # of a replica that is being moved
    place: Place | None = None  # where its offset is in the log, once bytes are counted
    counted_bytes: int = 0
    ticket: Ticket | None = None
    follower: Replica | None = None  # who fetches it, if that is a replica in sync

    def is_quiet(self, end: int) -> bool:
        """Whether there is nothing to check, to read or to tell since the last look. `end` is what is visible."""
        wanted, log = self.wanted, self.log
        return (
            wanted.fetch_offset == end
            and self.partition.state is self.state
            and self.partition.log is log
            and log.high_watermark == wanted.told_high_watermark
            and log.log_start_offset == wanted.told_log_start_offset
        )

    def listens_behind(self, end: int) -> bool:
        """Whether it rings by itself as soon as the log is longer than `end`."""
        ticket = self.ticket
        return ticket is not None and ticket.wake is not None and ticket.offset == end + 1

    def is_as_it_was(self) -> bool:
        return self.partition.log is self.log and self.partition.state.leader_epoch == self.state.leader_epoch

    def is_held_back(self, now_ms: int) -> bool:
        return self.throttle is not None and self.throttle.opens_in_ms(now_ms) > 0

    def listen(self, waiters: Waiters, offset: int) -> None:
        """A ticket that is still good is kept: of many partitions few change between two fetches."""
        ticket = self.ticket
        if ticket is not None and ticket.wake is not None:
            if ticket.offset == offset and ticket.owner is waiters:
                return
            ticket.cancel()
        self.ticket = waiters.add(offset, self._on_reached)

    def stop_listening(self) -> None:
        if self.ticket is not None:
            self.ticket.cancel()
            self.ticket = None
        self._on_reached()  # a fetch that waits for it looks again

    def _on_reached(self) -> None:
        self.bell.ring(self)
