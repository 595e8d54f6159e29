"""The one place where callbacks become awaits: handlers await a `Wait`, which a callback sets.

No event loop is needed: `Running` drives a handler from one Wait to the next. A handler that never waits is a
plain call.
"""

from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.ports import Clock

T = TypeVar("T")


class Wait(Generic[T]):
    """A value, or an error, that comes once. Later ones are ignored: a deadline and the event may race."""

    __slots__ = ("_callback", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | BaseException | None = None
        self._callback: Callable[[], None] | None = None

    def set(self, value: T | BaseException) -> None:
        if self.done:
            return
        self.done, self._value = True, value
        if self._callback is not None:
            callback, self._callback = self._callback, None
            callback()

    def on_done(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def __await__(self) -> Generator["Wait[T]", None, T]:
        if not self.done:
            yield self
        if isinstance(self._value, BaseException):
            error, self._value = self._value, RuntimeError("an error is raised to one that awaits it")
            try:
                raise error
            finally:
                # The traceback refers to this frame, and to those that hold the wait. If these referred to the
                # error, all they hold, a request's buffer for one, would wait for the collector.
                del error
        return self._value  # type: ignore[return-value]


async def pause(clock: Clock, milliseconds: int) -> None:
    wait: Wait[None] = Wait()
    timer = clock.call_later(milliseconds, lambda: wait.set(None))
    try:
        await wait
    finally:  # also when the connection is gone
        timer.cancel()


class Turn(Wait[None]):
    """Comes soon: when others have had their turn of the loop."""

    __slots__ = ()


class Ticket(Protocol):
    def cancel(self) -> None: ...


async def woken(
    clock: Clock, deadline_ms: int, listen: Callable[[Callable[[], None]], Sequence[Ticket]]
) -> bool:
    """Waits until what `listen` listens to calls back (True) or the time is up (False)."""
    wait: Wait[bool] = Wait()
    tickets = listen(lambda: wait.set(True))
    timer = clock.call_later(deadline_ms - clock.monotonic_ms(), lambda: wait.set(False))
    try:
        return await wait
    finally:  # also when the connection is gone
        timer.cancel()
        for ticket in tickets:
            ticket.cancel()


class Running:
    """A handler under way. `finished(result, error)` is called once, unless it is cancelled; `waiting(wait)` each
    time it begins to wait."""

    __slots__ = ("_cancelled", "_coroutine", "_finished", "_waiting")

    def __init__(
        self,
        coroutine: Coroutine[Wait[Any], None, Any],
        finished: Callable[[Any, BaseException | None], None],
        waiting: Callable[[Wait[Any]], None] | None = None,
    ) -> None:
        self._coroutine, self._finished, self._waiting = coroutine, finished, waiting
        self._cancelled = False

    def step(self) -> None:
        while not self._cancelled:
            try:
                wait = self._coroutine.send(None)
            except StopIteration as stop:
                self._finished(stop.value, None)
                return
            except Exception as error:
                self._finished(None, error)
                return
            if not wait.done:
                if self._waiting is not None:
                    self._waiting(wait)
                wait.on_done(self.step)
                return

    def cancel(self) -> None:
        """Cancels the handler: nobody wants its answer. Its `finally` blocks stop what it waits for."""
        self._cancelled = True
        self._finished = _nobody
        self._waiting = None
        self._coroutine.close()


def _nobody(result: object, error: BaseException | None) -> None: ...
