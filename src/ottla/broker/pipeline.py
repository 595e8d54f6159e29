"""The requests of one connection: started in order, answered in order.

A request holds back the next one until it is answered, or until it says that it has appended: from then on
it only waits (acks=all), and the next one may start.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ottla.broker.waits import Running
from ottla.ports import Buffer

Buffers = list[Buffer]


class Slot:
    """A place in the queue of answers. `buffers` is None while it is awaited, empty when there is none."""

    __slots__ = ("_pipeline", "buffers", "held_bytes", "holds", "running")

    def __init__(self, pipeline: "Pipeline", held_bytes: int = 0) -> None:
        self._pipeline = pipeline
        self.held_bytes = held_bytes  # of the memory for requests, until it is answered
        self.buffers: Buffers | None = None
        self.holds = True
        self.running: Running | None = None

    def release(self) -> None:
        """The next request may start."""
        if self.holds:
            self.holds = False
            self._pipeline.on_released()

    def answer(self, buffers: Buffers) -> None:
        self.buffers = buffers
        self.running = None
        if self.held_bytes:
            held_bytes, self.held_bytes = self.held_bytes, 0
            self._pipeline.give_back(held_bytes)
        self._pipeline.on_answered()
        self.release()


class Begin(Protocol):
    def __call__(self, frame: Buffer, slot: Slot) -> None: ...


class Pipeline:
    """Bounded: `ready` says whether another frame may come; whoever reads the socket heeds it."""

    def __init__(
        self,
        begin: Begin,
        write: Callable[[Buffers], None],
        on_ready: Callable[[], None],
        in_flight_max: int = 64,
        give_back: Callable[[int], None] = lambda held_bytes: None,
    ) -> None:
        self._begin, self._write, self._on_ready = begin, write, on_ready
        self.give_back = give_back
        self._slots: deque[Slot] = deque()
        self._in_flight_max = in_flight_max
        self._closed = False

    @property
    def ready(self) -> bool:
        slots = self._slots
        return not slots or (not slots[-1].holds and len(slots) < self._in_flight_max)

    @property
    def idle(self) -> bool:
        return not self._slots

    def on_frame(self, frame: Buffer, held_bytes: int = 0) -> None:
        slot = Slot(self, held_bytes)
        self._slots.append(slot)
        self._begin(frame, slot)

    def on_released(self) -> None:
        if self.ready and not self._closed:
            self._on_ready()

    def on_answered(self) -> None:
        slots = self._slots
        was_full = len(slots) >= self._in_flight_max
        while slots and slots[0].buffers is not None and not self._closed:
            buffers = slots.popleft().buffers
            if buffers:
                self._write(buffers)
        if was_full and self.ready and not self._closed:
            self._on_ready()

    def close(self) -> None:
        """The connection is gone: parked requests go with it."""
        self._closed = True
        slots, self._slots = self._slots, deque()
        for slot in slots:
            if slot.running is not None:
                slot.running.cancel()
            if slot.held_bytes:
                self.give_back(slot.held_bytes)
                slot.held_bytes = 0
