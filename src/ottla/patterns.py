"""Regular expressions that clients send: compiled by RE2, whose time is linear in the text, with bounded memory."""

from typing import Protocol

MEMORY_BYTES = 1 << 16


class BadPattern(ValueError):
    """Not a regular expression of RE2, or one that takes too much memory."""


class Pattern(Protocol):
    """What RE2 makes of a regular expression."""

    def fullmatch(self, text: str, /) -> object | None: ...

    def search(self, text: str, /) -> object | None: ...


def compile_pattern(pattern: str, memory_bytes: int = MEMORY_BYTES) -> Pattern:
    import re2  # type: ignore[import-untyped]  # slow to import, and most brokers meet no pattern

    options = re2.Options()
    options.max_mem = memory_bytes
    options.log_errors = False  # the client gets the error; it need not fill our log
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise BadPattern(reason.decode(errors="replace") if isinstance(reason, bytes) else reason) from error
    return compiled
