"""One user at a time: a client that must not be shared says so at once, in clear words."""

import threading
from contextvars import ContextVar
from types import TracebackType

from ottla.client.errors import IllegalState

# Who calls, where that is not a thread: `ottla.aio` runs one caller's work on several.
CALLER: ContextVar[object | None] = ContextVar("ottla-caller", default=None)


class Guard:
    """The same user may come in again: a rebalance listener that commits does, from inside `poll`."""

    __slots__ = ("_client", "_depth", "_lock", "_owner", "_refusal")

    def __init__(self, client: str) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._owner: object | None = None
        self._depth = 0
        self._refusal: Exception | None = None

    def refuse(self, error: Exception) -> None:
        """Nobody may use the client any more; each who tries gets `error`."""
        self._refusal = error

    def __enter__(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        me = CALLER.get() or threading.get_ident()
        if self._owner != me:
            if not self._lock.acquire(blocking=False):
                raise IllegalState(
                    f"another thread or task is using this {self._client}; give each one of its own"
                )
            self._owner = me
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._lock.release()
