"""ZooKeeper's part in a test cluster: the shared metadata log, on an event loop of its own.

Brokers run on loops of their own too, so that one can be stopped like a process. Their sessions cross between
the loops by messages, in order, as they would over a socket.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ottla.metadata.log import AppendFailed, Done, Listener
from ottla.metadata.records import Record
from ottla.metadata.shared import Shared
from ottla.ports import TimerHandle
from ottla.server.clock import LoopClock
from ottla.testing.background import Background


class Ensemble:
    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._background = Background("ottla-ensemble")
        self.loop = self._background.loop
        self.clock = LoopClock(self.loop)
        self.shared = Shared(self.clock.call_soon)

    def session(self, broker_loop: asyncio.AbstractEventLoop) -> "Session":
        return Session(self, broker_loop)

    def advance(self, milliseconds: int) -> None:
        self._background.call(lambda: self.clock.advance(milliseconds))

    def close(self) -> None:
        self._background.call(self.clock.close)
        self._background.close()


class Session:
    """One broker's way to the ensemble; a MetadataLog. Its methods are called on the broker's loop, except for
    `cut`, `reconnect` and `abandon`, which any thread may call."""

    def __init__(self, ensemble: Ensemble, broker_loop: asyncio.AbstractEventLoop) -> None:
        self._ensemble, self._broker_loop = ensemble, broker_loop
        self._log = ensemble.shared.session()
        self._expiry: TimerHandle | None = None
        self._closed = False

    # The port

    def open(self, listener: Listener, position: int = 0) -> None:
        self._send(self._log.open, _Relay(listener, self._receive), position)

    def register(self, broker_id: int, registration: bytes) -> None:
        self._send(self._log.register, broker_id, registration)

    def claim(self, broker_id: int, over: int | None = None) -> None:
        self._send(self._log.claim, broker_id, over)

    def resign(self) -> None:
        self._send(self._log.resign)

    def append(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        self._send(self._log.append, position, epoch, tuple(records), self._returned(done))

    def snapshot(self, position: int, epoch: int, records: Sequence[Record], done: Done) -> None:
        self._send(self._log.snapshot, position, epoch, tuple(records), self._returned(done))

    def catch_up(self, done: Callable[[], None]) -> None:
        self._send(self._log.catch_up, lambda: self._receive(done))

    def close(self) -> None:
        """The session ends now, unless it was abandoned: then its time runs out."""
        if not self._closed:
            self._send(self._log.close)
            self._closed = True

    # What happens to it

    def cut(self) -> None:
        """The broker cannot reach the ensemble; the session expires after its time-out."""
        self._send(self._lose)

    def reconnect(self) -> None:
        self._send(self._regain)

    def abandon(self) -> None:
        """As when the process is killed: the ensemble notices when the session times out."""
        if not self._closed:
            self.cut()
            self._closed = True

    def _lose(self) -> None:
        self._log.cut()
        if self._expiry is None:
            self._expiry = self._ensemble.clock.call_later(
                self._ensemble.session_timeout_ms, self._log.expire
            )

    def _regain(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self._log.reconnect()

    # Messages

    def _send(self, method: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the ensemble has stopped, and with it the test
            self._ensemble.loop.call_soon_threadsafe(method, *arguments)

    def _receive(self, callback: Callable[..., None], *arguments: Any) -> None:
        def on_broker_loop() -> None:
            if not self._closed:
                callback(*arguments)

        with suppress(RuntimeError):  # the broker has stopped
            self._broker_loop.call_soon_threadsafe(on_broker_loop)

    def _returned(self, done: Done) -> Done:
        def returned(outcome: AppendFailed | None) -> None:
            self._receive(done, outcome)

        return returned


class _Relay:
    """Hands what a Listener is told over to the broker's loop."""

    def __init__(self, listener: Listener, receive: Callable[..., None]) -> None:
        self._listener, self._receive = listener, receive

    def on_snapshot(self, position: int, records: Sequence[Record]) -> None:
        self._receive(self._listener.on_snapshot, position, records)

    def on_entry(self, position: int, records: Sequence[Record]) -> None:
        self._receive(self._listener.on_entry, position, records)

    def on_lease(self, holder: int | None, epoch: int) -> None:
        self._receive(self._listener.on_lease, holder, epoch)

    def on_members(self, members: Mapping[int, bytes]) -> None:
        self._receive(self._listener.on_members, dict(members))

    def on_session_lost(self) -> None:
        self._receive(self._listener.on_session_lost)
