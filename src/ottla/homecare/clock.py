"""What time it is for a pipeline: moved by the records, and by the wall clock when there are none.

Event time alone stands still when everybody falls silent, which is just when a technician is needed. The wall clock
alone runs ahead of records that wait to be read, and would call every device silent after a pause of the pipeline.
So the wall clock counts only for what was read up to its end.
"""

from collections.abc import Mapping

Position = tuple[str, int]  # topic, partition


class EventClock:
    """`time_ms` is max(event time, wall clock minus lateness), of the partition that is furthest behind."""

    def __init__(self, lateness_ms: int) -> None:
        self._lateness_ms = lateness_ms
        self._events: dict[Position, int] = {}
        self._read: dict[Position, int] = {}
        self.time_ms = 0

    @property
    def watermark_ms(self) -> int:
        """All records up to here have come, unless they are later than allowed."""
        return self.time_ms - self._lateness_ms

    def restore(self, time_ms: int, read: Mapping[Position, int]) -> None:
        self.time_ms = time_ms
        self._read.update(read)

    def on_read(self, where: Position, next_offset: int, newest_ms: int, wall_ms: int) -> None:
        """A device whose clock runs ahead must not take everybody else's time with it."""
        self._read[where] = max(self._read.get(where, 0), next_offset)
        newest_ms = min(newest_ms, wall_ms + self._lateness_ms)
        self._events[where] = max(self._events.get(where, 0), newest_ms)

    def on_passed(self, where: Position, next_offset: int) -> None:
        """There was nothing to read up to here."""
        self._read[where] = max(self._read.get(where, 0), next_offset)

    def on_tick(self, ends: Mapping[Position, int], wall_ms: int) -> None:
        """`ends` are the ends of all partitions as they were at `wall_ms`; what was read covers them or not."""
        if not ends:
            return
        times = []
        for where, end in ends.items():
            event = self._events.get(where, 0)
            is_read = self._read.get(where, 0) >= end
            times.append(max(event, wall_ms - self._lateness_ms) if is_read else event)
        self.time_ms = max(self.time_ms, min(times))

    def positions(self) -> dict[Position, int]:
        return dict(self._read)
