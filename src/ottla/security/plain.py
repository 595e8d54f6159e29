"""SASL PLAIN (RFC 4616): a name and a password, in one message; safe over TLS only."""

import hmac
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ottla.frozen import frozen
from ottla.security.mechanisms import Aside, Authenticated, Exchange, failure_of, refused, user_principal
from ottla.security.scram import ITERATIONS_MIN, Credential, credential_of

logger = logging.getLogger("ottla.broker")

REMEMBERED_MAX = 1000  # users whose password was right

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


def plain_or_stored(check: Check, stored: "StoredUsers") -> Exchange:
    """As `plain`, and who is not in the list may be a user of the metadata. Every refusal costs a hash, so that the
    time it takes does not tell which names there are."""
    message = yield b""
    name, password = _parse(message)
    if check(name, password) or stored.remembers(name, password):
        return Authenticated(user_principal(name))
    credential = stored.credential(name)
    is_right = yield Aside(lambda: stored.is_password(credential, password))
    if is_right is not True or not stored.has(credential):
        raise refused()
    stored.remember(name, password)
    return Authenticated(user_principal(name))


@frozen
class Stored:
    """A user's SCRAM credential, and the digest of its mechanism. Nobody's has no name."""

    name: str | None
    digest: str
    credential: Credential


class StoredUsers:
    """Users of SCRAM, whose passwords PLAIN may check too: a client that sends its password is hashed once, and
    remembered until its credential changes. `lookup` gives what is stored under a name now."""

    def __init__(
        self,
        lookup: Callable[[str], Stored | None],
        key: bytes,
        hashing: AbstractContextManager[Any] | None = None,
    ) -> None:
        """`key` is random: what is remembered is worth nothing in another process. `hashing` is held by the thread
        that hashes."""
        self._lookup, self._key = lookup, key
        self._hashing = hashing or nullcontext()
        self._known: OrderedDict[str, tuple[Credential, bytes]] = OrderedDict()
        self._nobody = Stored(None, "sha256", Credential(key[:24], bytes(32), bytes(32), ITERATIONS_MIN))

    def credential(self, name: str) -> Stored:
        """An unknown name has one that no password fits."""
        return self._lookup(name) or self._nobody

    def has(self, stored: Stored) -> bool:
        """Whether it still is the user's: it may have changed while it was hashed."""
        return stored.name is not None and self._lookup(stored.name) == stored

    def is_password(self, stored: Stored, password: str) -> bool:
        """Takes milliseconds, on purpose: for a thread. One at a time: those who guess wait for each other."""
        credential = stored.credential
        with self._hashing:
            computed = credential_of(stored.digest, password, credential.salt, credential.iterations)
        return hmac.compare_digest(computed.stored_key, credential.stored_key)

    def remembers(self, name: str, password: str) -> bool:
        known, stored = self._known.get(name), self._lookup(name)
        if known is None or stored is None or known[0] != stored.credential:
            return False
        return hmac.compare_digest(known[1], self._digest(password))

    def remember(self, name: str, password: str) -> None:
        stored = self._lookup(name)
        if stored is None:
            return
        self._known[name] = stored.credential, self._digest(password)
        self._known.move_to_end(name)
        while len(self._known) > REMEMBERED_MAX:
            self._known.popitem(last=False)

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), "sha256")


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
