"""One client's connection: bytes in, frames cut, answers out. Bounded, whatever the client does."""

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ottla.broker.requests.client import Client
from ottla.broker.requests.pipeline import Buffers, Pipeline, Slot
from ottla.errors import OttlaError
from ottla.ports import Buffer, TimerHandle
from ottla.server.budget import Frame, Lease
from ottla.wire.frames import LENGTH

if TYPE_CHECKING:
    from ottla.broker.requests.authentication import Authentication
    from ottla.server.listener import Listener

log = logging.getLogger("ottla.server")

HEAD_BYTES = 4 << 10  # of a buffer for small frames and the beginning of others
CLOSING_MS = 1000  # longer than a connection that is about to be closed needs
TLS_HANDSHAKE = 0x1603  # how a TLS client begins, read as the upper half of a frame's size
GROWTH_BYTES = 1 << 20  # of the buffer of a large frame; more at a time would take long
_ROOM = memoryview(bytes(GROWTH_BYTES))  # zeros that are never written: they take no memory
READ_BYTES = 64 << 10  # at a time: the event loop reads up to 32 times before others have their turn
LARGE_BYTES = 1 << 20  # more than most requests have; reading the rest of a frame leaves turns to others
LARGE_READ_BYTES = 256 << 10  # of that rest, in a turn of the loop
HELD_BYTES_MAX = 16 << 10  # read ahead of requests that wait for their turn


class Connection(asyncio.BufferedProtocol):
    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._head = listener.scratch  # all connections receive into it; each copies what it has to keep
        self._start = self._end = 0  # what is received in the head and not yet cut into frames
        self._lease: Lease | None = None  # memory for a frame that is too large for the head, as it arrives,
        self._body: Frame | None = None  # and the frame
        self._is_waiting = False  # for such memory
        self._is_deferred = False  # to the next turn of the loop
        self._unmuting: TimerHandle | None = None  # while its quota is used up
        self._arrived_ms = 0.0  # the oldest request that is not begun, by the stopwatch
        self._reading = True
        self._writable = True
        self._is_cutting = False
        self._transport: asyncio.Transport
        self.client: Client
        self.last_used_ms = self.connected_ms = 0
        self._authentication: Authentication | None = None
        self._pipeline = Pipeline(self._begin, self._write, self._cut)

    # -- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # It has its time to send the first byte.
        self.last_used_ms = self.connected_ms = self._listener.clock.monotonic_ms()
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.client = Client(host, port, self._listener.name, mute=self._mute)
        self._transport.set_write_buffer_limits(high=self._listener.write_buffer_bytes_max)
        try:
            verdict = self._listener.on_connected(self)
            refused = verdict.refused or self._pass_gate()
        except BaseException:
            # The loop would go on with a connection that no gate has seen, and that needs no login.
            self.abort("it could not be let in")
            raise
        if refused and verdict.close_ms:
            self._close_later(refused, verdict.close_ms)
        elif refused:
            self.close(refused)
        elif verdict.wait_ms:
            self._mute(verdict.wait_ms)

    def _pass_gate(self) -> str | None:
        """Why the listener's gate does not let it in, or None. With SASL that is decided later."""
        gate = self._listener.gate
        if gate is None:
            return None
        if gate.login is not None:
            from ottla.broker.requests.authentication import Authentication

            self._authentication = Authentication(
                gate.login, self._listener.clock, self.client, self.close, self._listener.counts
            )
            return None
        try:
            self.client.principal = gate.principal(self._transport.get_extra_info("ssl_object"))
        except OttlaError as error:
            return f"{self.client.host}: {error}"
        return None

    @property
    def is_stranger(self) -> bool:
        """It has to authenticate, and has never done so."""
        return self._authentication is not None and not self._authentication.was_done

    @property
    def is_anonymous(self) -> bool:
        """It has to authenticate, and has not done so yet."""
        return self._authentication is not None and not self._authentication.is_done

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._lease is not None:
            return self._room_in_body(self._lease)
        if self._end == len(self._head):
            self._make_room_in_head()
        return memoryview(self._head)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if not self._arrived_ms:
            self._arrived_ms = self._listener.clock.stopwatch_ms()
        if self._lease is not None:
            self._lease.received += nbytes
        else:
            self._end += nbytes
        self._cut()
        self._let_others_read()
        if self._end and self._head is self._listener.scratch:
            self._make_room_in_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Everything goes at once: no reference cycle is left for the collector to find."""
        self._pipeline.close()
        if self._lease is not None:
            self._lease.release()
        self._lease = self._body = self._authentication = None
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._unmuting = None
        self.client.mute = _nobody_is_muted
        self._transport = _GONE  # that of TLS keeps methods of ours
        self._listener.on_disconnected(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._pause()
        self._listener.unsent.on_stalled(self)

    def resume_writing(self) -> None:
        self._writable = True
        self._listener.unsent.on_flowing(self)
        self._cut()

    # -- reading ---------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Whole frames go to the pipeline while it takes them; reading pauses when too much waits."""
        if self._is_cutting:
            return  # a request was answered at once: the loop below goes on with the next one, the stack does not grow
        self.last_used_ms = self._listener.clock.monotonic_ms()
        self.client.work.earn(self.last_used_ms)
        self._is_cutting = True
        try:
            while self._may_begin():
                frame = self._next_frame()
                if frame is None:
                    self._arrived_ms = 0.0
                    break
                self._pipeline.on_frame(frame, self._arrived_ms)
                del frame  # or the next one would be received while this one's memory is held
        finally:
            self._is_cutting = False
        # While a request is parked, reading goes on a little: that is how a closed connection is noticed.
        held = self._end - self._start
        is_held_up = self._is_waiting or self._is_deferred or self._unmuting is not None
        if self._writable and held < HELD_BYTES_MAX and not is_held_up:
            self._resume()
        else:
            self._pause()

    def _may_begin(self) -> bool:
        if not self._writable or not self._pipeline.ready or self._is_waiting or self._is_deferred:
            return False
        if self._unmuting is not None:
            return False
        listener = self._listener
        if self.client.work.left <= 0:
            self._is_deferred = True
            listener.turns.turn(first=self.client.is_peer).on_done(self._on_turn)
            return False
        if listener.is_late():
            self._is_deferred = True
            listener.clock.call_soon(self._on_turn)
            return False
        return not self._transport.is_closing()

    def _mute(self, milliseconds: int) -> None:
        """Begins no request of the client for so long. What it sends meanwhile waits, most of it in the socket."""
        clock = self._listener.clock
        if self._unmuting is not None:
            self._unmuting.cancel()
        elif self._lease is not None:
            self._lease.on_waiting(clock.monotonic_ms())  # it is not slow: we do not read
        self._unmuting = clock.call_later(milliseconds, self._unmute)
        self._pause()

    def _unmute(self) -> None:
        self._unmuting = None
        if self._lease is not None and not self._is_waiting:
            self._lease.on_granted(self._listener.clock.monotonic_ms())
        self._cut()

    def _on_turn(self) -> None:
        self._is_deferred = False
        self.client.work.on_turn()
        self._cut()

    def _next_frame(self) -> Buffer | None:
        if self._lease is None:
            received = self._end - self._start
            if received < LENGTH.size:
                return None
            (size,) = LENGTH.unpack_from(self._head, self._start)
            shortest, longest = self._frame_bytes()
            if not shortest <= size <= longest:
                self.close(_refused_size(size, longest))
                return None
            if LENGTH.size + size <= HEAD_BYTES:
                return self._cut_from_head(size) if received >= LENGTH.size + size else None
            lane = self._listener.budget.lane(size, is_peer=self.client.is_peer)
            self._lease = lane.open(self, self.client.host, size)
        return self._cut_body(self._lease)

    def _frame_bytes(self) -> tuple[int, int]:
        """The shortest and the longest. An empty one may be a bare message of a login."""
        gate = self._listener.gate
        if gate is not None and self.is_anonymous:
            return 0, gate.login_bytes_max
        return 1, self._listener.request_bytes_max

    def _cut_from_head(self, size: int) -> bytes:
        begin = self._start + LENGTH.size
        self._start = begin + size
        frame = bytes(memoryview(self._head)[begin : self._start])
        self._shrink_head()
        return frame

    def _cut_body(self, lease: Lease) -> Buffer | None:
        """The whole frame without a copy, or more room for it."""
        if lease.received == lease.held_bytes < lease.size:
            self._is_waiting = not lease.grow()
        if self._body is None and lease.held_bytes:
            self._body = self._begin_body(lease)
        if self._body is None or lease.received < lease.size:
            return None
        frame = memoryview(self._body)
        self._lease = self._body = None
        lease.on_complete()
        return frame

    def _begin_body(self, lease: Lease) -> Frame:
        """Takes over what the head has of it."""
        body = Frame(lease)
        begin = self._start + LENGTH.size
        end = min(self._end, begin + len(body))
        lease.received = end - begin
        body[: lease.received] = memoryview(self._head)[begin:end]
        self._start = end
        self._shrink_head()
        return body

    def _room_in_body(self, lease: Lease) -> memoryview:
        assert self._body is not None
        if lease.received == len(self._body) < lease.held_bytes:  # nobody has a view of it now
            self._body.extend(_ROOM[: lease.held_bytes - len(self._body)])
        read_bytes = READ_BYTES if lease.received < LARGE_BYTES else LARGE_READ_BYTES
        return memoryview(self._body)[lease.received : lease.received + read_bytes]

    def _let_others_read(self) -> None:
        """The rest of a large frame is read once in each turn of the loop, however quickly it comes."""
        if self._reading and self._lease is not None and self._lease.received >= LARGE_BYTES:
            self._pause()
            self._listener.clock.call_soon(self._cut)

    def on_room(self) -> None:
        self._is_waiting = False
        self._cut()

    def _make_room_in_head(self) -> None:
        """Moves what is held to the front of a buffer of its own, which grows when several frames wait behind one that
        is held back."""
        held = self._end - self._start
        head = bytearray(HEAD_BYTES if held < HEAD_BYTES else held + HEAD_BYTES)
        head[:held] = memoryview(self._head)[self._start : self._end]
        self._head, self._start, self._end = head, 0, held

    def _shrink_head(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
            self._head = self._listener.scratch

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
        if self._authentication is not None and self._authentication.on_frame(frame, slot):
            return
        self._listener.dispatcher.begin(frame, slot, self.client, self.close)

    def _write(self, buffers: Buffers) -> None:
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    @property
    def is_reading(self) -> bool:
        return self._reading

    @property
    def idle(self) -> bool:
        return self._pipeline.idle

    def close(self, reason: str) -> None:
        if not self._transport.is_closing():
            log.info("connection closed: %s", reason, extra={"fields": self._about()})
            self._transport.close()  # what was answered before still leaves, if the client reads

    def _close_later(self, reason: str, milliseconds: int) -> None:
        """Closes the connection after the delay; until then nothing is read from it."""
        self._listener.clock.call_later(milliseconds, lambda: self.close(reason))
        self._mute(milliseconds + CLOSING_MS)

    def fileno(self) -> int:
        """-1 when it is closed."""
        own = self._transport.get_extra_info("socket")
        return -1 if own is None else own.fileno()

    @property
    def is_closing(self) -> bool:
        return self._transport.is_closing()

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def abort(self, reason: str = "") -> None:
        if reason:
            where = self.client.host, self.client.port
            log.info("connection closed: %s:%d: %s", *where, reason, extra={"fields": self._about()})
        self._transport.abort()

    def _about(self) -> dict[str, str]:
        client = self.client
        return {
            "client": f"{client.host}:{client.port}",
            "principal": client.principal,
            "listener": client.listener,
        }


class _Gone(asyncio.Transport):
    """What a lost connection has instead of a transport: late answers go nowhere."""

    def is_closing(self) -> bool:
        return True

    def write(self, data: Buffer) -> None: ...

    def writelines(self, list_of_data: Iterable[Buffer]) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None: ...

    def abort(self) -> None: ...


_GONE = _Gone()


def _nobody_is_muted(milliseconds: int) -> None:
    pass


def _refused_size(size: int, longest: int) -> str:
    if size >> 16 == TLS_HANDSHAKE:
        return "the client speaks TLS to a listener without it: it should set security.protocol=PLAINTEXT"
    return f"a frame of {size} bytes, limit {longest}"
