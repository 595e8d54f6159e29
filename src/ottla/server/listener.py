"""A listening socket and its connections: how many, from where, for how long."""

import asyncio
import errno
import logging
import resource
import socket
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.dispatch import Dispatcher
from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.ports import Clock, TimerHandle
from ottla.server.budget import Budget
from ottla.server.connection import Connection
from ottla.server.unsent import Unsent

if TYPE_CHECKING:
    from ottla.server.gate import Gate
    from ottla.server.handshakes import Handshakes

log = logging.getLogger("ottla.server")
SWEEP_MS = 10_000
LOGIN_MS_MAX = 30_000
HANDLES_SPARED = 32  # for segments, syncs and checkpoints
WRITE_BUFFER_BYTES = 1 << 20  # answers beyond this wait until the client has read some


class Listener:
    """`config` gives the settings in force: some of the limits change while running."""

    def __init__(
        self,
        name: str,
        dispatcher: Dispatcher,
        config: Callable[[], Config],
        clock: Clock,
        budget: Budget,
        unsent: Unsent,
        is_late: Callable[[], bool] = lambda: False,
        gate: "Gate | None" = None,
    ) -> None:
        """`is_late` tells whether the event loop has worked on requests for too long at a stretch. Without a
        `gate` everybody comes in, in plain text."""
        self.name, self.dispatcher, self.clock = name, dispatcher, clock
        self.budget, self.unsent, self.is_late = budget, unsent, is_late
        self.gate = gate
        self._config = config
        static = config()
        self.request_bytes_max = static.socket_request_max_bytes
        self.write_buffer_bytes_max = min(WRITE_BUFFER_BYTES, static.ottla_connection_responses_max_bytes)
        self._idle_ms_max = static.connections_max_idle_ms
        self._handles_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._backlog = static.socket_listen_backlog_size
        self._buffers = {
            socket.SO_SNDBUF: static.socket_send_buffer_bytes,
            socket.SO_RCVBUF: static.socket_receive_buffer_bytes,
        }
        self.connections: set[Connection] = set()
        self._stopped = False
        self._by_host: Counter[str] = Counter()
        self._server: asyncio.AbstractServer | None = None
        self._handshakes: Handshakes | None = None
        self._socket: socket.socket
        self._sweeper: TimerHandle | None = None
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

            self._handshakes = Handshakes(
                self._socket, gate.current_context, lambda: Connection(self), self._refuse_socket
            )
            self._handshakes.start()
        else:
            self._server = await loop.create_server(
                lambda: Connection(self), sock=self._socket, backlog=self._backlog
            )
        self._sweep()

    def on_connected(self, connection: Connection) -> str | None:
        """Why the connection is refused, or None."""
        host = connection.client.host
        self.connections.add(connection)
        self._by_host[host] += 1
        if self._handshakes is not None:  # it was counted and let in before its handshake
            return f"{host}: the broker has stopped" if self._stopped else None
        return self._refuse(host, connection.fileno(), 0)

    def _refuse_socket(self, host: str, client: socket.socket) -> str | None:
        return self._refuse(host, client.fileno(), 1)

    def _refuse(self, host: str, handle: int, more: int) -> str | None:
        """Why another connection of the host is refused, or None; `more` is 1 if it is not counted yet."""
        config = self._config()
        if self._stopped:  # it was accepted just before
            return f"{host}: the broker has stopped"
        shaking = self._handshakes
        count = len(self.connections) + more + (len(shaking) if shaking is not None else 0)
        if count > config.max_connections:
            return f"{host}: more than max.connections={config.max_connections} connections"
        most = _per_address(config, host)
        of_host = self._by_host[host] + more + (shaking.by_host[host] if shaking is not None else 0)
        if of_host > most:
            return f"{host}: more than max.connections.per.ip={most} connections"
        # The lowest free number is always given: a high one tells that few are left, and files need those.
        if handle >= self._handles_max - HANDLES_SPARED:
            return f"{host}: the {self._handles_max} file handles of this process are nearly used up"
        return None

    def on_disconnected(self, connection: Connection) -> None:
        self.unsent.on_flowing(connection)
        self.connections.discard(connection)
        self.dispatcher.on_disconnected(connection.client)
        host = connection.client.host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    async def stop(self) -> None:
        self._stopped = True
        if self._sweeper is not None:
            self._sweeper.cancel()
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
        found = [self._socket.fileno()]
        for connection in list(self.connections):
            found.append(connection.fileno())
        return found

    def _sweep(self) -> None:
        now_ms = self.clock.monotonic_ms()
        oldest = now_ms - self._idle_ms_max
        if self.gate is not None:
            self.gate.maybe_reload()
        for connection in list(self.connections):
            if connection.is_closing:
                connection.abort()  # it had its time to read what was left
            elif connection.is_anonymous and connection.connected_ms < now_ms - LOGIN_MS_MAX:
                connection.close(f"{connection.client.host}: it did not authenticate in {LOGIN_MS_MAX} ms")
            elif connection.last_used_ms < oldest and self._is_idle(connection, oldest):
                connection.close(f"{connection.client.host}: idle for {self._idle_ms_max} ms")
        self._sweeper = self.clock.call_later(SWEEP_MS, self._sweep)

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


def _per_address(config: Config, host: str) -> int:
    for each in config.max_connections_per_ip_overrides.split(","):
        address, colon, limit = each.strip().rpartition(":")
        if colon and address == host and limit.isdigit():
            return int(limit)
    return config.max_connections_per_ip
