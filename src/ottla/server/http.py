"""A few pages over HTTP: metrics and health. Long ones are made in steps, other work of the loop in between."""

import asyncio
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.server.logins import Logins

if TYPE_CHECKING:
    from ottla.server.admission import Verdict

REQUEST_BYTES_MAX = 8192
READ_TIMEOUT_S = 5
ANSWER_TIMEOUT_S = 30
VISITORS_MAX = 64
SLICE_S = 0.001  # after so much a page lets others go on; a step takes a tenth of it


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Page(NamedTuple):
    status: str
    kind: str
    text: Iterator[str]


class NotFound(Exception):
    """There is no such page; the message says which there are."""


class HttpServer:
    """`page(path, accept)` makes one, or raises NotFound.

    `logins` guard all but the pages of health: orchestrators that ask for those have no passwords."""

    def __init__(self, page: Callable[[str, str], Awaitable[Page]], logins: Logins | None = None) -> None:
        self._page, self._logins = page, logins
        self._server: asyncio.Server | None = None
        self._secured: SecuredServer | None = None
        self._visitors: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        if tls is not None:
            self._secured = SecuredServer(host, port, tls, self._serve)
            self.port = self._secured.port
            return
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._secured is not None:
            await self._secured.stop()
            for visitor in list(self._visitors):
                visitor.transport.abort()
        if self._server is not None:
            self._server.close()
            for visitor in list(self._visitors):  # one that says nothing must not hold up a stop
                visitor.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visitors) >= VISITORS_MAX:
            writer.transport.abort()
            return
        self._visitors.add(writer)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._answer(head, writer)
                writer.close()
                await writer.wait_closed()  # what is left of the page has to leave in time, too
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a visitor that says nothing we understand costs its own connection
        finally:
            self._visitors.discard(writer)
            writer.transport.abort()  # closed, it would wait for a visitor that does not read

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        first, *fields = head.decode("latin-1").split("\r\n")
        method, target, version = [*first.split(" "), "", "", ""][:3]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        path = target.partition("?")[0]
        more = ""
        if method != "GET":
            page = Page("405 Method Not Allowed", "text/plain", iter(["GET only\n"]))
        elif not await self._may_see(path, headers.get("authorization", "")):
            page = Page("401 Unauthorized", "text/plain", iter(["a name and a password of --http-users\n"]))
            more = 'WWW-Authenticate: Basic realm="ottla"\r\n'
        else:
            try:
                page = await self._page(path, headers.get("accept", ""))
            except NotFound as error:
                page = Page("404 Not Found", "text/plain", iter([f"{error}\n"]))
        await _send(page, writer, more, chunked=version == "HTTP/1.1")

    async def _may_see(self, path: str, authorization: str) -> bool:
        if self._logins is None or path.startswith("/health"):
            return True
        return await self._logins.allow(authorization)


class SecuredServer:
    """With TLS. Those who have not shaken hands are bounded too: asyncio's server would show none of them."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, serve: Serve) -> None:
        from ottla.server.handshakes import Handshakes

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._serve = serve
        self._socket = socket.create_server((host, port), family=family)
        self.port = self._socket.getsockname()[1]
        self._handshakes = Handshakes(
            self._socket, lambda: tls, self._new_visitor, _admit, lambda host, *, is_over: None, lambda: None
        )
        self._handshakes.start()

    async def stop(self) -> None:
        await self._handshakes.stop()
        self._socket.close()

    def _new_visitor(self) -> asyncio.BaseProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=REQUEST_BYTES_MAX), self._serve)


def _admit(host: str, visitor: socket.socket) -> "Verdict":
    from ottla.server.admission import Verdict

    return Verdict()


async def _send(page: Page, writer: asyncio.StreamWriter, more: str, *, chunked: bool) -> None:
    how = more + ("Transfer-Encoding: chunked\r\n" if chunked else "")
    writer.write(
        f"HTTP/1.1 {page.status}\r\nContent-Type: {page.kind}\r\n{how}Connection: close\r\n\r\n".encode()
    )
    rested = time.perf_counter()
    for text in page.text:
        if text:
            data = text.encode()
            writer.write(b"%x\r\n%b\r\n" % (len(data), data) if chunked else data)
        if time.perf_counter() - rested > SLICE_S:
            await writer.drain()
            await asyncio.sleep(0)
            rested = time.perf_counter()
    if chunked:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
