"""Runs the core's consumer on the caller's thread: only what it asks the engine for changes threads."""

from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ottla.client.blocking.engine import Engine
from ottla.client.errors import IllegalState

T = TypeVar("T")


class _OnEngine(Generic[T]):
    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
        return (yield self._work)  # type: ignore[no-any-return]


class CallersThread:
    """The shell of a client whose callers have threads of their own: listeners and decoding stay there."""

    def home(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return _OnEngine(work)

    def whole(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return work  # a thread is not cancelled


def drive(engine: Engine, work: Coroutine[Any, Any, T]) -> T:
    """`work` on this thread, and on the engine's what it awaits there."""
    try:
        wanted = work.send(None)
        while True:
            try:
                if not isinstance(wanted, Coroutine):
                    raise IllegalState(
                        "a coroutine was given where this client takes functions; see ottla.aio"
                    )
                result = engine.run(wanted)
            except BaseException as error:
                wanted = work.throw(error)
            else:
                wanted = work.send(result)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
