"""A thread for delivery callbacks: a callback may send, and wait for room, while the sender goes on."""

import queue
import threading
from collections.abc import Callable

Call = Callable[[], object]


class Callbacks:
    """Runs calls in the order they were submitted. The thread starts with the first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def submit(self, call: Call) -> None:
        """Only the engine's thread submits, so two threads never start."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"ottla-{self._name}", daemon=True)
            self._thread.start()
        self._calls.put(call)

    def close(self, timeout_s: float | None) -> None:
        """Waits until every submitted call has run, `timeout_s` at most."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
