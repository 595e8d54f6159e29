"""Simulated time: it moves from one event to the next, and nothing happens in between."""

import heapq
from collections.abc import Callable

BEGIN_MS = 1_700_000_000_000


class Event:
    __slots__ = ("callback", "due_ms", "number")

    def __init__(self, due_ms: float, number: int, callback: Callable[[], None]) -> None:
        self.due_ms, self.number = due_ms, number
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "Event") -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)

    def cancel(self) -> None:
        self.callback = None


class Time:
    """One heap of events for everybody; `next_event` is the world's heartbeat."""

    def __init__(self) -> None:
        self.exact_ms = float(BEGIN_MS)
        self._heap: list[Event] = []
        self._count = 0

    def now_ms(self) -> int:
        return int(self.exact_ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        self._count += 1
        event = Event(self.exact_ms + max(delay_ms, 0), self._count, callback)
        heapq.heappush(self._heap, event)
        return event

    def next_event(self) -> bool:
        """Runs the earliest event; False when there is none."""
        while self._heap:
            event = heapq.heappop(self._heap)
            callback, event.callback = event.callback, None
            if callback is not None:
                self.exact_ms = event.due_ms
                callback()
                return True
        return False


class ProcessClock:
    """The Clock of one process: its timers die with it."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._alive = True

    def now_ms(self) -> int:
        return self._time.now_ms()

    monotonic_ms = now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        return self._time.call_later(delay_ms, lambda: callback() if self._alive else None)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def close(self) -> None:
        self._alive = False
