"""Jobs of a broker in memory: its disk never waits, so they run on the loop; unless a test wants it slow."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class LoopJobs:
    def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: Callable[[], float]) -> None:
        self._loop, self._delay_s = loop, delay_s
        self._closed = False

    def submit(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        delay_s = self._delay_s()
        if delay_s > 0:
            self._loop.call_later(delay_s, self._run, job, done)
        else:
            self._loop.call_soon(self._run, job, done)

    def _run(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        if self._closed:
            return
        try:
            result: T | Exception = job()
        except Exception as error:
            result = error
        done(result)

    def close(self) -> None:
        self._closed = True
