"""One client's connection: bytes in, frames cut, answers out. Bounded, whatever the client does."""

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from ottla.broker.context import Client
from ottla.broker.pipeline import Buffers, Pipeline, Slot
from ottla.ports import Buffer
from ottla.wire.frames import LENGTH

if TYPE_CHECKING:
    from ottla.server.listener import Listener

log = logging.getLogger("ottla.server")

IDLE_BUFFER_BYTES = 4 << 10
HELD_BYTES_MAX = 16 << 10  # read ahead of requests that wait for their turn
STEP_BYTES = 1 << 20  # a buffer grows by at most its own size or this: an announced length costs nothing


class Connection(asyncio.BufferedProtocol):
    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._buffer = bytearray(IDLE_BUFFER_BYTES)
        self._start = self._end = 0  # what is received and not yet cut into frames
        self._reading = True
        self._writable = True
        self._reserved = 0  # of the memory for requests, for the frame that is being received
        self._is_waiting = False  # for such memory
        self._transport: asyncio.Transport
        self.client: Client
        self.last_used_ms = 0
        self._pipeline = Pipeline(self._begin, self._write, self._cut, give_back=listener.budget.give)

    # -- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.last_used_ms = self._listener.clock.monotonic_ms()  # it has its time to send the first byte
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.client = Client(host, port, self._listener.name)
        self._transport.set_write_buffer_limits(high=self._listener.write_buffer_bytes_max)
        refused = self._listener.on_connected(self)
        if refused:
            self.close(refused)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._end == len(self._buffer):
            self._make_room()
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self._cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pipeline.close()
        self._listener.budget.leave(self)
        if self._reserved:
            self._listener.budget.give(self._reserved)
            self._reserved = 0
        self._listener.on_disconnected(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._pause()
        self._listener.on_stalled(self)

    def resume_writing(self) -> None:
        self._writable = True
        self._listener.on_flowing(self)
        self._cut()

    # -- reading ---------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Whole frames go to the pipeline while it takes them; reading pauses when too much waits."""
        self.last_used_ms = self._listener.clock.monotonic_ms()
        while self._writable and self._pipeline.ready and not self._is_waiting:
            if self._transport.is_closing():
                break
            received = self._end - self._start
            if received < LENGTH.size:
                break
            (size,) = LENGTH.unpack_from(self._buffer, self._start)
            if not 0 < size <= self._listener.request_bytes_max:
                self.close(f"a frame of {size} bytes, limit {self._listener.request_bytes_max}")
                return
            if size > IDLE_BUFFER_BYTES and not self._reserved and not self._reserve(size):
                break
            if received < LENGTH.size + size:
                break
            held, self._reserved = self._reserved, 0
            if held:
                self._listener.budget.on_complete(self)
            self._pipeline.on_frame(self._take(size), held)
        if self._start == self._end:
            self._start = self._end = 0
        # While a request is parked, reading goes on a little: that is how we hear that its client is gone.
        held = 0 if self._pipeline.ready else self._end - self._start
        if self._writable and held < HELD_BYTES_MAX and not self._is_waiting:
            self._resume()
        else:
            self._pause()

    def _reserve(self, size: int) -> bool:
        """Larger frames are read once there is memory for them, over all connections."""
        self._is_waiting = not self._listener.budget.take(self, size, lambda: self._on_granted(size))
        if not self._is_waiting:
            self._reserved = size
        return not self._is_waiting

    def _on_granted(self, size: int) -> None:
        self._is_waiting = False
        self._reserved = size
        self._listener.clock.call_soon(self._cut)

    def _take(self, size: int) -> Buffer:
        begin = self._start + LENGTH.size
        self._start = begin + size
        if self._start == self._end and size > IDLE_BUFFER_BYTES:
            # The frame fills what was received: handed over as it is, without a copy.
            frame = memoryview(self._buffer)[begin : self._start]
            self._buffer = bytearray(IDLE_BUFFER_BYTES)
            self._start = self._end = 0
            return frame
        return bytes(memoryview(self._buffer)[begin : self._start])

    def _make_room(self) -> None:
        """Moves the open frame to the front, and grows towards its length as its bytes arrive."""
        held = self._end - self._start
        size = IDLE_BUFFER_BYTES
        if held >= LENGTH.size:
            wanted = LENGTH.size + LENGTH.unpack_from(self._buffer, self._start)[0]
            size = max(size, min(wanted, held + max(held, STEP_BYTES)))
        if size <= held:  # several frames wait behind one that is held back
            size = held + IDLE_BUFFER_BYTES
        buffer = bytearray(size)
        buffer[:held] = memoryview(self._buffer)[self._start : self._end]
        self._buffer = buffer
        self._start, self._end = 0, held

    def _pause(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    # -- requests --------------------------------------------------------------------------------

    def _begin(self, frame: Buffer, slot: Slot) -> None:
        self._listener.dispatcher.begin(frame, slot, self.client, self.close)

    def _write(self, buffers: Buffers) -> None:
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    @property
    def idle(self) -> bool:
        return self._pipeline.idle

    def close(self, reason: str) -> None:
        if not self._transport.is_closing():
            log.info("connection closed: %s", reason)
            self._transport.close()  # what was answered before still leaves, if the client reads

    def fileno(self) -> int:
        """-1 when it is closed."""
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def abort(self, reason: str = "") -> None:
        if reason:
            log.info("connection closed: %s:%d: %s", self.client.host, self.client.port, reason)
        self._transport.abort()
