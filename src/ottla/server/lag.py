"""How late the event loop is: the one number that says whether something blocked it."""

from ottla.ports import Clock, TimerHandle

INTERVAL_MS = 50
LATE_MS = 50
WINDOW = 1200  # samples: the last minute


class LagProbe:
    """A timer that should fire every 50 ms; what it is late is the lag everything else saw too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: list[int] = []
        self._due_ms = 0
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        self._due_ms = self._clock.monotonic_ms() + INTERVAL_MS
        self._timer = self._clock.call_later(INTERVAL_MS, self._on_timer)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def is_late(self) -> bool:
        """Whether the loop has not come to its timers for a while. What can wait for its next turn should."""
        return self._timer is not None and self._clock.monotonic_ms() > self._due_ms + LATE_MS

    def max_ms(self) -> int:
        """The worst of the last minute."""
        return max(self._samples, default=0)

    def _on_timer(self) -> None:
        self._samples.append(max(0, self._clock.monotonic_ms() - self._due_ms))
        if len(self._samples) > WINDOW:
            del self._samples[: -WINDOW // 2]
        self.start()
