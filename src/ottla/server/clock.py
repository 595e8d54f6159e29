"""Real time behind the Clock port: one heap of timers, and a skew that tests may add."""

import asyncio
import heapq
import math
import time
from collections.abc import Callable

SLICE_MS = 10  # of timers in one turn of the loop


class _Timer:
    __slots__ = ("callback", "due_ms", "number", "owner")

    def __init__(self, owner: "LoopClock", due_ms: float, number: int, callback: Callable[[], None]) -> None:
        self.owner, self.due_ms, self.number = owner, due_ms, number
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: "_Timer") -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.owner.on_cancelled()


class LoopClock:
    """Used on its loop alone. One timer of the loop serves the earliest of ours."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._skew_ms = 0
        self._heap: list[_Timer] = []
        self._count = self._cancelled = 0
        self._armed: asyncio.TimerHandle | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._skew_ms

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000) + self._skew_ms

    def stopwatch_ms(self) -> float:
        return time.perf_counter() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Timer:
        self._count += 1
        timer = _Timer(self, self._exact_ms() + max(delay_ms, 0), self._count, callback)
        heapq.heappush(self._heap, timer)
        if self._heap[0] is timer:
            self._arm()
        return timer

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon(callback)

    def advance(self, milliseconds: int) -> None:
        """The future is now: every timer up to then fires, in order."""
        self._skew_ms += milliseconds
        if self._armed is not None:
            self._armed.cancel()
        self._fire(slice_ms=math.inf)

    def on_cancelled(self) -> None:
        """Cancelled timers are passed over when due; a heap of mostly such is cleaned before."""
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [timer for timer in self._heap if timer.callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def close(self) -> None:
        self._heap.clear()
        if self._armed is not None:
            self._armed.cancel()

    def _exact_ms(self) -> float:
        return self._loop.time() * 1000 + self._skew_ms

    def _arm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
        if self._heap:
            delay_s = max(self._heap[0].due_ms - self._exact_ms(), 0) / 1000
            self._armed = self._loop.call_later(delay_s, self._fire)

    def _fire(self, slice_ms: float = SLICE_MS) -> None:
        """All that are due; those beyond a slice in the next turn of the loop, after its sockets."""
        self._armed = None
        now_ms = self._exact_ms() + 0.5  # the loop's timers may come a little early
        last_ms = now_ms + slice_ms
        try:
            while self._heap and self._heap[0].due_ms <= now_ms and self._exact_ms() < last_ms:
                timer = heapq.heappop(self._heap)
                callback, timer.callback = timer.callback, None
                if callback is None:
                    self._cancelled -= 1
                else:
                    callback()
        finally:  # a callback that fails must not stop all timers that come after it
            if self._armed is None:
                self._arm()
