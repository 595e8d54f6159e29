"""The blocking shell: an event loop in a thread of its own, and callers that wait for what runs on it."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.errors import IllegalState

T = TypeVar("T")
_ENGINES: "weakref.WeakSet[Engine]" = weakref.WeakSet()


class Engine:
    """Starts with the first call, so that a client that is never used costs nothing.

    `on_fork(error)` is called in a forked child, where the engine's thread does not exist: the client belongs to
    the parent, and every use of it in the child is that error.
    """

    def __init__(
        self,
        name: str,
        on_fork: Callable[[Exception], object] | None = None,
        *,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self._name, self._new_loop = name, new_loop
        self._on_fork = on_fork
        self._forked: IllegalState | None = None
        _ENGINES.add(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the loop and waits for it. Ctrl-C cancels it."""
        try:
            loop = self._started()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, call: Callable[..., object], *arguments: Any) -> None:
        """Has `call` run on the loop; does not wait."""
        self._started().call_soon_threadsafe(call, *arguments)

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_forked(self) -> bool:
        return self._forked is not None

    def ensure_usable(self) -> None:
        """Raises if this process is a fork of the one that made the client."""
        if self._forked is not None:
            raise self._forked

    def after_fork(self) -> None:
        self._forked = IllegalState(
            f"this {self._name} belongs to the process that made it and does not work after fork(): "
            f"make a new {self._name} in the child process"
        )
        if self._on_fork is not None:
            self._on_fork(self._forked)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        self.ensure_usable()
        with self._lock:
            if self._closed:
                raise IllegalState(f"the {self._name} is closed")
            if self._loop is None:
                self._loop = self._new_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=f"ottla-{self._name}", daemon=True
                )
                self._thread.start()
            return self._loop


def quick_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one: what a turn of the loop writes to a connection leaves with one system call."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _after_fork() -> None:
    for engine in list(_ENGINES):
        engine.after_fork()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(asyncio.sleep(0))  # transports that were closed last say good-bye
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
