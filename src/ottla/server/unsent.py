"""Answers that wait to be read, over all connections: what they hold is bounded, and slow readers are served."""

from typing import Protocol

from ottla.ports import Clock, TimerHandle

STUCK_MS = 10_000  # a client that has read nothing for so long is stuck, not slow
LOOK_MS = 1000
SMALLEST_ANSWER_BYTES = 64 << 10


class Reader(Protocol):
    @property
    def unsent_bytes(self) -> int: ...

    def abort(self, reason: str) -> None: ...


class _Progress:
    __slots__ = ("since_ms", "unsent_bytes")

    def __init__(self, unsent_bytes: int, now_ms: int) -> None:
        self.unsent_bytes, self.since_ms = unsent_bytes, now_ms


class Unsent:
    def __init__(self, limit_bytes: int, answer_bytes_max: int, clock: Clock) -> None:
        self._limit_bytes, self._answer_bytes_max, self._clock = limit_bytes, answer_bytes_max, clock
        self._stalled: dict[Reader, _Progress] = {}
        self._timer: TimerHandle | None = None
        self.held_bytes = 0

    def progress_ms(self, reader: Reader) -> int | None:
        """When a client that has answers waiting was last seen to read; None for one that has none."""
        progress = self._stalled.get(reader)
        return None if progress is None else progress.since_ms

    def on_stalled(self, reader: Reader) -> None:
        """The client of this connection reads its answers more slowly than it sends requests."""
        self._stalled[reader] = _Progress(reader.unsent_bytes, self._clock.monotonic_ms())
        self._look()

    def on_flowing(self, reader: Reader) -> None:
        if self._stalled.pop(reader, None) is not None:
            self._count()

    def answer_bytes_max(self) -> int:
        """How large an answer to a fetch may be. It shrinks when many do not read theirs."""
        free_bytes = self._limit_bytes - self.held_bytes
        if free_bytes >= self._limit_bytes // 2:
            return self._answer_bytes_max
        return min(self._answer_bytes_max, max(free_bytes // 16, SMALLEST_ANSWER_BYTES))

    def _count(self) -> None:
        self.held_bytes = sum(reader.unsent_bytes for reader in self._stalled)

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for reader, progress in self._stalled.items():
            if reader.unsent_bytes != progress.unsent_bytes:
                progress.unsent_bytes, progress.since_ms = reader.unsent_bytes, now_ms
        self._count()
        if self.held_bytes > self._limit_bytes:
            self._cut_off(now_ms - STUCK_MS)
        if self._stalled and self._timer is None:
            self._timer = self._clock.call_later(LOOK_MS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._look()

    def _cut_off(self, before_ms: int) -> None:
        """Those that have been stuck for longest, until the rest is within the limit."""
        stuck = [
            (stall.since_ms, reader) for reader, stall in self._stalled.items() if stall.since_ms <= before_ms
        ]
        for _, reader in sorted(stuck, key=lambda pair: pair[0]):
            if self.held_bytes <= self._limit_bytes:
                return
            del self._stalled[reader]
            self.held_bytes -= reader.unsent_bytes
            reader.abort(
                f"it has read nothing for {STUCK_MS} ms, and {reader.unsent_bytes} bytes wait for it"
            )
