"""TLS settings, and the client's half of SASL: PLAIN, SCRAM (RFC 5802), OAUTHBEARER (RFC 7628) and
GSSAPI, as exchanges of bytes."""

import base64
import hashlib
import hmac
import os
import ssl
from collections.abc import Generator

from ottla.client.errors import SettingError
from ottla.client.loop.handshake import checked_file
from ottla.client.settings import Settings
from ottla.errors import SaslAuthenticationFailed

# What a mechanism sends and is sent: yields a client message, is sent the server's answer.
Exchange = Generator[bytes, bytes, None]


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context that the settings describe, or none."""
    if not settings.security_protocol.endswith("SSL"):
        return None
    authorities = checked_file("ssl.ca.location", settings.ssl_ca_location) or checked_file(
        "ssl.truststore.location", _pem_truststore(settings)
    )
    try:
        context = ssl.create_default_context(cafile=authorities, cadata=settings.ssl_truststore_certificates)
    except OSError as error:
        where = authorities or "ssl.truststore.certificates"
        raise SettingError(f"{where} holds no certificate that can be used: {error}") from error
    lowest, highest = (ssl.TLSVersion[version.replace(".", "_")] for version in settings.tls_versions())
    context.minimum_version, context.maximum_version = lowest, highest
    if not settings.ssl_endpoint_identification_algorithm:
        context.check_hostname = False
    certificate = checked_file("ssl.certificate.location", settings.ssl_certificate_location) or checked_file(
        "ssl.keystore.location", _pem_keystore(settings)
    )
    key = checked_file("ssl.key.location", settings.ssl_key_location)
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, settings.ssl_key_password or "")
        except OSError as error:
            pair = f"{certificate} with the key in {key or certificate}"
            hint = "; is ssl.key.password right, and the key that of the certificate?"
            raise SettingError(f"ssl.certificate.location: {pair} cannot be used: {error}{hint}") from error
    return context


def exchange(settings: Settings, host: str) -> Exchange:
    """The authentication that the settings describe, at the broker `host`."""
    if settings.sasl_mechanism == "GSSAPI":
        from ottla.client.loop.kerberos import gssapi  # few need it

        return gssapi(settings.kerberos(), host)
    if settings.sasl_mechanism == "OAUTHBEARER":
        return bearer(settings.bearer_token())
    user, password = settings.credentials()
    match settings.sasl_mechanism:
        case "PLAIN":
            return plain(user, password)
        case "SCRAM-SHA-256":
            return scram("sha256", user, password, is_token=settings.is_token)
        case "SCRAM-SHA-512":
            return scram("sha512", user, password, is_token=settings.is_token)
        case other:
            raise SettingError(f"sasl.mechanism {other} is not supported")


def advance(exchange: Exchange, answer: bytes | None) -> bytes | None:
    """Our next message after the broker's `answer`, which is None at first; None when we have nothing more to say."""
    try:
        return next(exchange) if answer is None else exchange.send(answer)
    except StopIteration:
        return None


def plain(user: str, password: str) -> Exchange:
    yield b"\0" + user.encode() + b"\0" + password.encode()


def bearer(token: str) -> Exchange:
    """A broker that refuses the token answers with JSON, and with its error after our next byte."""
    refusal = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if refusal:
        yield b"\x01"
        raise SaslAuthenticationFailed(
            f"the broker refused the token: {refusal[:200].decode(errors='replace')}"
        )


def scram(
    digest: str, user: str, password: str, nonce: str | None = None, *, is_token: bool = False
) -> Exchange:
    """Proves that both sides know the password; neither learns it from the exchange."""
    nonce = nonce or base64.b64encode(os.urandom(24)).decode()
    bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    if is_token:
        bare += ",tokenauth=true"
    server_first = (yield f"n,,{bare}".encode()).decode()
    fields = _fields(server_first)
    if not fields.get("r", "").startswith(nonce) or "s" not in fields or not fields.get("i", "").isdecimal():
        raise SaslAuthenticationFailed("the broker's SCRAM challenge is not an answer to ours")
    # RFC 5802 leaves the upper bound open; without one a broker could keep us busy for hours.
    iterations = int(fields["i"])
    if not 1 <= iterations <= 10_000_000:
        raise SaslAuthenticationFailed(f"the broker asks for {iterations} SCRAM iterations")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), base64.b64decode(fields["s"]), iterations)
    without_proof = f"c=biws,r={fields['r']}"
    to_sign = f"{bare},{server_first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), to_sign, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = (yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), to_sign, digest)
    final = _fields(server_final)
    if "e" in final:
        raise SaslAuthenticationFailed(f"the broker refused: {final['e']}")
    if not hmac.compare_digest(base64.b64decode(final.get("v", "")), expected):
        raise SaslAuthenticationFailed("the broker could not prove that it knows the password")


def _pem_truststore(settings: Settings) -> str | None:
    if settings.ssl_truststore_location and settings.ssl_truststore_type != "PEM":
        raise SettingError("only PEM trust stores can be read; set ssl.ca.location to a PEM file")
    return settings.ssl_truststore_location


def _pem_keystore(settings: Settings) -> str | None:
    if settings.ssl_keystore_location and settings.ssl_keystore_type != "PEM":
        raise SettingError(
            "only PEM key stores can be read; set ssl.certificate.location and ssl.key.location to PEM files"
        )
    return settings.ssl_keystore_location


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)
