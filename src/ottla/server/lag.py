"""How late the event loop is: the one number that says whether something blocked it."""

import time

from ottla.exposition import Histogram
from ottla.ports import Clock, TimerHandle

INTERVAL_MS = 50
STRETCH_MS = 10
WINDOW = 1200  # samples: the last minute
IDLE_SAMPLES = 20  # over which the idle share is averaged: a second


class LagProbe:
    """A timer that should fire every 50 ms; what it is late is the lag everything else saw too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: list[int] = []
        self._due_ms = 0
        self._timer: TimerHandle | None = None
        self.times = Histogram()
        self.idle_ratio = 1.0  # of the last second: time in which the loop's thread did not compute
        self._measured = (0.0, 0.0)  # when, and the thread's processor time then
        self._until_measured = 0

    def start(self) -> None:
        self._due_ms = self._clock.monotonic_ms() + INTERVAL_MS
        self._timer = self._clock.call_later(INTERVAL_MS, self._on_timer)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def max_ms(self) -> int:
        """The worst of the last minute."""
        return max(self._samples, default=0)

    def _on_timer(self) -> None:
        late_ms = max(0, self._clock.monotonic_ms() - self._due_ms)
        self._samples.append(late_ms)
        self.times.add(late_ms * 1000)
        self._until_measured -= 1
        if self._until_measured <= 0:
            self._until_measured = IDLE_SAMPLES
            self._measure()
        if len(self._samples) > WINDOW:
            del self._samples[: -WINDOW // 2]
        self.start()

    def _measure(self) -> None:
        (before, used_before), now, used = self._measured, time.monotonic(), time.thread_time()
        self._measured = now, used
        if before and now > before:
            self.idle_ratio = min(max(1 - (used - used_before) / (now - before), 0.0), 1.0)


class Stretch:
    """How long the loop has worked on requests without a look at its timers. Hundreds of connections may have sent
    something since its last turn; each alone is quick, and together they would hold up everything else."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_ms: float | None = None

    def is_long(self) -> bool:
        """Asked before every request. What can wait for the next turn of the loop should, if so."""
        if self._begun_ms is None:
            self._begun_ms = self._clock.stopwatch_ms()
            self._clock.call_soon(self._on_turn)
            return False
        return self._clock.stopwatch_ms() - self._begun_ms > STRETCH_MS

    def _on_turn(self) -> None:
        self._begun_ms = None
