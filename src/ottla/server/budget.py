"""Memory for requests in flight, in lanes of their own: who finds one used up waits, and is not refused.

See docs/decisions/2026-11-16-request-memory.md for the rules.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from ottla.broker.requests.memory import LARGE_BYTES
from ottla.ports import Clock, TimerHandle

SMALL_BYTES = 64 << 10  # frames up to this size have a lane of their own
FIRST_BYTES = 1 << 20  # what a buffer gets at once, while there is plenty
GRACE_MS = 5000  # a frame may take this long while others wait for its memory,
RATE_BYTES_PER_S = 1 << 20  # and as much longer as it takes at this rate
LOOK_MS = 1000


class Holder(Protocol):
    def on_room(self) -> None:
        """There is now room for the memory that this holder waits for."""
        ...

    def abort(self, reason: str) -> None: ...


class Lease:
    """The memory of one frame, from its first byte until its buffer is freed."""

    __slots__ = (
        "_lane",
        "_waiting_since_ms",
        "held_bytes",
        "holder",
        "host",
        "received",
        "size",
        "started_ms",
    )

    def __init__(self, lane: "Lane", holder: Holder, host: str, size: int, now_ms: int) -> None:
        self._lane, self.host, self.size, self.started_ms = lane, host, size, now_ms
        self.holder: Holder | None = holder  # while the frame is incomplete
        self.held_bytes = self.received = 0
        self._waiting_since_ms: int | None = None

    def grow(self) -> bool:
        """Takes memory for the next part of the frame, or waits: then `holder.on_room` is called."""
        return self._lane.grow(self)

    def on_complete(self) -> None:
        """All of the frame has arrived."""
        self._lane.on_complete(self)

    def release(self) -> None:
        self._lane.release(self)

    def on_waiting(self, now_ms: int) -> None:
        self._waiting_since_ms = now_ms

    def on_granted(self, now_ms: int) -> None:
        if self._waiting_since_ms is not None:
            self.started_ms += now_ms - self._waiting_since_ms  # it was not slow: we did not read
            self._waiting_since_ms = None

    def is_slow(self, now_ms: int) -> bool:
        if self._waiting_since_ms is not None:
            return False
        return now_ms - self.started_ms > GRACE_MS + self.received * 1000 // RATE_BYTES_PER_S


class Frame(bytearray):
    """A buffer that gives its memory back when nothing refers to it any more, not even a view of a part."""

    __slots__ = ("_lease",)

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease.held_bytes)
        self._lease = lease

    def __del__(self) -> None:
        self._lease.release()


class Lane:
    """Half of it is for the frames that ask first, the other half for the oldest incomplete one alone: it can
    always be finished, whatever the others hold."""

    def __init__(self, limit_bytes: int, clock: Clock, *, share_of_host: float = 1.0) -> None:
        self.limit_bytes = limit_bytes
        self._for_all = limit_bytes // 2
        self._for_host = int(self._for_all * share_of_host)
        self._clock = clock
        self.held_bytes = 0
        self._complete_bytes = 0  # of that, in frames that have arrived
        self._by_host: Counter[str] = Counter()
        self._incomplete: dict[Lease, None] = {}  # the oldest first
        self._waiting: dict[Lease, int] = {}  # how much each wants, in their order
        self._timer: TimerHandle | None = None
        self._is_granting = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def open(self, holder: Holder, host: str, size: int) -> Lease:
        lease = Lease(self, holder, host, size, self._clock.monotonic_ms())
        self._incomplete[lease] = None
        return lease

    def grow(self, lease: Lease) -> bool:
        wanted = self._next_bytes(lease)
        if self._fits(lease, wanted):
            self._charge(lease, wanted)
            return True
        self._waiting[lease] = wanted
        lease.on_waiting(self._clock.monotonic_ms())
        self._cut_off_slow_ones()
        return False

    def on_complete(self, lease: Lease) -> None:
        lease.holder = None
        self._incomplete.pop(lease, None)
        self._complete_bytes += lease.held_bytes
        self._grant_soon()  # another frame is the oldest now

    def release(self, lease: Lease) -> None:
        """May be called from anywhere, as buffers are freed: only numbers change here."""
        if lease in self._incomplete:
            del self._incomplete[lease]
            self._waiting.pop(lease, None)
            lease.holder = None
        else:
            self._complete_bytes -= lease.held_bytes
        self.held_bytes -= lease.held_bytes
        self._by_host[lease.host] -= lease.held_bytes
        if self._by_host[lease.host] <= 0:
            del self._by_host[lease.host]
        lease.held_bytes = 0
        self._grant_soon()

    def _next_bytes(self, lease: Lease) -> int:
        """A full buffer doubles. While there is plenty its first part is larger: most frames need no second."""
        first = FIRST_BYTES if self.held_bytes < self._for_all // 4 else SMALL_BYTES
        return min(lease.size, max(lease.held_bytes * 2, first)) - lease.held_bytes

    def _fits(self, lease: Lease, wanted: int) -> bool:
        if lease is next(iter(self._incomplete)):
            return self._complete_bytes == 0 or self._complete_bytes + lease.size <= self._for_all
        return (
            self.held_bytes + wanted <= self._for_all and self._by_host[lease.host] + wanted <= self._for_host
        )

    def _charge(self, lease: Lease, wanted: int) -> None:
        lease.held_bytes += wanted
        self.held_bytes += wanted
        self._by_host[lease.host] += wanted

    def _grant_soon(self) -> None:
        if self._waiting and not self._is_granting:
            self._is_granting = True
            self._clock.call_soon(self._grant)

    def _grant(self) -> None:
        self._is_granting = False
        now_ms = self._clock.monotonic_ms()
        for lease, wanted in list(self._waiting.items()):
            if lease.holder is not None and self._fits(lease, wanted):
                self._waiting.pop(lease, None)
                self._charge(lease, wanted)
                lease.on_granted(now_ms)
                lease.holder.on_room()

    def _cut_off_slow_ones(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for lease in [lease for lease in list(self._incomplete) if lease.is_slow(now_ms)]:
            if lease.holder is not None:
                lease.holder.abort(
                    f"{lease.received} of {lease.size} bytes of a request came in {now_ms - lease.started_ms} ms"
                    " while others wait for memory"
                )
        if self._waiting and self._timer is None:
            self._timer = self._clock.call_later(LOOK_MS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._waiting:
            self._cut_off_slow_ones()


class Parked:
    """What large requests keep in parsed form while they wait for something."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def takes(self, size: int) -> bool:
        return size <= LARGE_BYTES or self.held_bytes + size <= self.limit_bytes

    def take(self, size: int) -> Callable[[], None]:
        """Counts the request. The returned function is to be called when it is answered or given up."""
        if size <= LARGE_BYTES:
            return _nothing
        self.held_bytes += size

        def give_back() -> None:
            self.held_bytes -= size

        return give_back


class Budget:
    """The lanes of a broker, over all of its listeners."""

    def __init__(self, limit_bytes: int, clock: Clock) -> None:
        self.limit_bytes = limit_bytes
        self.peers = Lane(limit_bytes // 8, clock)
        self.small = Lane(limit_bytes // 8, clock, share_of_host=0.75)
        self.bulk = Lane(limit_bytes - 2 * (limit_bytes // 8), clock, share_of_host=0.75)
        self.parked = Parked(limit_bytes // 4)

    @property
    def lanes(self) -> dict[str, Lane]:
        return {"peers": self.peers, "small": self.small, "bulk": self.bulk}

    @property
    def held_bytes(self) -> int:
        return sum(lane.held_bytes for lane in self.lanes.values())

    @property
    def waiting(self) -> int:
        return sum(lane.waiting for lane in self.lanes.values())

    def lane(self, size: int, *, is_peer: bool) -> Lane:
        if is_peer:
            return self.peers
        return self.small if size <= SMALL_BYTES else self.bulk


def _nothing() -> None:
    pass
