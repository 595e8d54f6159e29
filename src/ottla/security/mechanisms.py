"""The server's half of SASL: an exchange takes the client's bytes and gives its own, until it knows who it is."""

from collections.abc import Callable, Generator
from typing import Any

from ottla.errors import SaslAuthenticationFailed
from ottla.frozen import frozen

REFUSED = "Authentication failed: Invalid username or password"


@frozen
class Authenticated:
    """Who the client is. `expires_ms` is when its credential ends, on the wall clock; None if it does not."""

    principal: str
    last_message: bytes | None = b""  # None: the client has the last word
    expires_ms: int | None = None
    token_id: str | None = None  # of the delegation token that it logged in with


@frozen
class Aside:
    """Work that may block: an exchange that yields it is sent what the job returned, or its exception."""

    job: Callable[[], Any]


# Is sent the client's messages; yields the server's, or work for a thread; returns who it is, or raises
# SaslAuthenticationFailed.
Exchange = Generator[bytes | Aside, Any, Authenticated]


def failure_of(error: BaseException) -> str:
    """What failed and where, without its text: that of a class of one's own may hold a password or a token."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"


def user_principal(name: str) -> str:
    return f"User:{name}"


def refused(reason: str = REFUSED) -> SaslAuthenticationFailed:
    """The client is told no more than this: not whether the user exists."""
    return SaslAuthenticationFailed(reason)
