"""SASL PLAIN (RFC 4616): a name and a password, in one message; safe over TLS only."""

import hmac
import logging
from collections.abc import Callable, Mapping

from ottla.security.mechanisms import Aside, Authenticated, Exchange, failure_of, refused, user_principal

logger = logging.getLogger("ottla.broker")

Check = Callable[[str, str], bool]  # name and password


def plain(check: Check) -> Exchange:
    message = yield b""
    name, password = _parse(message)
    if not check(name, password):
        raise refused()
    return Authenticated(user_principal(name))


def plain_aside(check: Check) -> Exchange:
    """As `plain`, with a check that may take long, and may fail: then nobody gets in."""
    message = yield b""
    name, password = _parse(message)
    outcome = yield Aside(lambda: check(name, password))
    if outcome is not True:
        if isinstance(outcome, Exception):
            logger.error("the check of %s failed: %s", name, failure_of(outcome))
        raise refused()
    return Authenticated(user_principal(name))


def users_check(users: Mapping[str, str]) -> Check:
    """Against a list of names and passwords. An unknown name takes as long as a wrong password."""

    def check(name: str, password: str) -> bool:
        expected = users.get(name)
        equal = hmac.compare_digest((expected or "").encode(), password.encode())
        return expected is not None and equal

    return check


def _parse(message: bytes) -> tuple[str, str]:
    parts = message.split(b"\0")
    if len(parts) != 3:
        raise refused("Invalid SASL/PLAIN response: expected 3 tokens")
    try:
        authorization_id, name, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise refused("Invalid SASL/PLAIN response: the text is not UTF-8") from None
    if not name:
        raise refused("Authentication failed: username not specified")
    if not password:
        raise refused("Authentication failed: password not specified")
    if authorization_id not in ("", name):
        raise refused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return name, password
