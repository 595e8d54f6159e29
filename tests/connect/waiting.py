"""Waits with a deadline that is generous on slow machines."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(look: Callable[[], Any], timeout_s: float = 120, every_s: float = 0.02) -> Any:
    """The first true answer of `look`."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"nothing within {timeout_s} s; the last answer was {found!r}"
        time.sleep(every_s)
    return found
