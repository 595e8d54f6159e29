"""A certificate authority of our own, for tests and for `ottla secure init`. Needs the extra `security`."""

import datetime
import ipaddress
from typing import Any

from ottla.frozen import frozen


@frozen
class Identity:
    """A private key and its certificate, as PEM texts."""

    key: str
    certificate: str


class Authority:
    """Signs certificates for servers and clients that trust it."""

    def __init__(self, days: int = 30) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Ottla")
        self._certificate = self._signed(self._name, self._key.public_key(), (), is_authority=True, days=days)
        self.pem = _pem(self._certificate)

    def issue(self, common_name: str, *hosts: str, days: int = 30) -> Identity:
        """For a server under these host names and addresses, or for a client under none."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        return Identity(text, _pem(self._signed(_name(common_name), key.public_key(), hosts, days=days)))

    def _signed(
        self, name: Any, key: Any, hosts: tuple[str, ...], *, is_authority: bool = False, days: int = 30
    ) -> Any:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=40))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(_usage(is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())


def _usage(is_authority: bool) -> Any:
    """Python verifies strictly since 3.13: certificates that do not say what they are for are refused."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(name: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: str = certificate.public_bytes(Encoding.PEM).decode()
    return text
