"""The server's half of SASL: an exchange takes the client's bytes and gives its own, until it knows who it is."""

from collections.abc import Generator

from ottla.errors import SaslAuthenticationFailed
from ottla.frozen import frozen

REFUSED = "Authentication failed: Invalid username or password"


@frozen
class Authenticated:
    """Who the client is. `expires_ms` is when its credential ends, on the wall clock; None if it does not."""

    principal: str
    last_message: bytes = b""
    expires_ms: int | None = None
    token_id: str | None = None  # of the delegation token that it logged in with


# Is sent the client's messages; yields the server's; returns who it is, or raises SaslAuthenticationFailed.
Exchange = Generator[bytes, bytes, Authenticated]


def user_principal(name: str) -> str:
    return f"User:{name}"


def refused(reason: str = REFUSED) -> SaslAuthenticationFailed:
    """The client is told no more than this: not whether the user exists."""
    return SaslAuthenticationFailed(reason)
