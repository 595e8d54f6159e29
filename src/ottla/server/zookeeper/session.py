"""A session with ZooKeeper: kept alive over lost connections, until the ensemble says that it is over.

It lives on the broker's own event loop: a loop that hangs sends no pings and loses its session, as it must.
Nothing is queued while there is no connection: a write that was given up must not arrive later.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import ssl
from collections import deque
from collections.abc import Callable

from ottla.frozen import frozen
from ottla.server.followed import FollowedContext
from ottla.server.zookeeper import digest_md5, protocol
from ottla.server.zookeeper.digest_md5 import LoginRefused
from ottla.server.zookeeper.protocol import (
    AUTH_XID,
    EVENT_XID,
    PING_XID,
    Code,
    Disconnected,
    Node,
    Op,
    Part,
    Reader,
    ZooKeeperError,
)

log = logging.getLogger("ottla.zookeeper")

SASL = "sasl"
SERVICE, HOST = "zookeeper", "zk-sasl-md5"  # as every ZooKeeper server calls itself in DIGEST-MD5
FRAME_BYTES_MAX = 64 << 20
RETRY_S = 0.05
RETRY_S_MAX = 1.0
READ_S = 0.05


@frozen
class Options:
    """`hosts` as (host, port); `credentials` as (scheme, secret): ("digest" or "sasl", b"user:password")."""

    HIDDEN = ("credentials",)

    hosts: tuple[tuple[str, int], ...]
    session_timeout_ms: int = 6000
    credentials: tuple[str, bytes] | None = None
    tls: ssl.SSLContext | FollowedContext | None = None

    def current_tls(self) -> ssl.SSLContext | None:
        return self.tls.current() if isinstance(self.tls, FollowedContext) else self.tls


class Session:
    """`on_connected` after every connection, `on_event` for what a watch saw, `on_expired` at the end."""

    def __init__(
        self,
        options: Options,
        *,
        on_connected: Callable[[], None],
        on_event: Callable[[str], None],
        on_expired: Callable[[], None],
    ) -> None:
        self._options = options
        self._on_connected, self._on_event, self._on_expired = on_connected, on_event, on_expired
        self.session_id = 0
        self.timeout_ms = options.session_timeout_ms
        self._password = b""
        self._last_zxid = 0
        self._xid = 0
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: deque[tuple[int, asyncio.Future[Reader]]] = deque()
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        self._asked_at: float | None = None  # since when a ping waits for its answer
        self._task = self._loop.create_task(self._run())

    @property
    def is_connected(self) -> bool:
        return self._writer is not None

    # -- requests --------------------------------------------------------------------------------

    async def call(self, part: Part) -> Reader:
        """The reply's body; ZooKeeperError when it is refused, Disconnected when the outcome is unknown."""
        if self._writer is None:
            raise Disconnected("not connected to ZooKeeper")
        self._xid = (self._xid + 1) & 0x7FFFFFFF
        future: asyncio.Future[Reader] = self._loop.create_future()
        self._waiting.append((self._xid, future))
        self._writer.write(protocol.request(self._xid, part))
        return await future

    async def get(self, path: str) -> Node | None:
        """None when there is no such node."""
        try:
            return (await self.call(protocol.get(path))).node()
        except ZooKeeperError as error:
            if error.code == Code.NO_NODE:
                return None
            raise

    async def get_many(self, paths: list[str]) -> list[Node | None]:
        """In one round trip."""
        reader = await self.call(protocol.multi([protocol.get(path) for path in paths], Op.MULTI_READ))
        return [part if isinstance(part, Node) else None for part in reader.parts()]

    async def children(self, path: str) -> list[str]:
        return (await self.call(protocol.children(path))).names()

    async def multi(self, *parts: Part) -> None:
        """All or nothing; a ZooKeeperError tells the code of each part."""
        results = (await self.call(protocol.multi(list(parts)))).parts()
        codes = tuple(result if isinstance(result, int) else 0 for result in results)
        if any(codes):
            raise ZooKeeperError(next(c for c in codes if c not in (0, Code.INCONSISTENT)), codes)

    async def sync(self, path: str) -> None:
        """What others have written before is seen by the next read."""
        await self.call(protocol.sync(path))

    # -- life ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the session at once: what is ephemeral is gone."""
        self._closed = True
        self._task.cancel()
        if self._writer is not None:
            self._writer.write(protocol.request(0, Part(Op.CLOSE, b"")))
            self._writer.close()
            self._writer = None
        self._fail_waiting()

    def abandon(self) -> None:
        """As if the process had died: the ensemble finds out by itself."""
        self._closed = True
        self._task.cancel()
        self._drop()

    async def _run(self) -> None:
        hosts = list(self._options.hosts)
        random.shuffle(hosts)
        pause_s = RETRY_S
        while not self._closed:
            host = hosts[0]
            hosts = [*hosts[1:], host]
            try:
                if not await self._serve(*host):
                    self._closed = True
                    self._on_expired()
                    return
                pause_s = RETRY_S
            except LoginRefused as error:
                log.error("ZooKeeper at %s:%d refuses our login: %s", *host, error)
            except (OSError, asyncio.IncompleteReadError, TimeoutError, Disconnected) as error:
                log.debug("%s:%d: %s", *host, error)
            finally:
                self._drop()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_S_MAX)

    async def _serve(self, host: str, port: int) -> bool:
        """One connection, until it breaks; False when the session is over."""
        limit_s = max(self.timeout_ms / 3000, 0.5)
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(host, port, ssl=self._options.current_tls())
        pinger: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(limit_s):
                writer.write(
                    protocol.connect(
                        self._last_zxid, self._options.session_timeout_ms, self.session_id, self._password
                    )
                )
                granted = Reader(await _frame(reader)).connected()
            if granted.timeout_ms <= 0 or not granted.session_id:
                return False
            self.session_id, self.timeout_ms, self._password = (
                granted.session_id,
                granted.timeout_ms,
                granted.password,
            )
            async with asyncio.timeout(limit_s):
                await self._authenticate(reader, writer)
            self._writer = writer
            self._heard()
            pinger = self._loop.create_task(self._ping(writer))
            self._on_connected()
            while True:
                self._on_frame(Reader(await _frame(reader)))
        finally:
            if pinger is not None:
                pinger.cancel()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Before anything else is sent: a server may take nobody who has not logged in."""
        if self._options.credentials is None:
            return
        scheme, secret = self._options.credentials
        if scheme != SASL:
            writer.write(protocol.auth(scheme, secret))
            return
        user, _, password = secret.decode().partition(":")
        exchange = digest_md5.exchange(user, password, secrets.token_hex(16), SERVICE, HOST)
        token = next(exchange)
        try:
            while True:
                token = exchange.send(await self._sasl(reader, writer, token))
        except StopIteration:
            return

    async def _sasl(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes) -> bytes:
        self._xid = (self._xid + 1) & 0x7FFFFFFF
        writer.write(protocol.request(self._xid, protocol.sasl(token)))
        reply = Reader(await _frame(reader))
        _, _, error = reply.reply()
        if error:
            raise LoginRefused("wrong user or password")
        return reply.buffer()

    async def _ping(self, writer: asyncio.StreamWriter) -> None:
        """A third of the time-out between pings. When one was not answered until the next, another server is
        tried. Silence alone proves nothing: after a turn of the loop that took long, we were the silent ones."""
        self._asked_at = None
        while True:
            await asyncio.sleep(self.timeout_ms / 3000)
            writer.write(protocol.PING)  # before anything else: it keeps the session
            if self._asked_at is None:
                self._asked_at = self._loop.time()
            elif self._loop.time() - self._asked_at >= self.timeout_ms / 3000:
                await asyncio.sleep(READ_S)  # the answer may be there, not read yet
                if self._asked_at is not None:
                    writer.transport.abort()
                    return

    def _heard(self) -> None:
        self.heard_at = self._loop.time()
        self._asked_at = None

    def _on_frame(self, reader: Reader) -> None:
        self._heard()
        xid, zxid, error = reader.reply()
        if zxid > 0:
            self._last_zxid = zxid
        if xid == EVENT_XID:
            _, path = reader.event()
            self._on_event(path)
        elif xid == AUTH_XID:
            if error:
                raise Disconnected("ZooKeeper does not accept the credentials")
        elif xid != PING_XID:
            expected, future = self._waiting.popleft()
            if expected != xid:
                raise Disconnected(f"a reply to request {xid} where {expected} was due")
            if future.done():
                return
            if error:
                future.set_exception(ZooKeeperError(error))
            else:
                future.set_result(reader)

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(Disconnected("the connection to ZooKeeper broke"))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(4), "big", signed=True)
    if not 0 <= length <= FRAME_BYTES_MAX:
        raise Disconnected(f"a frame of {length} bytes")
    return await reader.readexactly(length)
