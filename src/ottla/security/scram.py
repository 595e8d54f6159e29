"""SASL SCRAM (RFC 5802): both sides prove that they know the password, and neither learns it from the other.

A user is stored as keys derived from the password: with those the server checks a proof, and cannot make one.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping

from ottla.errors import SaslAuthenticationFailed
from ottla.frozen import frozen
from ottla.security.mechanisms import Authenticated, Exchange, refused, user_principal

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
TOKEN_EXTENSION = "tokenauth"

EXTENSIONS_MAX = 100  # of a client's first message

# Name, then the nonce, then extensions. No group repeats here: each round of one takes 200 bytes of memory while it
# matches, and strangers send messages of half a megabyte.
_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>[^,]+))?,n=(?P<name>[^,]+),r=(?P<nonce>[!-+\--~]+)(?:,(?P<extensions>.*))?"
)
_FINAL = re.compile(
    r"c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?,p=(?P<proof>[A-Za-z0-9+/=]+)", re.S
)


@frozen
class Credential:
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@frozen
class Found:
    """A user's credential, and the principal and expiry that go with it (a token's owner, for a token)."""

    credential: Credential
    principal: str
    expires_ms: int | None = None
    token_id: str | None = None


# By name, and whether the client logs in with a delegation token; None for an unknown one.
Lookup = Callable[[str, bool], Found | None]


def credential_of(digest: str, password: str, salt: bytes, iterations: int) -> Credential:
    """Takes milliseconds, on purpose: never on the event loop of a broker."""
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    return credential_from_salted(digest, salted, salt, iterations)


def credential_from_salted(digest: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    return Credential(salt, stored_key, hmac.digest(salted, b"Server Key", digest), iterations)


def user_lookup(users: Mapping[str, Credential]) -> Lookup:
    def lookup(name: str, is_token: bool) -> Found | None:
        credential = None if is_token else users.get(name)
        return None if credential is None else Found(credential, user_principal(name))

    return lookup


def scram(digest: str, lookup: Lookup, nonce: str) -> Exchange:
    """`nonce` is fresh for each exchange. The client's messages come as RFC 5802 writes them."""
    first = _match(_FIRST, (yield b""))
    name = _unescaped(first["name"])
    authorization_id = _unescaped(first["authzid"] or "")
    if authorization_id not in ("", name):
        raise refused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    extensions = _extensions(first["extensions"])
    account = lookup(name, extensions.get(TOKEN_EXTENSION) == "true")
    if account is None:
        raise _wrong(digest)
    credential = account.credential
    joined_nonce = first["nonce"] + nonce
    salt = base64.b64encode(credential.salt).decode()
    server_first = f"r={joined_nonce},s={salt},i={credential.iterations}"
    message = yield server_first.encode()
    final = _match(_FINAL, message)
    bare = first.string[first.start("name") - len("n=") :]
    without_proof = message.decode().rpartition(",p=")[0]
    to_sign = f"{bare},{server_first},{without_proof}".encode()
    if final["nonce"] != joined_nonce or not _proves(digest, credential, to_sign, final["proof"]):
        raise _wrong(digest)
    signature = hmac.digest(credential.server_key, to_sign, digest)
    return Authenticated(
        account.principal, b"v=" + base64.b64encode(signature), account.expires_ms, account.token_id
    )


def _proves(digest: str, credential: Credential, to_sign: bytes, proof: str) -> bool:
    try:
        raw = base64.b64decode(proof, validate=True)
    except binascii.Error:
        return False
    signature = hmac.digest(credential.stored_key, to_sign, digest)
    if len(raw) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(raw, signature, strict=True))
    return hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)


def _match(pattern: re.Pattern[str], message: bytes) -> re.Match[str]:
    try:
        match = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise _invalid()
    return match


def _unescaped(name: str) -> str:
    """A comma and an equals sign in a name are written =2C and =3D."""
    if "=" in name.replace("=2C", ".").replace("=3D", "."):
        raise _invalid()
    return name.replace("=2C", ",").replace("=3D", "=")


def _extensions(text: str | None) -> dict[str, str]:
    if text is not None and text.count(",") >= EXTENSIONS_MAX:
        raise _invalid()
    return dict(part.split("=", 1) for part in (text or "").split(",") if "=" in part)


def _invalid() -> SaslAuthenticationFailed:
    return refused("Invalid SCRAM message")


def _wrong(digest: str) -> SaslAuthenticationFailed:
    """The same words for an unknown user and for a wrong password."""
    mechanism = next(name for name, hash_name in MECHANISMS.items() if hash_name == digest)
    return refused(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        + mechanism
    )
