"""How much may be copied now: a bucket that fills at the rate and may be overdrawn by one step."""

import time
from collections.abc import Callable

_BURST_S = 1.0


class Throttle:
    """`allowed` is told how much was copied in all so far."""

    def __init__(self, rate: int, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._now = rate, now
        self._left = 0.0
        self._at = now()
        self._seen: int | None = None
        self.is_exhausted = False

    def allowed(self, copied: int, rate: int | None = None) -> int | None:
        """Bytes that may be copied now; None: as many as there are."""
        rate = self._rate if rate is None else rate
        now = self._now()
        elapsed, self._at = now - self._at, now
        spent = 0 if self._seen is None else copied - self._seen
        self._seen = copied
        if rate <= 0:
            self._left, self.is_exhausted = 0.0, False
            return None
        self._left = min(self._left + elapsed * rate, rate * _BURST_S) - spent
        self.is_exhausted = self._left < 1
        return max(0, int(self._left))
