"""Waiting for what a test expects: looked at whenever the broker did something, not every so often."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_ANYWAY_S = 0.05  # conditions may depend on things outside the broker


class NotInTime(AssertionError):
    """What was waited for did not happen."""


class News:
    """The broker reports everything it does; each report makes the waiting test look again."""

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
                count_before = self._count
                if value := condition():
                    return value
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise NotInTime(
                        f"{what or 'the condition'} did not come true in {timeout_s:g} s{explain()}"
                    )
                with self._changed:
                    if self._count == count_before:
                        self._changed.wait(min(remaining, LOOK_ANYWAY_S))
        finally:
            with self._changed:
                self._waiting -= 1
