"""The requests of one connection: started in order, answered in order.

A request holds back the next one until it is answered, or until it says that it has appended: from then on
it only waits (acks=all), and the next one may start.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.broker.waits import Running
from ottla.ports import Buffer

if TYPE_CHECKING:
    from ottla.broker.requests.times import Times

Buffers = list[Buffer]


class Slot:
    """A place in the queue of answers. `buffers` is None while it is awaited, empty when there is none."""

    __slots__ = ("_give_back", "_pipeline", "arrived_ms", "buffers", "holds", "running", "times")

    def __init__(self, pipeline: "Pipeline", arrived_ms: float) -> None:
        self._pipeline = pipeline
        self.arrived_ms = arrived_ms  # the request, by the stopwatch; 0: nobody looked
        self.times: Times | None = None
        self.buffers: Buffers | None = None
        self.holds = True
        self._give_back: Callable[[], None] | None = None
        self.running: Running | None = None

    def borrow(self, give_back: Callable[[], None]) -> None:
        """What the request holds is given back when it is answered or given up. The last one borrowed counts."""
        self._give_back = give_back

    def release(self) -> None:
        """The next request may start."""
        if self.holds:
            self.holds = False
            self._pipeline.on_released()

    def answer(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.running = None
        self.end()
        self._pipeline.on_answered()
        self.release()

    def end(self) -> None:
        """Cancels the handler if it still runs, and gives back what the request held."""
        if self.running is not None:
            self.running.cancel()
            self.running = None
        if self._give_back is not None:
            give_back, self._give_back = self._give_back, None
            give_back()


class Begin(Protocol):
    def __call__(self, frame: Buffer, slot: Slot) -> None: ...


class Pipeline:
    """Bounded: `ready` says whether another frame may come, and the connection reads none before."""

    def __init__(
        self,
        begin: Begin,
        write: Callable[[Buffers], None],
        on_ready: Callable[[], None],
        in_flight_max: int = 64,
    ) -> None:
        self._begin, self._write, self._on_ready = begin, write, on_ready
        self._slots: list[Slot] = []  # a few at most; an empty deque would be ten times the size
        self._in_flight_max = in_flight_max
        self._closed = False

    @property
    def ready(self) -> bool:
        slots = self._slots
        return not slots or (not slots[-1].holds and len(slots) < self._in_flight_max)

    @property
    def idle(self) -> bool:
        return not self._slots

    def on_frame(self, frame: Buffer, arrived_ms: float = 0.0) -> None:
        slot = Slot(self, arrived_ms)
        self._slots.append(slot)
        self._begin(frame, slot)

    def on_released(self) -> None:
        if self.ready and not self._closed:
            self._on_ready()

    def on_answered(self) -> None:
        slots = self._slots
        was_full = len(slots) >= self._in_flight_max
        while slots and slots[0].buffers is not None and not self._closed:
            slot = slots.pop(0)
            buffers, times = slot.buffers, slot.times
            if times is None:
                if buffers:
                    self._write(buffers)
                continue
            times.on_sending()
            if buffers:
                self._write(buffers)
            times.on_sent()
        if was_full and self.ready and not self._closed:
            self._on_ready()

    def close(self) -> None:
        """The connection is gone: parked requests go with it, and nothing refers back to the connection."""
        self._closed = True
        slots, self._slots = self._slots, []
        for slot in slots:
            slot.end()
        self._begin, self._write, self._on_ready = _begin_nothing, _write_nothing, _nothing


def _begin_nothing(frame: Buffer, slot: Slot) -> None: ...


def _write_nothing(buffers: Buffers) -> None: ...


def _nothing() -> None: ...
