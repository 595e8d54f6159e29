"""What the core asks of the world around it: time, tasks, events, connections. Nothing else in it waits."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, TypeVar

from ottla.client.core.dialogue import Dialogue
from ottla.client.settings import Settings
from ottla.wire.schema import Message, Request

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Event(Protocol):
    def set(self) -> object: ...
    def clear(self) -> object: ...
    def is_set(self) -> bool: ...
    async def wait(self) -> object: ...


class Task(Protocol[T_co]):
    """Work under way, or an answer that is awaited."""

    def cancel(self) -> object: ...
    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def add_done_callback(self, call: Callable[[Any], object], /) -> object: ...
    def __await__(self) -> Generator[Any, None, T_co]: ...


class Connection(Protocol):
    """Requests may overlap; each answer finds its request. After a loss everything in flight fails."""

    name: str
    dialogue: Dialogue

    @property
    def is_open(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...
    async def ask(
        self, request: Request[T], *, at_least: int = 0, at_most: int = 32767, timeout_ms: int | None = None
    ) -> T: ...
    def send(self, request: Request[T], version: int, *, timeout_ms: int | None = None) -> Task[T]: ...
    def tell(self, request: Message, version: int) -> None: ...
    def close(self, error: Exception | None = None) -> None: ...


class Runtime(Protocol):
    def now(self) -> float:
        """Seconds of a clock that only goes forward. May be asked from any thread."""
        ...

    def date(self) -> float:
        """Seconds since 1970, for records' timestamps."""
        ...

    def chance(self) -> float:
        """From 0 to 1."""
        ...

    def token(self) -> bytes:
        """16 bytes that nobody else has."""
        ...

    def event(self) -> Event: ...
    def spawn(self, work: Coroutine[Any, Any, T]) -> Task[T]: ...
    async def sleep(self, seconds: float) -> None: ...
    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Cancels what is inside and raises `TimeoutError`."""
        ...

    async def shield(self, task: Task[T]) -> T:
        """Waits; who gives up waiting does not cancel the task."""
        ...

    async def gather(self, works: Iterable[Awaitable[T]]) -> list[T | BaseException]:
        """All at once; failures are results."""
        ...

    async def wait(self, tasks: Iterable[Task[Any]], timeout_s: float | None = None) -> None:
        """Until all are done, or the time is up."""
        ...

    async def connect(
        self, host: str, port: int, settings: Settings, on_silence: Callable[[], None]
    ) -> Connection:
        """`on_silence` is called once if the broker takes long to answer; the time-out is longer."""
        ...


class Shell(Protocol):
    """Where the caller of a client is: on a thread of its own, or on the loop where the core's tasks run."""

    def home(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Runs `work` where the core's tasks run."""
        ...

    def whole(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Runs `work` here; a caller that gives up does not leave it half done."""
        ...


class Monitor(Protocol):
    """Guards what several threads share; `threading.Condition` is one."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...
    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T: ...
    def notify_all(self) -> object: ...


class Alone:
    """The monitor of what one loop alone uses: nobody to keep out, nobody to wait for."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        return predicate()

    def notify_all(self) -> None: ...
