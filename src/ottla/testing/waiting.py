"""Waiting for what a test expects: looked at whenever the broker did something, not every so often."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_ANYWAY_S = 0.05  # conditions may look at things that the broker does not hear of


class NotInTime(AssertionError):
    """What was waited for did not happen."""


class News:
    """The broker tells of everything it does; whoever waits looks again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._waiting = 0

    def tell(self) -> None:
        self._count += 1
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def wait_until(
        self, condition: Callable[[], T], timeout_s: float, what: str, explain: Callable[[], str]
    ) -> T:
        """The first true value of the condition."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._waiting += 1
        try:
            while True:
                seen = self._count
                if value := condition():
                    return value
                left = deadline - time.monotonic()
                if left <= 0:
                    raise NotInTime(
                        f"{what or 'the condition'} did not come true in {timeout_s:g} s{explain()}"
                    )
                with self._changed:
                    if self._count == seen:
                        self._changed.wait(min(left, LOOK_ANYWAY_S))
        finally:
            with self._changed:
                self._waiting -= 1
