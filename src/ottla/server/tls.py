"""TLS contexts from Kafka's settings: PEM and PKCS12 key stores, client certificates, protocols, ciphers.

A context is never changed: new certificates make a new context, for the connections that come after.
"""

import logging
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ottla.errors import InvalidConfig
from ottla.frozen import frozen
from ottla.server.alerts import AlertingContext

logger = logging.getLogger("ottla.server")

CLIENT_CERTIFICATES = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@frozen
class TlsSettings:
    """The ssl.* settings of one listener; texts as Kafka has them, empty where not set."""

    HIDDEN = ("keystore_password", "keystore_key", "key_password", "truststore_password")

    keystore_type: str = ""
    keystore_location: str = ""
    keystore_password: str = ""
    keystore_key: str = ""
    keystore_certificate_chain: str = ""
    key_password: str = ""
    truststore_type: str = ""
    truststore_location: str = ""
    truststore_password: str = ""
    truststore_certificates: str = ""
    client_auth: str = "none"
    enabled_protocols: str = "TLSv1.2,TLSv1.3"
    cipher_suites: str = ""

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "TlsSettings":
        """From settings by their names without the prefix `ssl.`: `keystore.location`."""
        known = cls.__slots__  # type: ignore[attr-defined]
        names = {name.replace(".", "_"): text for name, text in texts.items()}
        return cls(**{name: text for name, text in names.items() if name in known and text})

    def files(self) -> list[Path]:
        """What to watch: when one of them changes, certificates are exchanged."""
        return [Path(location) for location in (self.keystore_location, self.truststore_location) if location]


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    _set_protocols(context, settings.enabled_protocols)
    if settings.cipher_suites:
        _set_ciphers(context, settings.cipher_suites)
    load_identity(context, settings)
    verify_mode = CLIENT_CERTIFICATES.get(settings.client_auth.lower())
    if verify_mode is None:
        raise InvalidConfig(f"ssl.client.auth={settings.client_auth} is not none, requested or required")
    if verify_mode is not ssl.CERT_NONE:
        load_trust(context, settings)
    context.verify_mode = verify_mode
    return context


def client_context(settings: TlsSettings, *, check_hostname: bool = True) -> ssl.SSLContext:
    """For the links between brokers: the peer's certificate and name are checked, and our own is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_protocols(context, settings.enabled_protocols)
    context.check_hostname = check_hostname
    load_trust(context, settings)
    load_identity(context, settings)
    return context


def load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.truststore_certificates:
        _load_authorities(context, settings.truststore_certificates, "ssl.truststore.certificates")
        return
    if not settings.truststore_location:
        raise InvalidConfig(
            "certificates cannot be verified without ssl.truststore.location or ssl.truststore.certificates"
        )
    path = settings.truststore_location
    kind = _kind(settings.truststore_type, path, "ssl.truststore")
    text = _read_text(path) if kind == "PEM" else _pkcs12_authorities(path, settings.truststore_password)
    _load_authorities(context, text, path)


def _load_authorities(context: ssl.SSLContext, pem: str, where: str) -> None:
    # A comment between the certificates may be in any encoding; Python takes ASCII alone.
    ascii_pem = pem.encode("ascii", "replace").decode()
    try:
        context.load_verify_locations(cadata=ascii_pem)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidConfig(f"{where} has no usable certificates in PEM form: {error}") from error


def load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.keystore_key or settings.keystore_certificate_chain:
        if not (settings.keystore_key and settings.keystore_certificate_chain):
            raise InvalidConfig(
                "ssl.keystore.key and ssl.keystore.certificate.chain are set together or not at all"
            )
        pem = f"{settings.keystore_key}\n{settings.keystore_certificate_chain}"
        _load_pem(context, pem, settings.key_password, "ssl.keystore.key")
        return
    path = settings.keystore_location
    if not path:
        raise InvalidConfig(
            "a TLS listener needs ssl.keystore.location, or ssl.keystore.key with ssl.keystore.certificate.chain"
        )
    if _kind(settings.keystore_type, path, "ssl.keystore") == "PEM":
        _load_pem(context, _read_text(path), settings.key_password, path)
        return
    key, chain = _pkcs12_identity(path, settings.keystore_password)
    _load_pem(context, key + chain, "", path)


def _load_pem(context: ssl.SSLContext, pem: str, password: str, where: str) -> None:
    """OpenSSL reads keys from files only: a private one, gone at once."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600
        file.write(pem)
        file.flush()
        try:
            # A password is always given: without one OpenSSL would ask at the terminal.
            context.load_cert_chain(file.name, password=password)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise InvalidConfig(f"{where} has no usable key and certificate: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    text = str(error)
    if "KEY_VALUES_MISMATCH" in text:
        return "the key does not belong to the certificate"
    if "bad decrypt" in text.lower() or "bad password" in text.lower():
        return "the password of the key is wrong or missing (ssl.key.password)"
    return text


def _kind(named: str, path: str, prefix: str) -> str:
    kind = named.upper() or _guess(path)
    if kind == "JKS":
        raise InvalidConfig(
            f"{prefix}.location={path} is a Java key store (JKS), which only Java can read. Convert it: "
            f"keytool -importkeystore -srckeystore {path} -destkeystore {Path(path).stem}.p12 -deststoretype PKCS12"
        )
    if kind not in ("PEM", "PKCS12"):
        raise InvalidConfig(f"{prefix}.type={named} is not PEM, PKCS12 or JKS")
    return kind


def _guess(path: str) -> str:
    """Kafka's default is JKS. What the file is can be seen from its first bytes."""
    first = _read(path)[:64]
    if first[:4] == b"\xfe\xed\xfe\xed":
        return "JKS"
    return "PEM" if b"-----BEGIN" in _read(path) else "PKCS12"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidConfig(f"{path} cannot be read: {error.strerror}") from error


def _read_text(path: str) -> str:
    return _read(path).decode("latin-1")


def _pkcs12_identity(path: str, password: str) -> tuple[str, str]:
    key, certificate, others = _pkcs12(path, password)
    if key is None or certificate is None:
        raise InvalidConfig(f"{path} holds no private key with its certificate")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    chain = "".join(link.public_bytes(Encoding.PEM).decode() for link in (certificate, *others))
    return text, chain


def _pkcs12_authorities(path: str, password: str) -> str:
    _, certificate, others = _pkcs12(path, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    every = [known for known in (certificate, *others) if known is not None]
    return "".join(known.public_bytes(Encoding.PEM).decode() for known in every)


def _pkcs12(path: str, password: str):  # type: ignore[no-untyped-def]
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates
    except ImportError:
        raise InvalidConfig(
            f"{path} is a PKCS12 key store, which needs the extra `security` (pip install 'ottla[security]'); "
            "PEM files need nothing"
        ) from None
    try:
        return load_key_and_certificates(_read(path), password.encode() or None)
    except ValueError as error:
        raise InvalidConfig(f"{path} cannot be opened: {error}") from error


def _set_protocols(context: ssl.SSLContext, text: str) -> None:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise InvalidConfig(f"ssl.enabled.protocols={text}: TLSv1.2 and TLSv1.3 are offered, nothing older")
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _set_ciphers(context: ssl.SSLContext, text: str) -> None:
    """Names of TLS 1.2, as IANA or OpenSSL writes them; those of TLS 1.3 are always on."""
    wanted = [suite.strip() for suite in text.split(",") if suite.strip()]
    older = [_openssl_name(suite) for suite in wanted if not suite.startswith(("TLS_AES_", "TLS_CHACHA20_"))]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    with suppress(ssl.SSLError):
        context.set_ciphers(":".join(older))
        return
    raise InvalidConfig(f"ssl.cipher.suites={text}: none of them is known to OpenSSL")


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384 to OpenSSL."""
    if not name.startswith("TLS_"):
        return name
    plain = (
        name.removeprefix("TLS_")
        .replace("_WITH_", "_")
        .replace("AES_128", "AES128")
        .replace("AES_256", "AES256")
    )
    plain = plain.removeprefix("RSA_") if plain.startswith("RSA_AES") else plain
    return plain.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_", "-")
