"""A listening socket and its connections: whether they come in, and for how long they may be idle."""

import asyncio
import errno
import logging
import resource
import select
import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.requests.dispatch import Dispatcher
from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.ports import Clock, TimerHandle
from ottla.server.admission import Admission, Verdict
from ottla.server.budget import Budget
from ottla.server.connection import HEAD_BYTES, Connection
from ottla.server.unsent import Unsent

if TYPE_CHECKING:
    from ottla.server.gate import Gate
    from ottla.server.handshakes import Handshakes

log = logging.getLogger("ottla.server")
FAILED_HANDSHAKES = "ottla_failed_tls_handshakes_total"  # a metric
SWEEP_MS = 10_000
LOOK_MS = 1000
GONE = getattr(select, "POLLRDHUP", 0)  # where there is none, only a connection that was reset is told
LOGIN_MS_MAX = 30_000
HANDLES_SPARED = 32  # for segments, syncs and checkpoints
WRITE_BUFFER_BYTES = 1 << 20  # answers beyond this wait until the client has read some


class Listener:
    def __init__(
        self,
        name: str,
        dispatcher: Dispatcher,
        config: Config,
        clock: Clock,
        budget: Budget,
        unsent: Unsent,
        admission: Admission,
        counts: Counter[str],
        is_late: Callable[[], bool] = lambda: False,
        gate: "Gate | None" = None,
    ) -> None:
        """`is_late` tells whether the event loop has worked on requests for too long at a stretch. Without a
        `gate` everybody comes in, in plain text."""
        self.name, self.dispatcher, self.clock = name, dispatcher, clock
        self.turns = dispatcher.turns
        self.budget, self.unsent, self.is_late = budget, unsent, is_late
        self.gate = gate
        self._admission, self.counts = admission, counts
        self.request_bytes_max = config.socket_request_max_bytes
        self.write_buffer_bytes_max = min(WRITE_BUFFER_BYTES, config.ottla_connection_responses_max_bytes)
        self._idle_ms_max = config.connections_max_idle_ms
        self._handles_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._backlog = config.socket_listen_backlog_size
        self._buffers = {
            socket.SO_SNDBUF: config.socket_send_buffer_bytes,
            socket.SO_RCVBUF: config.socket_receive_buffer_bytes,
        }
        self.connections: set[Connection] = set()
        self.scratch = bytearray(HEAD_BYTES)  # an idle connection needs no buffer of its own
        self._stopped = False
        self._server: asyncio.AbstractServer | None = None
        self._handshakes: Handshakes | None = None
        self._socket: socket.socket
        self._sweeper: TimerHandle | None = None
        self._looker: TimerHandle | None = None
        self.port = 0

    def bind(self, host: str, port: int) -> None:
        """The port is ours from here on; `serve` lets clients in."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=self._backlog)
        except OSError as error:
            raise InvalidConfig(f"cannot listen on {host or '*'}:{port}: {_why_not(error)}") from error
        for option, size in self._buffers.items():
            if size > 0:  # connections inherit it
                self._socket.setsockopt(socket.SOL_SOCKET, option, size)
        self.port = self._socket.getsockname()[1]

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        gate = self.gate
        if gate is not None and gate.has_tls:
            from ottla.server.handshakes import Handshakes
            from ottla.server.tls_connection import TlsConnection

            self.counts[FAILED_HANDSHAKES] += 0
            self._handshakes = Handshakes(
                self._socket,
                gate.current_context,
                lambda: TlsConnection(self),
                self._admit_socket,
                self._on_handshake,
                self._on_failed_handshake,
            )
            self._handshakes.start()
        else:
            self._server = await loop.create_server(
                lambda: Connection(self), sock=self._socket, backlog=self._backlog
            )
        self._sweep()
        self._look_for_gone()

    def on_connected(self, connection: Connection) -> Verdict:
        """Whether the connection comes in. One with TLS was let in before its handshake."""
        host = connection.client.host
        try:
            if self._handshakes:
                return Verdict(self._stopping(host))
            return self._admit(host, connection.fileno())
        finally:  # whatever comes of it: `on_disconnected` counts the connection out
            self.connections.add(connection)
            self._admission.on_connected(self.name, host)

    def _admit_socket(self, host: str, client: socket.socket) -> Verdict:
        return self._admit(host, client.fileno())

    def _on_failed_handshake(self) -> None:
        self.counts[FAILED_HANDSHAKES] += 1

    def _on_handshake(self, host: str, *, is_over: bool) -> None:
        if is_over:
            self._admission.on_disconnected(self.name, host)
        else:
            self._admission.on_connected(self.name, host)

    def _admit(self, host: str, handle: int) -> Verdict:
        """Of a connection that is not counted yet."""
        refused = self._stopping(host)
        # The lowest free number is always given: a high one tells that few are left, and files need those.
        if refused is None and handle >= self._handles_max - HANDLES_SPARED:
            refused = f"{host}: the {self._handles_max} file handles of this process are nearly used up"
        return self._admission.admit(self.name, host) if refused is None else Verdict(refused)

    def _stopping(self, host: str) -> str | None:
        """Why a connection is refused that was accepted just before the broker stopped; None while it runs."""
        return f"{host}: the broker has stopped" if self._stopped else None

    def on_disconnected(self, connection: Connection) -> None:
        self.unsent.on_flowing(connection)
        self.connections.discard(connection)
        self.dispatcher.on_disconnected(connection.client)
        self._admission.on_disconnected(self.name, connection.client.host)

    async def stop(self) -> None:
        self._stopped = True
        for timer in (self._sweeper, self._looker):
            if timer is not None:
                timer.cancel()
        if self._server is not None:
            self._server.close()
        if self._handshakes is not None:
            await self._handshakes.stop()
        self._socket.close()
        for connection in list(self.connections):
            connection.abort()
        if self._server is not None:
            await self._server.wait_closed()

    def descriptors(self) -> list[int]:
        """Of the listening socket and of every connection."""
        descriptors = [self._socket.fileno()]
        for connection in list(self.connections):
            descriptors.append(connection.fileno())
        return descriptors

    def _sweep(self) -> None:
        now_ms = self.clock.monotonic_ms()
        oldest = now_ms - self._idle_ms_max
        if self.gate is not None:
            self.gate.maybe_reload()
        for connection in list(self.connections):
            if connection.is_closing:
                connection.abort()  # it had its time to read what was left
            elif connection.is_stranger and connection.connected_ms < now_ms - LOGIN_MS_MAX:
                connection.close(f"{connection.client.host}: it did not authenticate in {LOGIN_MS_MAX} ms")
            elif connection.last_used_ms < oldest and self._is_idle(connection, oldest):
                connection.close(f"{connection.client.host}: idle for {self._idle_ms_max} ms")
        self._sweeper = self.clock.call_later(SWEEP_MS, self._sweep)

    def _look_for_gone(self) -> None:
        """While nothing is read from a connection, nobody tells that its client is gone: its requests would be worked
        on for nothing, and hold their memory."""
        deaf = {
            connection.fileno(): connection for connection in self.connections if not connection.is_reading
        }
        deaf.pop(-1, None)
        if deaf:
            poll = select.poll()
            for handle in deaf:
                poll.register(handle, GONE)
            for handle, _ in poll.poll(0):
                deaf[handle].abort("its client is gone")
        self._looker = self.clock.call_later(LOOK_MS, self._look_for_gone)

    def _is_idle(self, connection: Connection, oldest_ms: int) -> bool:
        """It asks for nothing, and has read nothing of what waits for it."""
        progress_ms = self.unsent.progress_ms(connection)
        return connection.idle if progress_ms is None else progress_ms < oldest_ms


def _why_not(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another program listens there already; choose another port (--port 0 picks one)"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have that address"
        case errno.EACCES:
            return "ports below 1024 are for root"
        case _:
            return error.strerror or str(error)
