"""SASL GSSAPI (RFC 4752): a Kerberos ticket says who the client is. No security layer: TLS is what encrypts."""

import logging
from collections.abc import Callable
from typing import Protocol

from ottla.errors import SaslAuthenticationFailed
from ottla.security.kerberos_names import LocalNames, NoLocalName
from ottla.security.mechanisms import Authenticated, Exchange, refused, user_principal

logger = logging.getLogger("ottla.broker")

MECHANISM = "GSSAPI"
NO_LAYER = 1
TOKENS_MAX = 8  # of one context; Kerberos needs one or two
# Our only layer, and the longest message that we would take in one: without a layer there is none.
_OFFER = bytes([NO_LAYER, 0, 0, 0])


class GssFailed(Exception):
    """The library refuses a token; the text says why, for our log alone."""


class Context(Protocol):
    """The server's half of one security context; each method may raise GssFailed."""

    def step(self, token: bytes) -> bytes:
        """Takes the client's token and gives ours; empty if there is none."""

    @property
    def is_complete(self) -> bool: ...

    @property
    def client(self) -> str:
        """The principal of the client, once the context is complete."""

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


def gssapi(begin: Callable[[], Context], names: LocalNames) -> Exchange:
    try:
        return (yield from _exchange(begin, names))
    except (GssFailed, NoLocalName) as error:
        logger.warning("a Kerberos login is refused: %s", error)  # the client is not told why
        raise _wrong() from None


def _exchange(begin: Callable[[], Context], names: LocalNames) -> Exchange:
    token = yield b""
    context = begin()
    for _ in range(TOKENS_MAX):
        reply = context.step(token)
        if context.is_complete:
            break
        token = yield reply
    else:
        raise GssFailed(f"no context after {TOKENS_MAX} tokens")
    if reply and (yield reply):
        raise GssFailed("the client said something where only the broker's offer of layers can follow")
    choice = context.unwrap((yield context.wrap(_OFFER)))
    # Three bytes of the longest message and a name to act as follow. As in Kafka nobody acts for another.
    if len(choice) < len(_OFFER) or choice[0] != NO_LAYER:
        raise GssFailed("the client asks for a security layer, and none is offered")
    return Authenticated(user_principal(names.name(context.client)), last_message=None)


def _wrong() -> SaslAuthenticationFailed:
    return refused(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {MECHANISM}"
    )
