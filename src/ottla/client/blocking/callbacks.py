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
        self._lock = threading.Lock()
        self._closed = False

    @property
    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def submit(self, call: Call) -> None:
        """After the close there is nobody else to run it: the caller does."""
        with self._lock:
            if not self._closed:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=f"ottla-{self._name}", daemon=True)
                    self._thread.start()
                self._calls.put(call)
                return
        call()

    def close(self, timeout_s: float | None) -> None:
        """Waits until every submitted call has run, `timeout_s` at most."""
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
