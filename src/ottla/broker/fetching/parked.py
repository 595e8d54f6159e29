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
            bytes_min = min(bytes_min, sum(each.wanted.partition_max_bytes for each in every))
            for each in every:
                each.counted_bytes = 0
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
        return any(self._reaches_min(each, self._end_of(each), now_ms) for each in self._readable)

    async def until(self, deadline_ms: int) -> None:
        """Waits until there is enough, a partition has to be looked at again, or the time is up."""
        timer = self._clock.call_later(deadline_ms - self._clock.monotonic_ms(), self._stop)
        self._bell.on_rung = self._on_rung
        try:
            for each in self._readable:
                each.listen(self._reader.waiters(each.partition), self._end_of(each) + 1)
            await self._wait
        finally:  # also when the connection is gone
            self._is_over = True
            timer.cancel()
            if self._bell.on_rung == self._on_rung:
                self._bell.on_rung = None
            if not self._keeps_listening:
                for each in self._readable:
                    each.stop_listening()

    def _end_of(self, each: Readable) -> int:
        return self._reader.visible_end(each.partition, each.log)

    def _stop(self) -> None:
        self._wait.set(None)

    def _on_rung(self, each: Readable) -> None:
        # After the append that woke us has answered its own client.
        self._clock.call_soon(lambda: self._on_grown(each))

    def _on_grown(self, each: Readable) -> None:
        if self._is_over:
            return
        seen_end = each.ticket.offset - 1 if each.ticket is not None else -1
        end = self._end_of(each)
        if each.ticket is None or not each.is_as_it_was() or end <= seen_end:
            self._stop()  # woken without growth: the answer tells what became of the partition
        elif self._reaches_min(each, end, self._clock.monotonic_ms()):
            self._stop()
        else:
            each.listen(self._reader.waiters(each.partition), end + 1)

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
