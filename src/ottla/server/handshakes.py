"""TLS handshakes under way: counted against every limit, bounded in number, cut off when they take too long."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ottla.server.trim import MAPPED_FROM_BYTES, map_buffers_from

if TYPE_CHECKING:
    from ottla.server.admission import Verdict

logger = logging.getLogger("ottla.server")

TIMEOUT_S = 10.0
LAST_STEPS_S = 1.0  # are always left to a client whose first message came at the last moment
AT_ONCE_MAX = 256  # when there are more, the oldest goes: an honest one takes milliseconds
# uvloop makes a buffer of this size for each connection, and an idle one uses a page of it. In the heap such buffers
# would lie between all other memory of the connections, and tear it into pages that are half empty.
LOOPS_BUFFER_BYTES = 256 << 10
TLS_HANDSHAKE, RECORD_HEAD_BYTES, RECORD_BYTES_MAX = 0x16, 5, 16 << 10  # of the records of TLS
ACCEPT_AGAIN_S = 0.1  # after the system had no handle left


class Count(Protocol):
    def __call__(self, host: str, *, is_over: bool) -> None: ...


class Handshakes:
    """An accept loop of our own: asyncio's TLS server would show a connection only after its handshake, and no
    limit would count it before."""

    def __init__(
        self,
        listening: socket.socket,
        context: Callable[[], ssl.SSLContext],
        new_connection: Callable[[], asyncio.BaseProtocol],
        admit: Callable[[str, socket.socket], "Verdict"],
        count: "Count",
        on_failed: Callable[[], None],
    ) -> None:
        self._listening, self._context = listening, context
        self._new_connection, self._admit, self._count = new_connection, admit, count
        self._on_failed = on_failed
        self._under_way: dict[asyncio.Task[None], str] = {}  # the oldest first
        self._accepting: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._under_way)

    def start(self) -> None:
        self._listening.setblocking(False)
        map_buffers_from(MAPPED_FROM_BYTES)  # the first call takes long
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def stop(self) -> None:
        tasks = [*self._under_way, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # one in each turn of the loop, however many wait
            try:
                client, address = await loop.sock_accept(self._listening)
            except OSError as error:
                logger.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            host = address[0]
            try:
                verdict = self._admit(host, client)
            except Exception:  # the next one may be let in
                logger.exception("connection closed: %s: it could not be let in", host)
                client.close()
                continue
            if verdict.refused is not None:
                logger.info("connection closed: %s", verdict.refused)
                loop.call_later(verdict.close_ms / 1000, client.close)
                continue
            if verdict.wait_ms:
                await self._hold(client, verdict.wait_ms)  # those behind it wait in the system's queue
            self._make_room()
            self._count(host, is_over=False)
            task = loop.create_task(self._shake_hands(client, host))
            self._under_way[task] = host
            task.add_done_callback(self._on_done)

    async def _hold(self, client: socket.socket, milliseconds: int) -> None:
        try:
            await asyncio.sleep(milliseconds / 1000)
        except asyncio.CancelledError:
            client.close()
            raise

    async def _shake_hands(self, client: socket.socket, host: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT_S
        try:
            async with asyncio.timeout_at(deadline):
                await whole_hello(client)
            async with self._starting:
                await asyncio.sleep(0)  # the answer to a hello takes most of a millisecond: one in each turn
            map_buffers_from(LOOPS_BUFFER_BYTES)
            loop.call_soon(map_buffers_from, MAPPED_FROM_BYTES)
            left_s = max(deadline - loop.time(), LAST_STEPS_S)
            await loop.connect_accepted_socket(
                self._new_connection, client, ssl=self._context(), ssl_handshake_timeout=left_s
            )
        except (OSError, ssl.SSLError) as error:
            self._on_failed()
            logger.info("connection closed: %s: the TLS handshake failed: %s", host, _reason(error))
            client.close()
        except BaseException:
            client.close()
            raise

    def _make_room(self) -> None:
        if len(self._under_way) >= AT_ONCE_MAX:
            oldest, host = next(iter(self._under_way.items()))
            logger.info("connection closed: %s: its TLS handshake is the oldest of %d", host, AT_ONCE_MAX)
            oldest.cancel()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        host = self._under_way.pop(task)
        self._count(host, is_over=True)
        with suppress(asyncio.CancelledError):
            error = task.exception()
            if error is not None:
                logger.error("a TLS handshake failed", exc_info=error)


async def whole_hello(client: socket.socket) -> None:
    """Returns when a client has sent its first message, or something that is none: until then it costs no more than a
    socket. Raises ConnectionError if the client leaves before."""
    head = await _first_bytes(client, RECORD_HEAD_BYTES)
    if len(head) == RECORD_HEAD_BYTES and head[0] == TLS_HANDSHAKE:
        size = min(int.from_bytes(head[3:]), RECORD_BYTES_MAX)
        await _first_bytes(client, RECORD_HEAD_BYTES + size)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


async def _first_bytes(client: socket.socket, count: int) -> bytes:
    """They stay in the socket. Fewer come back where the client has closed its side."""
    with suppress(BlockingIOError):
        received = client.recv(count, socket.MSG_PEEK)
        if len(received) == count:
            return received
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(client, _wake, readable)
    try:
        await readable
    finally:
        loop.remove_reader(client)
    received = client.recv(count, socket.MSG_PEEK)
    if not received:
        raise ConnectionResetError("the client left before it said anything")
    return received


def _wake(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it took longer than {TIMEOUT_S:.0f} s"
    text = str(error)
    if "HTTP_REQUEST" in text:
        return "the client speaks HTTP"
    if "WRONG_VERSION_NUMBER" in text or "UNKNOWN_PROTOCOL" in text:
        return "the client does not speak TLS; is it set to security.protocol=PLAINTEXT?"
    if "UNKNOWN_CA" in text or "CERTIFICATE_UNKNOWN" in text:
        return "the client does not trust our certificate"
    return text or type(error).__name__
