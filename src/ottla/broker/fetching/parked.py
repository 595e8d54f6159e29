"""A fetch that waits for min.bytes: it counts bytes by their positions, and reads and keeps no records."""

from ottla import errors
from ottla.broker.fetching.readers import Reader
from ottla.broker.fetching.wanted import Bell, Readable
from ottla.broker.waits import Wait
from ottla.ports import Clock


class Parked:
    """Asks every partition once for what it has, and from then on only the ones that grow.

    `listening` have nothing, and ring by themselves when they grow: nothing is done for them. Partitions of a
    session go on listening when the fetch ends, for the next one: `keeps_listening`."""

    def __init__(
        self,
        readable: list[Readable],
        listening: list[Readable],
        reader: Reader,
        bytes_min: int,
        clock: Clock,
        bell: Bell,
        *,
        keeps_listening: bool,
    ) -> None:
        if bytes_min > 1:  # more than all of them may give is not waited for
            every = [*readable, *listening]
            bytes_min = min(bytes_min, sum(partition.wanted.partition_max_bytes for partition in every))
            for partition in every:
                partition.counted_bytes = 0
        self._readable, self._reader, self._bytes_min, self._clock = readable, reader, bytes_min, clock
        self._bell, self._keeps_listening = bell, keeps_listening
        self._total_bytes = 0
        self._wait: Wait[None] = Wait()
        self._is_over = False

    def is_enough(self) -> bool:
        """Whether what the partitions have now is enough to answer."""
        if self._bytes_min <= 0:
            return True
        now_ms = self._clock.monotonic_ms()
        return any(self._reaches_min(readable, self._end_of(readable), now_ms) for readable in self._readable)

    async def until(self, deadline_ms: int) -> None:
        """Waits until there is enough, a partition has to be looked at again, or the time is up."""
        timer = self._clock.call_later(deadline_ms - self._clock.monotonic_ms(), self._stop)
        self._bell.wake(self._on_rung)
        try:
            for readable in self._readable:
                readable.listen(self._reader.waiters(readable.partition), self._end_of(readable) + 1)
            await self._wait
        finally:  # also when the connection is gone
            self._is_over = True
            timer.cancel()
            self._bell.forget(self._on_rung)
            if not self._keeps_listening:
                for readable in self._readable:
                    readable.stop_listening()

    def _end_of(self, readable: Readable) -> int:
        return self._reader.visible_end(readable.partition, readable.log)

    def _stop(self) -> None:
        self._wait.set(None)

    def _on_rung(self, readable: Readable) -> None:
        # After the append that woke us has answered its own client.
        self._clock.call_soon(lambda: self._on_grown(readable))

    def _on_grown(self, readable: Readable) -> None:
        if self._is_over:
            return
        seen_end = readable.ticket.offset - 1 if readable.ticket is not None else -1
        end = self._end_of(readable)
        if readable.ticket is None or not readable.is_as_it_was() or end <= seen_end:
            self._stop()  # woken without growth: the answer tells what became of the partition
        elif self._reaches_min(readable, end, self._clock.monotonic_ms()):
            self._stop()
        else:
            readable.listen(self._reader.waiters(readable.partition), end + 1)

    def _reaches_min(self, readable: Readable, end: int, now_ms: int) -> bool:
        """Takes what the partition has into the sum; whether that is enough."""
        if self._bytes_min == 1:
            return readable.wanted.fetch_offset < end and not readable.is_held_back(now_ms)
        try:
            available = self._bytes_up_to(readable, end)
        except errors.ProtocolError:
            return True  # the disk failed: the answer tells
        if not readable.is_held_back(now_ms):
            self._total_bytes += available - readable.counted_bytes
            readable.counted_bytes = available
        return self._total_bytes >= self._bytes_min

    def _bytes_up_to(self, readable: Readable, end: int) -> int:
        offset, log = readable.wanted.fetch_offset, readable.log
        if readable.place is None:
            readable.place = log.place_of(offset)
        if offset >= end:
            return 0
        available = log.bytes_from(readable.place, end)
        if available is None:  # compaction or retention replaced the segment
            readable.place = log.place_of(max(offset, log.log_start_offset))
            available = log.bytes_from(readable.place, end) or 0
        return max(0, min(available, readable.wanted.partition_max_bytes))
