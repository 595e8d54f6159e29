"""The core's runtime on whichever asyncio loop runs at the moment."""

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from ottla.client.core.runtime import Connection, Event, Task
from ottla.client.settings import Settings

T = TypeVar("T")
SILENT_S = 2  # brokers answer in milliseconds


class LoopRuntime:
    """Holds nothing, so clients and loops may share one. Time is asyncio's own: the monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def date(self) -> float:
        return time.time()

    def chance(self) -> float:
        return random.random()

    def token(self) -> bytes:
        return os.urandom(16)

    def event(self) -> Event:
        return asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, T]) -> Task[T]:
        return asyncio.ensure_future(work)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    async def shield(self, task: Task[T]) -> T:
        return await asyncio.shield(task)

    async def gather(self, works: Iterable[Awaitable[T]]) -> list[T | BaseException]:
        return await asyncio.gather(*works, return_exceptions=True)

    async def wait(self, tasks: Iterable[Task[Any]], timeout_s: float | None = None) -> None:
        await asyncio.wait(set(tasks), timeout=timeout_s)  # type: ignore[type-var]

    async def connect(
        self, host: str, port: int, settings: Settings, on_silence: Callable[[], None]
    ) -> Connection:
        from ottla.client.loop.connection import Connection as Opened

        waiting = asyncio.get_running_loop().call_later(SILENT_S, on_silence)
        try:
            return await Opened.open(host, port, settings)
        finally:
            waiting.cancel()


LOOP = LoopRuntime()
