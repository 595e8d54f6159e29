"""Simulated time: it moves from one event to the next, and nothing happens in between."""

import heapq
import math
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
    """One heap of events for everybody; `next_event` is the world's heartbeat. It is a Clock, too."""

    def __init__(self) -> None:
        self.exact_ms = float(BEGIN_MS)
        self._heap: list[Event] = []
        self._count = 0

    def now_ms(self) -> int:
        return int(self.exact_ms)

    monotonic_ms = now_ms
    stopwatch_ms = now_ms  # time stands still while somebody works

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        self._count += 1
        event = Event(self.exact_ms + max(delay_ms, 0), self._count, callback)
        heapq.heappush(self._heap, event)
        return event

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def next_event(self, until_ms: float = math.inf) -> bool:
        """Runs the earliest event that is due by then; False when there is none."""
        while self._heap and self._heap[0].due_ms <= until_ms:
            event = heapq.heappop(self._heap)
            callback, event.callback = event.callback, None
            if callback is not None:
                self.exact_ms = event.due_ms
                callback()
                return True
        return False

    def advance(self, by_ms: float) -> None:
        """Everything that is due by then happens, in order."""
        until_ms = self.exact_ms + by_ms
        while self.next_event(until_ms):
            pass
        self.exact_ms = until_ms


class ProcessClock:
    """The Clock of one process: its timers die with it. While it is paused nothing runs; when it goes on,
    everything that was due comes at once."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._held: list[Callable[[], None]] = []
        self.is_alive, self.is_paused = True, False

    def now_ms(self) -> int:
        return self._time.now_ms()

    monotonic_ms = now_ms
    stopwatch_ms = now_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Event:
        return self._time.call_later(delay_ms, lambda: self.run(callback))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0, callback)

    def run(self, callback: Callable[[], None]) -> None:
        """Now, or when the process goes on, or never."""
        if self.is_alive and self.is_paused:
            self._held.append(callback)
        elif self.is_alive:
            callback()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self._held = self._held, []
        for callback in held:
            self.run(callback)

    def close(self) -> None:
        self.is_alive = False
