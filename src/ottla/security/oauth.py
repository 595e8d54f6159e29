"""SASL OAUTHBEARER (RFC 7628): a signed token (JWT) says who the client is, until when.

Signatures are checked by PyJWT, and only asymmetric ones: who can check a token must not be able to make one. Tokens
without a signature are taken only where no keys are given at all.
"""

import base64
import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from ottla.errors import SaslAuthenticationFailed
from ottla.frozen import frozen
from ottla.security.mechanisms import Aside, Authenticated, Exchange, failure_of, refused, user_principal

logger = logging.getLogger("ottla.broker")

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LATEST_S = 10**11  # in some thousand years
PAIRS_MAX = 100  # the token and extensions, of a client's first message
_FIRST = re.compile(rb"n,(?:a=(?P<authzid>[^,]*))?,\x01(?P<pairs>.*)\x01", re.S)
_INVALID = b'{"status":"invalid_token"}'

Validate = Callable[[str], Any]  # a token to the name of its owner, and when it ends (in seconds) or None
Keys = Callable[[str | None], Any]  # the public key of this id; None if there is none


@frozen
class Expected:
    """What a token must say. Empty audiences and issuer are not looked at."""

    audiences: tuple[str, ...] = ()
    issuer: str = ""
    clock_skew_s: int = 30
    principal_claim: str = "sub"


def oauthbearer(keys: Keys | None, expected: Expected, now_s: Callable[[], float]) -> Exchange:
    """Without keys, tokens are not signed, and are believed."""
    authorization_id, token = _parse((yield b""))
    try:
        arguments = expected, now_s()
        claims = believed(token, *arguments) if keys is None else verified(token, keys, *arguments)
        name: str = claims[expected.principal_claim]
        if authorization_id not in ("", name):
            raise refused("the authorization id is not the token's subject")
    except SaslAuthenticationFailed as error:
        logger.warning("a token is refused: %s", error.message)  # the client is not told why
        yield _INVALID  # the client answers with a single byte, and only then is the login over
        raise refused(_INVALID.decode()) from None
    return Authenticated(user_principal(name), expires_ms=int(claims["exp"]) * 1000)


def oauthbearer_aside(validate: Validate) -> Exchange:
    """Tokens that something else understands; it may take long, and may fail: then nobody gets in."""
    authorization_id, token = _parse((yield b""))
    outcome = yield Aside(lambda: _validated(validate(token)))
    if isinstance(outcome, Exception) or authorization_id not in ("", outcome[0]):
        is_failure = isinstance(outcome, Exception)
        logger.warning("a token is refused: %s", failure_of(outcome) if is_failure else "not its subject")
        yield _INVALID
        raise refused(_INVALID.decode())
    name, expires_s = outcome
    return Authenticated(
        user_principal(name), expires_ms=None if expires_s is None else int(expires_s * 1000)
    )


def _validated(outcome: Any) -> tuple[str, float | None]:
    name, expires_s = outcome
    if not isinstance(name, str) or not name:
        raise ValueError("the token's owner has no name")
    if expires_s is not None and not 0 < float(expires_s) < LATEST_S:
        raise ValueError("the token's expiry is beyond all time")
    return name, None if expires_s is None else float(expires_s)


def verified(token: str, keys: Keys, expected: Expected, now_s: float) -> Mapping[str, Any]:
    """The claims of a token that is signed, for us, and not over; raises SaslAuthenticationFailed."""
    import jwt

    try:
        header = jwt.get_unverified_header(token)
        key = keys(header.get("kid"))
        if key is None:
            raise refused(f"no key {header.get('kid')!r} is known")
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=list(expected.audiences) or None,
            issuer=expected.issuer or None,
            leeway=expected.clock_skew_s,
            options={
                "require": ["exp", "iat", expected.principal_claim],  # as Kafka does
                "verify_aud": bool(expected.audiences),
                "verify_exp": False,  # by our own clock, below
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except (jwt.PyJWTError, TypeError, ValueError, RecursionError) as error:
        # A key of another kind than the token's is a TypeError.
        raise refused(str(error)) from None
    name = claims[expected.principal_claim]
    if not isinstance(name, str) or not name.strip():
        raise refused(f"the token's {expected.principal_claim} is not a name")
    _check_times(claims, now_s, expected.clock_skew_s)
    return claims


def believed(token: str, expected: Expected, now_s: float) -> Mapping[str, Any]:
    """The claims of a token without a signature that is not over; raises SaslAuthenticationFailed."""
    try:
        header, claims = (json.loads(_decoded(part)) for part in token.removesuffix(".").split("."))
        if not token.endswith(".") or header["alg"] != "none":
            raise refused("the token is signed, and there are no keys to check it")
        name = claims.get(expected.principal_claim)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise refused(f"the token cannot be read: {type(error).__name__}") from None
    if not isinstance(name, str) or not name or "exp" not in claims:
        raise refused(f"the token lacks exp or {expected.principal_claim}")
    _check_times(claims, now_s, expected.clock_skew_s)
    return claims  # type: ignore[no-any-return]


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _check_times(claims: Mapping[str, Any], now_s: float, skew_s: int) -> None:
    try:
        expires_s, begins_s = float(claims["exp"]), float(claims.get("nbf", 0))
    except (TypeError, ValueError, OverflowError):
        raise refused("the token's times are not numbers") from None
    if not expires_s < LATEST_S:  # nor infinite, nor not a number
        raise refused("the token's expiry is beyond all time")
    if expires_s + skew_s <= now_s:
        raise refused("the token has expired")
    if begins_s - skew_s > now_s:
        raise refused("the token is not valid yet")


def _parse(message: bytes) -> tuple[str, str]:
    first = _FIRST.fullmatch(message)
    parts = first["pairs"].split(b"\x01", PAIRS_MAX) if first else []
    pairs = dict(part.partition(b"=")[::2] for part in parts if part)
    scheme, _, token = pairs.get(b"auth", b"").partition(b" ")
    if first is None or len(parts) > PAIRS_MAX or scheme.lower() != b"bearer" or not token:
        raise refused("Invalid OAUTHBEARER client first message")
    try:
        return (first["authzid"] or b"").decode(), token.strip().decode("ascii")
    except UnicodeDecodeError:
        raise refused("Invalid OAUTHBEARER client first message") from None
