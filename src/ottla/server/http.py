"""A few pages over HTTP: metrics and health. Long ones are made in steps, other work of the loop in between."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

REQUEST_BYTES_MAX = 8192
READ_TIMEOUT_S = 5
ANSWER_TIMEOUT_S = 30
VISITORS_MAX = 64
SLICE_S = 0.001  # after so much a page lets others go on; a step takes a tenth of it


class Page(NamedTuple):
    status: str
    kind: str
    text: Iterator[str]


class NotFound(Exception):
    """There is no such page; the message says which there are."""


class HttpServer:
    """`page(path, accept)` makes one, or raises NotFound."""

    def __init__(self, page: Callable[[str, str], Awaitable[Page]]) -> None:
        self._page = page
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
        if len(self._visitors) >= VISITORS_MAX:
            writer.transport.abort()
            return
        self._visitors.add(writer)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await self._answer(head, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a visitor that says nothing we understand costs its own connection
        finally:
            self._visitors.discard(writer)
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        first, *fields = head.decode("latin-1").split("\r\n")
        method, target, version = [*first.split(" "), "", "", ""][:3]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        if method != "GET":
            page = Page("405 Method Not Allowed", "text/plain", iter(["GET only\n"]))
        else:
            try:
                page = await self._page(target.partition("?")[0], headers.get("accept", ""))
            except NotFound as error:
                page = Page("404 Not Found", "text/plain", iter([f"{error}\n"]))
        await _send(page, writer, chunked=version == "HTTP/1.1")


async def _send(page: Page, writer: asyncio.StreamWriter, *, chunked: bool) -> None:
    how = "Transfer-Encoding: chunked\r\n" if chunked else ""
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
