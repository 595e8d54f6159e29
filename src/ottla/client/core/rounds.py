"""A task that looks for work when it is woken or its pause is over, and the tasks that it has started."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from ottla.client.core.runtime import Runtime, Task

log = logging.getLogger(__name__)


class Rounds(ABC):
    def __init__(self, runtime: Runtime, name: str, failure_pause_s: float) -> None:
        self._runtime, self._name, self._failure_pause_s = runtime, name, failure_pause_s
        self._wake = runtime.event()
        self._tasks: set[Task[None]] = set()

    @abstractmethod
    def _pump(self) -> float:
        """Starts what there is to do; after how many seconds it wants to look again unless it is woken."""

    async def run(self) -> None:
        while True:
            self._wake.clear()
            pause_s = self._try_to_pump()
            try:
                async with self._runtime.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _try_to_pump(self) -> float:
        try:
            return self._pump()
        except Exception:
            log.exception("the %s stumbled", self._name)
            return self._failure_pause_s

    async def stop(self) -> None:
        """Gives up all that is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await self._runtime.gather(tasks)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._runtime.spawn(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
