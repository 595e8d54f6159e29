"""The real client's runtime in the world: an asyncio loop on simulated time, connections through the weather."""

from __future__ import annotations

import asyncio
from asyncio import events
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.broker.routes import FEATURES, ROUTES
from ottla.client.core.dialogue import Dialogue
from ottla.client.core.runtime import Connection as ClientConnection
from ottla.client.core.runtime import Task
from ottla.client.errors import ConnectionLost
from ottla.client.loop.runtime import LoopRuntime
from ottla.client.settings import Settings
from ottla.testing.world.network import LOST, Connection
from ottla.testing.world.time import Event, Time
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.testing.world.world import World

CANCELLATIONS_MAX = 100  # a client that is cancelled closes itself, and each of its waits is cancelled too
CALLBACKS_MAX = 1_000


class SimulatedLoop:
    """Callbacks are events of the world: nothing runs by itself, and the same seed runs the same.

    It has the part of asyncio's loop that tasks, futures, events and timeouts use.
    """

    def __init__(self, time: Time) -> None:
        self._self: Any = self  # as asyncio's classes take it
        self._time = time
        self._ready: dict[asyncio.Handle, None] = {}  # in order
        self._timers: dict[asyncio.TimerHandle, Event] = {}
        self.failures: list[dict[str, Any]] = []

    def time(self) -> float:
        return self._time.exact_ms / 1000

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self._self, context)
        self._ready[handle] = None
        self._time.call_later(0, lambda: self._run(handle))
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self._self, context)
        self._timers[handle] = self._time.call_later(
            when * 1000 - self._time.exact_ms, lambda: self._run(handle)
        )
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._self)

    def create_task(self, coro: Any, **more: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self._self, **more)

    def run(self, call: Callable[[], Any]) -> Any:
        """`call` as if the loop were running."""
        before = events._get_running_loop()
        events._set_running_loop(self._self)
        try:
            return call()
        finally:
            events._set_running_loop(before)

    def close(self) -> None:
        """Ends every task. One that was left suspended would go on when the collector finds it: in the middle of
        anything, without a loop."""
        self._time = Time()  # the broker and the network stand still
        for handle in self._ready:
            self._time.call_later(0, partial(self._run, handle))
        for _ in range(CANCELLATIONS_MAX):
            tasks = asyncio.all_tasks(self._self)
            if not tasks:
                return
            for task in tasks:
                self.run(task.cancel)
            for _ in range(CALLBACKS_MAX):
                if not self._time.next_event():
                    break
        raise RuntimeError(f"{len(tasks)} tasks go on although they were cancelled")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        event = self._timers.pop(handle, None)
        if event is not None:
            event.cancel()

    def _run(self, handle: asyncio.Handle) -> None:
        if isinstance(handle, asyncio.TimerHandle):
            self._timers.pop(handle, None)
        else:
            del self._ready[handle]
        if not handle.cancelled():
            self.run(handle._run)


class SimulatedRuntime(LoopRuntime):
    """Time, chance and connections are the world's; tasks and events are asyncio's, on a `SimulatedLoop`."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name
        self._random = Random(world.random.random())

    def now(self) -> float:
        return self._world.time.exact_ms / 1000

    date = now

    def chance(self) -> float:
        return self._random.random()

    def token(self) -> bytes:
        return self._random.randbytes(16)

    async def connect(
        self, host: str, port: int, settings: Settings, on_silence: Callable[[], None]
    ) -> ClientConnection:
        await self.sleep(self._world.weather.latency_ms() / 1000)
        opened = self._world.connect(self._name)
        if opened is None:
            raise ConnectionLost(f"cannot connect to {host}:{port}: connection refused")
        return SimulatedConnection(opened, settings)


class SimulatedConnection:
    """What a client holds of a connection of the world."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.name = "the broker"
        self._connection = connection
        self._settings = settings
        self.in_flight = 0
        self.dialogue = Dialogue(settings.client_id)
        self.dialogue.versions = {
            key: (route.version_min, route.version_max)
            for key, route in ROUTES.items()
            if not route.between_brokers
        }
        self.dialogue.features = {name: highest for name, (_, highest) in FEATURES.items()}

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def ask(
        self, request: Message, *, at_least: int = 0, at_most: int = 32767, timeout_ms: int | None = None
    ) -> Any:
        version = self.dialogue.version_for(type(request), at_least, at_most)
        return await self.send(request, version, timeout_ms=timeout_ms)

    def send(self, request: Message, version: int, *, timeout_ms: int | None = None) -> Task[Any]:
        if not self.is_open:
            raise ConnectionLost("the connection was closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self.in_flight += 1

        def settle(answer: Any) -> None:
            self.in_flight -= 1
            timer.cancel()
            if future.done():
                return
            if answer is LOST:
                future.set_exception(ConnectionLost("the connection was lost"))
            else:
                future.set_result(answer)

        limit_ms = self._settings.request_timeout_ms if timeout_ms is None else timeout_ms
        timer = loop.call_later(limit_ms / 1000, self.close)
        self._connection.send(request, version, settle, lambda: None)
        return future

    def tell(self, request: Message, version: int) -> None:
        raise NotImplementedError("acks=0 promises nothing that a world could check")

    def close(self, error: Exception | None = None) -> None:
        self._connection.close()


def started(loop: SimulatedLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return loop.run(lambda: loop.create_task(work))  # type: ignore[no-any-return]
