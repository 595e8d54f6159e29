"""One connection to one broker: opened, negotiated, authenticated; requests in flight; lost cleanly."""

import asyncio
import ssl
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any, TypeVar

from ottla.client.core.dialogue import Dialogue, Frames, check
from ottla.client.errors import ConnectionLost, WrongProtocol
from ottla.client.loop import security
from ottla.client.loop.handshake import closed_early, is_tls_record, refusal, tls_port
from ottla.client.settings import Settings
from ottla.errors import OttlaError, SaslAuthenticationFailed, UnsupportedVersion
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.schema import Message, Request

T = TypeVar("T")


class Connection(asyncio.BufferedProtocol):
    """Requests may overlap; each answer finds its request by id. After a loss everything in flight fails."""

    def __init__(self, name: str, settings: Settings, software: tuple[str, str] | None = None) -> None:
        self.name = name
        self._software = software or ("ottla", _our_version())
        self.dialogue = Dialogue(settings.client_id)
        self._settings = settings
        self._frames = Frames(settings.receive_message_max_bytes)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._transport: asyncio.Transport | None = None
        self._lost: Exception | None = None
        self._throttled_until = 0.0  # on the loop's clock: the broker does not read our requests before
        self._writable = asyncio.Event()
        self._writable.set()

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        settings: Settings,
        software: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> "Connection":
        """Connects, learns what the broker serves, authenticates. Fails as `ConnectionLost` or for good.
        `software` is the name and version that the broker is told; `tls` stands for what the settings say."""
        loop = asyncio.get_running_loop()
        name = f"{host}:{port}"
        context = tls or security.tls_context(settings)
        try:
            async with asyncio.timeout(settings.socket_connection_setup_timeout_ms / 1000):
                _, connection = await loop.create_connection(
                    lambda: cls(name, settings, software), host, port, ssl=context
                )
                try:
                    await connection._begin()
                except BaseException:
                    connection.close()
                    raise
        except OSError as error:  # TimeoutError and TLS failures are OSErrors too
            raise refusal((host, port), settings, error) from error
        return connection

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._lost is None

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    async def ask(
        self,
        request: Request[T],
        *,
        at_least: int = 0,
        at_most: int = 32767,
        timeout_ms: int | None = None,
    ) -> T:
        """The answer to a request in the newest form that both sides know."""
        version = self.dialogue.version_for(type(request), at_least, at_most)
        await self._writable.wait()
        return await self.send(request, version, timeout_ms=timeout_ms)

    def send(
        self, request: Request[T], version: int, *, timeout_ms: int | None = None
    ) -> "asyncio.Future[T]":
        """Sends at once, in call order. A connection that misses an answer is given up: its order is lost."""
        self._ensure_open()
        correlation_id, data = self.dialogue.request(request, version)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting[correlation_id] = future
        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        self._watch(correlation_id, future, type(request).__name__, limit_ms)
        self._transport.write(data)  # type: ignore[union-attr]
        return future

    def tell(self, request: Message, version: int) -> None:
        """Sends what is never answered (a produce with acks=0)."""
        self._ensure_open()
        self._transport.write(self.dialogue.request(request, version, answered=False)[1])  # type: ignore[union-attr]

    async def drained(self) -> None:
        """Waits until the socket takes more."""
        await self._writable.wait()

    def close(self, error: Exception | None = None) -> None:
        self._fail(error or ConnectionLost(f"the connection to {self.name} was closed"))
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio's side ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        if self._lost is not None:
            return
        try:
            if not self.dialogue.versions and is_tls_record(self._frames.first_bytes(nbytes)):
                raise WrongProtocol(tls_port(self.name))
            for frame in self._frames.received(nbytes):
                correlation_id, response = self.dialogue.response(frame)
                future = self._waiting.pop(correlation_id)
                self._on_throttle(getattr(response, "throttle_time_ms", 0))
                if not future.done():
                    future.set_result(response)
        except ConnectionLost as error:
            self.close(error)
        except OttlaError as error:
            self.close(ConnectionLost(f"{self.name} sent something that is no answer: {error}"))

    def eof_received(self) -> None:
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.dialogue.versions:
            self._fail(ConnectionLost(f"{self.name} closed the connection" + (f": {exc}" if exc else "")))
        else:
            self._fail(WrongProtocol(closed_early(self.name, self._settings.security_protocol)))

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # -- the beginning -----------------------------------------------------------------------------

    async def _begin(self) -> None:
        self.dialogue.learn(await self._api_versions())
        if self._settings.security_protocol.startswith("SASL"):
            await self._authenticate()

    async def _api_versions(self) -> ApiVersionsResponse:
        """Our newest form first; a broker that does not know it tells its own newest."""
        name, version = self._software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
        answer: ApiVersionsResponse = await self.send(request, ApiVersionsRequest.VERSIONS[1])
        if answer.error_code == UnsupportedVersion.code:
            theirs = max((a.max_version for a in answer.api_keys if a.api_key == request.API_KEY), default=0)
            answer = await self.send(request, min(theirs, ApiVersionsRequest.VERSIONS[1]))
        check(answer)
        return answer

    async def _authenticate(self) -> None:
        from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
        from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

        mechanism = self._settings.sasl_mechanism
        greeted = await self.ask(SaslHandshakeRequest(mechanism=mechanism), at_least=1)
        if greeted.error_code:
            raise SaslAuthenticationFailed(f"{self.name} {_lacks(mechanism, greeted.mechanisms)}")
        exchange = security.exchange(self._settings, self.name.rpartition(":")[0])
        message = await self._advance(exchange, None)
        while message is not None:
            answer = await self.ask(SaslAuthenticateRequest(auth_bytes=message))
            check(answer)
            message = await self._advance(exchange, answer.auth_bytes)

    async def _advance(self, exchange: security.Exchange, answer: bytes | None) -> bytes | None:
        if self._settings.sasl_mechanism == "GSSAPI":  # asks the KDC, and waits for it
            return await asyncio.to_thread(security.advance, exchange, answer)
        return security.advance(exchange, answer)

    def _watch(
        self, correlation_id: int, future: "asyncio.Future[Any]", request_name: str, limit_ms: int
    ) -> None:
        """Gives the connection up if the answer does not come in time; time in which a quota holds us up is not
        counted."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def late() -> None:
            nonlocal timer
            due = self._throttled_until + limit_ms / 1000
            if loop.time() < due:
                timer = loop.call_at(due, late)
            elif correlation_id in self._waiting:
                self.close(ConnectionLost(f"{self.name} did not answer {request_name} in {limit_ms} ms"))

        timer = loop.call_later(limit_ms / 1000, late)
        future.add_done_callback(lambda _: timer.cancel())

    def _on_throttle(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._throttled_until = asyncio.get_running_loop().time() + throttle_ms / 1000

    def _fail(self, error: Exception) -> None:
        if self._lost is not None:
            return
        self._lost = error
        self._writable.set()
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)

    def _ensure_open(self) -> None:
        if self._lost is not None:
            raise self._lost
        if self._transport is None:
            raise ConnectionLost(f"not connected to {self.name}")


@cache
def _our_version() -> str:
    """Of the installed package; from a file that is not read again for each connection."""
    try:
        return package_version("ottla")
    except PackageNotFoundError:
        return "0"


def _lacks(mechanism: str, offered: Sequence[str]) -> str:
    if offered:
        return f"does not offer {mechanism}, only {', '.join(offered)}: set sasl.mechanism to one of them"
    return (
        f"asks nobody to log in, and sasl.mechanism is {mechanism}: use the port of its SASL listener, "
        "or security.protocol=PLAINTEXT (SSL if it speaks TLS)"
    )
