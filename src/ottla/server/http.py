"""Metrics for Prometheus and a health answer over HTTP. Two pages, so no framework."""

import asyncio
from collections.abc import Callable

REQUEST_BYTES_MAX = 8192
READ_TIMEOUT_S = 5


class HttpServer:
    def __init__(self, metrics: Callable[[], str], healthy: Callable[[], tuple[bool, str]]) -> None:
        self._metrics, self._healthy = metrics, healthy
        self._server: asyncio.Server | None = None
        self._visitors: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            for visitor in list(self._visitors):  # one that says nothing must not hold up a stop
                visitor.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visitors.add(writer)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = self._answer(head)
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a visitor that says nothing we understand costs its own connection
        finally:
            self._visitors.discard(writer)
            writer.close()

    def _answer(self, head: bytes) -> tuple[str, str, bytes]:
        method, path, *_ = [*head.split(b"\r\n", 1)[0].split(b" "), b"", b""]
        if method != b"GET":
            return "405 Method Not Allowed", "text/plain", b"GET only\n"
        match path.split(b"?")[0]:
            case b"/metrics":
                return "200 OK", "text/plain; version=0.0.4", self._metrics().encode()
            case b"/health":
                well, text = self._healthy()
                status = "200 OK" if well else "503 Service Unavailable"
                return status, "text/plain", f"{text}\n".encode()
            case _:
                return "404 Not Found", "text/plain", b"/metrics and /health are here\n"
