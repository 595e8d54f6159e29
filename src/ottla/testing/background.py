"""An event loop in a thread of its own, and how others call into it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    def __init__(self, name: str) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = 60) -> T:
        """From any other thread; the result, or what it raised."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def call(self, function: Callable[[], T]) -> T:
        async def called() -> T:
            return function()

        return self.run(called())

    @property
    def is_here(self) -> bool:
        """Whether the caller is on the loop itself, where waiting for it would never end."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Nothing is left: no task, no thread, no handle."""
        self.run(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
