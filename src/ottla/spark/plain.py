"""Errors of ours reach the user as a sentence: their text says what to do, a stack says nothing more."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from ottla.errors import OttlaError

Method = TypeVar("Method", bound=Callable[..., Any])
_IN_A_WORKER = ("PYTHON_UNIX_DOMAIN_ENABLED", "PYTHON_WORKER_FACTORY_SECRET")  # set by Spark's JVM

_OURS = re.compile(r"\bottla(?:\.\w+)+: (.+?)(?=\s+SQLSTATE|\n===|\n\tat |\s*$)", re.DOTALL)
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")


_NO_UPDATES = "ottla does not support Update mode"


def reason(error: BaseException) -> str:
    """What is wrong and what to do, out of all that Spark says when a query has failed."""
    if _NO_UPDATES in str(error):  # Spark's own words: it asks the sink nothing before
        return f"{_NO_UPDATES}: write updates with ottla.spark.write_update(frame, options), exactly once"
    found = _OURS.search(str(error))
    if found:
        return found[1].strip()
    # Behind Spark's own words comes the stack of a Python worker, whose last line says what was raised.
    first, _, rest = str(error).partition("\n")
    raised = [line for line in rest.splitlines() if _RAISED.match(line)]
    return f"{first} {raised[-1]}" if raised else first


@contextmanager
def plainly() -> Iterator[None]:
    """PySpark leaves the stack out of what it tells the JVM if the environment says so. The process ends with the
    error, so that the stack of another error is not left out."""
    try:
        yield
    except OttlaError:
        if any(name in os.environ for name in _IN_A_WORKER):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def told_plainly(method: Method) -> Method:
    @wraps(method)
    def telling(*arguments: Any, **named: Any) -> Any:
        with plainly():
            return method(*arguments, **named)

    return telling  # type: ignore[return-value]
