"""Subscriptions by pattern: RE2, whose time is linear in the input, so that no pattern stalls the broker."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from ottla.errors import InvalidRegularExpression

MEMORY_BYTES = 1 << 20  # for a compiled pattern; more is refused


def check(pattern: str, length_max: int) -> None:
    if len(pattern) > length_max:
        raise InvalidRegularExpression(f"The regular expression has more than {length_max} characters.")
    _compiled(pattern)


def resolve(pattern: str, names: Iterable[str]) -> tuple[str, ...]:
    """The topics whose whole name fits."""
    compiled = _compiled(pattern)
    return tuple(sorted(name for name in names if compiled.fullmatch(name)))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]  # few groups use patterns, and every start would pay

    options = re2.Options()
    options.max_mem = MEMORY_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error.args[0]
        raise InvalidRegularExpression(
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
        ) from error
