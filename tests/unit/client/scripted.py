"""A broker that says what a test wants: real sockets, answers by request class, losses at any byte."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any, Self

from ottla.wire import codec
from ottla.wire.messages import APIS
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.schema import Message

Answer = Callable[[Any], Message]


def api_versions() -> ApiVersionsResponse:
    keys = [
        ApiVersion(api_key=api.key, min_version=api.version_min, max_version=api.version_max)
        for api in APIS.values()
    ]
    return ApiVersionsResponse(api_keys=keys)


class ScriptedBroker:
    """`answers` maps request class names to functions; `cut_after` so many bytes the connection ends."""

    def __init__(self, answers: dict[str, Answer] | None = None, cut_after: int | None = None) -> None:
        self.answers: dict[str, Answer] = {"ApiVersionsRequest": lambda _: api_versions(), **(answers or {})}
        self.cut_after = cut_after
        self.requests: list[tuple[str, int]] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._served: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        for task in self._served:
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.cut_after
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            out = self._answer(await reader.readexactly(size))
            if left is not None:
                out, left = out[:left], left - len(out)
            writer.write(out)
            await writer.drain()
            if left is not None and left <= 0:
                return

    def _answer(self, frame: bytes) -> bytes:
        key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        api = APIS[key]
        position = 10 + max(client, 0)
        if version >= api.flexible_from:
            position += 1
        request, _ = codec.read(api.request(), version, frame, position)
        self.requests.append((type(request).__name__, version))
        response = self.answers[type(request).__name__](request)
        body = struct.pack(">i", correlation_id)
        if version >= api.flexible_from and key != 18:
            body += b"\0"
        body += bytes(codec.write(response, version))
        return struct.pack(">i", len(body)) + body
