"""A listening socket and its connections: how many, from where, for how long."""

import asyncio
import logging
import socket
from collections import Counter

from ottla.broker.dispatch import Dispatcher
from ottla.config.settings import Config
from ottla.ports import Clock, TimerHandle
from ottla.server.connection import Connection

log = logging.getLogger("ottla.server")
SWEEP_MS = 10_000


class Listener:
    def __init__(self, name: str, dispatcher: Dispatcher, config: Config, clock: Clock) -> None:
        self.name, self.dispatcher, self.clock = name, dispatcher, clock
        self.request_bytes_max: int = config.socket_request_max_bytes
        self.write_buffer_bytes_max = 1 << 20
        self._connections_max: int = config.max_connections
        self._connections_per_ip_max: int = config.max_connections_per_ip
        self._idle_ms_max: int = config.connections_max_idle_ms
        self._backlog: int = config.socket_listen_backlog_size
        self.connections: set[Connection] = set()
        self._by_host: Counter[str] = Counter()
        self._server: asyncio.AbstractServer | None = None
        self._socket: socket.socket
        self._sweeper: TimerHandle | None = None
        self.port = 0

    def bind(self, host: str, port: int) -> None:
        """The port is ours from here on; `serve` lets clients in."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=self._backlog)
        self.port = self._socket.getsockname()[1]

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self), sock=self._socket, backlog=self._backlog
        )
        self._sweep()

    def on_connected(self, connection: Connection) -> str | None:
        """Why the connection is refused, or None."""
        host = connection.client.host
        self.connections.add(connection)
        self._by_host[host] += 1
        if len(self.connections) > self._connections_max:
            return f"{host}: more than max.connections={self._connections_max} connections"
        if self._by_host[host] > self._connections_per_ip_max:
            return f"{host}: more than max.connections.per.ip={self._connections_per_ip_max} connections"
        return None

    def on_disconnected(self, connection: Connection) -> None:
        self.connections.discard(connection)
        host = connection.client.host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
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
        oldest = self.clock.monotonic_ms() - self._idle_ms_max
        for connection in list(self.connections):
            if connection.idle and connection.last_used_ms < oldest:
                connection.close(f"{connection.client.host}: idle for {self._idle_ms_max} ms")
        self._sweeper = self.clock.call_later(SWEEP_MS, self._sweep)
