"""Why a connection did not come about, in a sentence that names the host, the file and the likely cause."""

import errno
import socket
import ssl
from pathlib import Path

from ottla.client.errors import ConnectionLost, SettingError, UntrustedBroker, WrongProtocol
from ottla.client.settings import Settings
from ottla.errors import OttlaError

# OpenSSL's numbers of what is wrong with a certificate.
_EXPIRED = 10
_OTHER_HOST = (62, 64)  # by name, by address
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST")


def refusal(address: tuple[str, int], settings: Settings, error: Exception) -> OttlaError:
    """What to tell when `address` could not be connected to."""
    name = f"{address[0]}:{address[1]}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return UntrustedBroker(_untrusted(name, address[0], settings, error))
    if isinstance(error, ssl.SSLError) and error.reason in _NOT_TLS:
        return WrongProtocol(_plaintext_port(name, settings))
    if isinstance(error, ssl.SSLError):
        return ConnectionLost(f"the TLS handshake with {name} failed: {error.reason or error}")
    if (
        settings.security_protocol.endswith("SSL")
        and isinstance(error, ConnectionError)
        and not _refused(error)
    ):
        return WrongProtocol(f"{name} ended the TLS handshake. {_plaintext_port(name, settings)}")
    if isinstance(error, TimeoutError):
        limit_ms = settings.socket_connection_setup_timeout_ms
        return ConnectionLost(f"cannot connect to {name}: no answer within {limit_ms} ms")
    if isinstance(error, socket.gaierror):
        return ConnectionLost(f"cannot connect to {name}: there is no host of that name ({error.strerror})")
    reason = "nothing listens there" if _refused(error) else str(error)
    return ConnectionLost(f"cannot connect to {name}: {reason}")


def is_tls_record(first: bytes) -> bool:
    """Whether what a broker sent first is a record of TLS (an alert or a handshake) instead of an answer."""
    return len(first) >= 3 and first[0] in (0x15, 0x16) and first[1] == 3


def tls_port(name: str) -> str:
    return (
        f"{name} speaks TLS, and this client does not: set security.protocol=SSL (and ssl.ca.location), "
        "or use the broker's PLAINTEXT port"
    )


def closed_early(name: str, protocol: str) -> str:
    """A broker that ends the connection before its first answer was asked in a way that it does not expect."""
    if protocol.endswith("SSL"):
        return f"{name} closed the connection before it answered"
    return (
        f"{name} closed the connection before it answered: is it a Kafka port, and plaintext? "
        "For a TLS port set security.protocol=SSL"
    )


def checked_file(setting: str, path: str | None) -> str | None:
    """The path of a PEM file that can be read, or an error that names setting and file."""
    if path is None:
        return None
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise SettingError(f"{setting}: {path} cannot be read: {error.strerror}") from error
    if b"-----BEGIN" not in text:
        raise SettingError(f"{setting}: {path} is not a PEM file (no -----BEGIN line)")
    return path


def _refused(error: Exception) -> bool:
    """A name with several addresses fails with one error of no class, which has the texts of all of them."""
    return isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error)


def _plaintext_port(name: str, settings: Settings) -> str:
    plain = settings.security_protocol.replace("SSL", "PLAINTEXT")
    return (
        f"{name} does not speak TLS, and security.protocol is {settings.security_protocol}: "
        f"use the broker's TLS port, or security.protocol={plain.removeprefix('_')}"
    )


def _untrusted(name: str, host: str, settings: Settings, error: ssl.SSLCertVerificationError) -> str:
    store = settings.ssl_ca_location or settings.ssl_truststore_location
    if error.verify_code in _OTHER_HOST:
        return (
            f"the certificate of {name} is not for the host {host}: connect by a name that it holds, "
            "or set ssl.endpoint.identification.algorithm to nothing"
        )
    if error.verify_code == _EXPIRED:
        return f"the certificate of {name} has expired; renew it, or check this machine's clock"
    trusted = (
        f"the CA in {store}" if store else "the system's CAs; set ssl.ca.location to the PEM file of its CA"
    )
    return f"the certificate of {name} is not signed by {trusted} ({error.verify_message})"
