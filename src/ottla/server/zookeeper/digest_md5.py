"""SASL DIGEST-MD5 (RFC 2831), the client's side: how ZooKeeper's DigestLoginModule asks for a password.

MD5 is what the mechanism is made of: it hides the password from a listener, and protects nothing else. TLS does that.
"""

import hashlib
import hmac
import re
from collections.abc import Generator

from ottla.errors import OttlaError

_DIRECTIVE = re.compile(rb'\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,\s]*))\s*(?:,|$)')


class LoginRefused(OttlaError):
    """The server does not take the login, or cannot show that it knows the password."""


def exchange(
    user: str, password: str, client_nonce: str, service: str, host: str
) -> Generator[bytes, bytes, None]:
    """Yields what to send and is sent what the server says. `service/host` must be what the server calls itself."""
    challenge = _directives((yield b""))
    if "nonce" not in challenge:
        raise LoginRefused("the server offers no SASL login with a password (DIGEST-MD5)")
    realm, nonce = challenge.get("realm", b""), challenge["nonce"]
    uri, cnonce = f"{service}/{host}".encode(), client_nonce.encode()
    secret = _md5(b":".join((_hashed(user), realm, _hashed(password))))
    key = _md5(b":".join((secret, nonce, cnonce))).hex().encode()

    def proof(method: bytes) -> bytes:
        operation = _md5(method + b":" + uri).hex().encode()
        return _md5(b":".join((key, nonce, b"00000001", cnonce, b"auth", operation))).hex().encode()

    answer = {
        "username": user.encode(),
        "realm": realm,
        "nonce": nonce,
        "cnonce": cnonce,
        "digest-uri": uri,
    }
    quoted = b",".join(b'%s="%s"' % (name.encode(), _escaped(text)) for name, text in answer.items())
    last = yield b"charset=utf-8,%s,nc=00000001,qop=auth,response=%s" % (quoted, proof(b"AUTHENTICATE"))
    if not hmac.compare_digest(_directives(last).get("rspauth", b""), proof(b"")):
        raise LoginRefused("the server does not know the password")


def _directives(text: bytes) -> dict[str, bytes]:
    return {
        name.decode(): re.sub(rb"\\(.)", rb"\1", quoted) or plain
        for name, quoted, plain in _DIRECTIVE.findall(text)
    }


def _escaped(text: bytes) -> bytes:
    return re.sub(rb'(["\\])', rb"\\\1", text)


def _hashed(text: str) -> bytes:
    """RFC 2831, 2.1.2.1: Latin-1 where that is possible, else UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
