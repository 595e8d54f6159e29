"""A fetch that waits for min.bytes: it counts bytes by their positions, and reads and keeps no records."""

from dataclasses import dataclass

from ottla import errors
from ottla.broker.readers import Reader
from ottla.broker.sessions import Wanted
from ottla.broker.waits import Wait
from ottla.ports import Clock
from ottla.replication.partition import Partition
from ottla.replication.throttle import Throttle
from ottla.replication.waiters import Ticket
from ottla.storage.log import Log
from ottla.storage.reading import Place


@dataclass(slots=True)
class Readable:
    """A partition of a fetch that can be read from."""

    wanted: Wanted
    partition: Partition
    log: Log
    leader_epoch: int
    throttle: Throttle | None = None  # of a replica that is being moved
    place: Place | None = None  # where its offset is in the log, once bytes are counted
    counted_bytes: int = 0

    def is_as_it_was(self) -> bool:
        return self.partition.log is self.log and self.partition.state.leader_epoch == self.leader_epoch

    def is_held_back(self, now_ms: int) -> bool:
        return self.throttle is not None and self.throttle.opens_in_ms(now_ms) > 0


class Parked:
    """Asks every partition once for what it has, and from then on only the ones that grow."""

    def __init__(self, readable: list[Readable], reader: Reader, bytes_min: int, clock: Clock) -> None:
        # More than all of them may give is not waited for.
        self._bytes_min = min(bytes_min, sum(each.wanted.partition_max_bytes for each in readable))
        self._readable, self._reader, self._clock = readable, reader, clock
        self._total_bytes = 0
        self._tickets: dict[int, Ticket] = {}
        self._wait: Wait[None] = Wait()
        self._is_over = False

    def is_enough(self) -> bool:
        """Whether what the partitions have now is enough to answer."""
        if self._bytes_min <= 0:
            return True
        now_ms = self._clock.monotonic_ms()
        return any(self._reaches_min(each, self._end_of(each), now_ms) for each in self._readable)

    async def until(self, deadline_ms: int) -> None:
        """Waits until there is enough, a partition has to be looked at again, or the time is up."""
        timer = self._clock.call_later(deadline_ms - self._clock.monotonic_ms(), self._stop)
        try:
            for number, each in enumerate(self._readable):
                self._listen(number, each, self._end_of(each))
            await self._wait
        finally:  # also when the connection is gone
            self._is_over = True
            timer.cancel()
            for ticket in self._tickets.values():
                ticket.cancel()

    def _end_of(self, each: Readable) -> int:
        return self._reader.visible_end(each.partition, each.log)

    def _stop(self) -> None:
        self._wait.set(None)

    def _listen(self, number: int, each: Readable, end: int) -> None:
        def soon() -> None:  # after the append that woke us has answered its own client
            self._clock.call_soon(lambda: self._on_grown(number, each, end))

        self._tickets[number] = self._reader.waiters(each.partition).add(end + 1, soon)

    def _on_grown(self, number: int, each: Readable, seen_end: int) -> None:
        if self._is_over:
            return
        if not each.is_as_it_was() or (end := self._end_of(each)) <= seen_end:
            self._stop()  # woken without growth: the answer tells what became of the partition
        elif self._reaches_min(each, end, self._clock.monotonic_ms()):
            self._stop()
        else:
            self._listen(number, each, end)

    def _reaches_min(self, each: Readable, end: int, now_ms: int) -> bool:
        """Takes what the partition has into the sum; whether that is enough."""
        if self._bytes_min == 1:
            return each.wanted.fetch_offset < end and not each.is_held_back(now_ms)
        try:
            available = self._bytes_up_to(each, end)
        except errors.ProtocolError:
            return True  # the disk failed: the answer tells
        if not each.is_held_back(now_ms):
            self._total_bytes += available - each.counted_bytes
            each.counted_bytes = available
        return self._total_bytes >= self._bytes_min

    def _bytes_up_to(self, each: Readable, end: int) -> int:
        offset, log = each.wanted.fetch_offset, each.log
        if each.place is None:
            each.place = log.place_of(offset)
        if offset >= end:
            return 0
        available = log.bytes_from(each.place, end)
        if available is None:  # compaction or retention replaced the segment
            each.place = log.place_of(max(offset, log.log_start_offset))
            available = log.bytes_from(each.place, end) or 0
        return max(0, min(available, each.wanted.partition_max_bytes))
