"""Memory for requests in flight, over all connections: whoever finds it used up waits, and is not refused."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from ottla.ports import Clock, TimerHandle

SLOW_MS = 5000  # a frame may take this long while others wait for its memory


class Holder(Protocol):
    def abort(self, reason: str) -> None: ...


class Budget:
    """A frame's whole length is taken before its bytes are read, and given back when it is answered. So those
    that wait never hold half of what they need, and the first in line always gets its turn. Only a client
    that announces much and sends it slowly could keep it from the others: it is cut off."""

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._clock = clock
        self._waiting: OrderedDict[Holder, tuple[int, Callable[[], None]]] = OrderedDict()
        self._incomplete: dict[Holder, int] = {}  # since when
        self._timer: TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, holder: Holder, size: int, granted: Callable[[], None]) -> bool:
        """True if it is there; else `granted` is called when it is."""
        if not self._waiting and self._fits(size):
            self._grant(holder, size)
            return True
        self._waiting[holder] = size, granted
        if self._timer is None:
            self._timer = self._clock.call_later(SLOW_MS, self._cut_off_slow_ones)
        return False

    def on_complete(self, holder: Holder) -> None:
        """All of its frame has arrived."""
        self._incomplete.pop(holder, None)

    def give(self, size: int) -> None:
        self.held_bytes -= size
        while self._waiting:
            holder, (wanted, granted) = next(iter(self._waiting.items()))
            if not self._fits(wanted):
                return
            del self._waiting[holder]
            self._grant(holder, wanted)
            granted()

    def leave(self, holder: Holder) -> None:
        """It is gone, and waits no more. What it holds it gives back itself."""
        self._incomplete.pop(holder, None)
        if self._waiting.pop(holder, None) is not None:
            self.give(0)

    def _fits(self, size: int) -> bool:
        """A frame larger than everything passes when it is alone."""
        return self.held_bytes == 0 or self.held_bytes + size <= self.limit_bytes

    def _grant(self, holder: Holder, size: int) -> None:
        self.held_bytes += size
        self._incomplete[holder] = self._clock.monotonic_ms()

    def _cut_off_slow_ones(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        before = self._clock.monotonic_ms() - SLOW_MS
        for holder in [each for each, since in self._incomplete.items() if since <= before]:
            holder.abort(f"a request took more than {SLOW_MS} ms to arrive while others wait for memory")
        if self._waiting:
            self._timer = self._clock.call_later(SLOW_MS / 5, self._cut_off_slow_ones)
