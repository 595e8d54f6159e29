"""A limit to the bytes that moves of replicas may take, so that clients get theirs."""

UNLIMITED = 2**63 - 1


class Throttle:
    """A bucket that fills at `rate` bytes a second and holds what one second brings. What is taken beyond it
    is owed: a fetch is not cut in the middle."""

    def __init__(self, rate: int = UNLIMITED) -> None:
        self.rate = rate
        self._left = 0.0
        self._at_ms: int | None = None

    def take(self, count: int, now_ms: int) -> None:
        self._fill(now_ms)
        self._left -= count

    def opens_in_ms(self, now_ms: int) -> int:
        """0 when something may be taken now."""
        if self.rate >= UNLIMITED:
            return 0
        self._fill(now_ms)
        return 0 if self._left > 0 else int(-self._left * 1000 / max(self.rate, 1)) + 1

    def _fill(self, now_ms: int) -> None:
        if self._at_ms is None:
            self._left = float(self.rate)
        else:
            self._left = min(self.rate, self._left + self.rate * (now_ms - self._at_ms) / 1000)
        self._at_ms = now_ms
