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

_OURS = re.compile(r"\b(ottla(?:\.\w+)+): (.+?)(?=\s+SQLSTATE|\n\tat |\s*$)", re.DOTALL)
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b")
_STACKS = ("\n\nJVM stacktrace:", "Traceback (most recent call last)")
_BEHIND = "\nSpark's words: "

WAY_OF_UPDATES = "write updates with ottla.spark.write_update(frame, options), exactly once"
# Spark's own words, said before it asks the sink anything; then ours.
_SPARKS = {
    "ottla does not support Update mode": f"ottla does not support Update mode: {WAY_OF_UPDATES}",
    'The data source "ottla" cannot be written in the': 'topics are only appended to: write with mode("append")',
}


def reason(error: BaseException) -> str:
    """What is wrong and what to do, out of all that Spark says when a query has failed."""
    text = str(error)
    sentence, behind, _ = (_reordered(text) or text).partition(_BEHIND)
    if behind:
        return sentence
    # Behind Spark's own words comes the stack of a Python worker, whose last line says what was raised.
    first, _, rest = text.partition("\n")
    raised = [line for line in rest.splitlines() if _RAISED.match(line)]
    return f"{first} {raised[-1]}" if raised else first


def sentence_first(text: str) -> str:
    """Of an error of ours: the sentence, then what Spark says before it, without the offsets and the plan, which Spark
    has logged. Other errors stay as they are, and so do stacks, for those who asked for them."""
    if any(stack in text for stack in _STACKS):
        return text
    return _reordered(text) or text


def _reordered(text: str) -> str | None:
    spoken = text.partition("\n===")[0]  # then come Spark's details of a stream
    if _BEHIND in spoken:
        return None
    for words, sentence in _SPARKS.items():
        if words in spoken:
            return f"{sentence}{_BEHIND}{spoken.splitlines()[0]}"
    match = _OURS.search(spoken)
    if match is None:
        return None
    first = spoken[: match.start()].partition("\n")[0]
    return f"{match[2].strip()}{_BEHIND}{first}{match[1]}"


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
