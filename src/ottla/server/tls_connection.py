"""A connection with TLS. Its answers are encrypted piece by piece, no faster than the client reads.

The event loop would encrypt an answer of megabytes whole, into buffers that no cache of the processor knows. Pieces
that stay in the caches cost half of that. And what waits for a slow reader is held once,
instead of a second time in cipher.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

from ottla.broker.requests.pipeline import Buffers
from ottla.ports import Buffer
from ottla.server.connection import Connection

if TYPE_CHECKING:
    from ottla.server.listener import Listener

# Four TLS records. With what encryption adds, it is more than the 64 KB from which the event loop writes at once.
PIECE_BYTES = 64 << 10


class TlsConnection(Connection):
    def __init__(self, listener: "Listener") -> None:
        super().__init__(listener)
        self._waiting: deque[Buffer] | None = (
            None  # what is not encrypted yet; most connections never have any
        )
        self._waiting_bytes = 0
        self._is_blocked = False  # the transport has as much as it may hold

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=PIECE_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self._waiting, self._waiting_bytes = None, 0
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._encrypt()
        if not self._writable and self._waiting_bytes <= self._listener.write_buffer_bytes_max // 4:
            super().resume_writing()

    @property
    def unsent_bytes(self) -> int:
        return self._waiting_bytes + super().unsent_bytes

    def close(self, reason: str) -> None:
        if self._waiting_bytes and not self.is_closing:
            self._is_blocked = False
            while self._waiting_bytes:  # the transport sends what it has, and then closes
                self._transport.write(self._next_piece())
        super().close(reason)

    def _write(self, buffers: Buffers) -> None:
        size = sum(map(len, buffers))
        if not self._waiting_bytes and not self._is_blocked and size <= PIECE_BYTES:
            # Each buffer would become a TLS record of its own.
            self._transport.write(buffers[0] if len(buffers) == 1 else b"".join(buffers))
            return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.extend(buffers)
        self._waiting_bytes += size
        self._encrypt()
        if self._writable and self._waiting_bytes > self._listener.write_buffer_bytes_max:
            super().pause_writing()

    def _encrypt(self) -> None:
        while self._waiting_bytes and not self._is_blocked:
            self._transport.write(self._next_piece())

    def _next_piece(self) -> Buffer:
        """Up to PIECE_BYTES, of one buffer or of several."""
        waiting = self._waiting
        assert waiting is not None
        parts: list[Buffer] = []
        room = PIECE_BYTES
        while waiting and room:
            part = waiting.popleft()
            if len(part) > room:
                view = memoryview(part)
                waiting.appendleft(view[room:])
                part = view[:room]
            parts.append(part)
            room -= len(part)
        self._waiting_bytes -= PIECE_BYTES - room
        return parts[0] if len(parts) == 1 else b"".join(parts)
