"""TLS, users and rights for a test's broker: `Broker(security="SASL_SSL", users={"alice": "secret"})`.

Certificates are made in memory, once for a process; clients get the authority's as a file.
"""

import atexit
import datetime
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ottla.errors import InvalidConfig
from ottla.frozen import frozen

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BROKER_USER = "ottla-broker"  # as which brokers of a cluster log in at each other
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


@frozen
class Identity:
    """A private key and its certificate, as PEM texts."""

    key: str
    certificate: str


class Authority:
    """A certificate authority for tests."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Ottla testing")
        self._certificate = self._signed(self._name, self._key.public_key(), (), is_authority=True)
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
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        return builder.sign(self._key, hashes.SHA256())


@cache
def authority() -> Authority:
    """The one of this process."""
    try:
        return Authority()
    except ImportError:
        raise InvalidConfig(
            "certificates for a test need the extra `security`: pip install 'ottla[security]'"
        ) from None


def as_file(pem: str, name: str = "ca.pem") -> str:
    """A file of its own that is gone when the process ends."""
    return _file(pem, name, os.getpid())


@cache
def _file(pem: str, name: str, pid: int) -> str:
    folder = tempfile.TemporaryDirectory(prefix="ottla-tls-")
    atexit.register(folder.cleanup)
    path = Path(folder.name) / name
    path.write_text(pem)
    path.chmod(0o600)
    return str(path)


def broker_settings(protocol: str, users: Mapping[str, str], authorizer: bool, host: str) -> dict[str, str]:
    """Kafka's settings of a broker with one listener of this protocol."""
    if protocol not in PROTOCOLS:
        raise InvalidConfig(f"security={protocol!r} is not one of {', '.join(PROTOCOLS)}")
    settings: dict[str, str] = {}
    if authorizer:
        # The broker itself, and brokers of a cluster; tests give everybody else their rights.
        settings |= {"authorizer.class.name": AUTHORIZER, "super.users": f"User:admin;User:{BROKER_USER}"}
        if not protocol.startswith("SASL"):
            settings["super.users"] += f";User:CN={BROKER_USER}"
    if protocol.endswith("SSL"):
        identity = authority().issue(BROKER_USER, "localhost", "127.0.0.1", "::1", host)
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": identity.key,
            "ssl.keystore.certificate.chain": identity.certificate,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority().pem,
            "ssl.client.auth": "requested",
        }
    if protocol.startswith("SASL"):
        every = {**users, BROKER_USER: BROKER_USER}
        listed = " ".join(f'user_{name}="{_quoted(password)}"' for name, password in every.items())
        login = f'username="{BROKER_USER}" password="{BROKER_USER}"'
        settings |= {
            "sasl.enabled.mechanisms": MECHANISMS,
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": f"PlainLoginModule required {login} {listed};",
        }
    return settings


def client_settings(
    protocol: str, user: str | None, password: str | None, mechanism: str, identity: Identity | None
) -> dict[str, str]:
    """What a client has to set, under librdkafka's names, which Ottla's own client takes too."""
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl.ca.location"] = as_file(authority().pem)
        if identity is not None:
            settings["ssl.certificate.location"] = as_file(identity.certificate, "client.pem")
            settings["ssl.key.location"] = as_file(identity.key, "client.key")
    if protocol.startswith("SASL"):
        settings |= {
            "sasl.mechanism": mechanism,
            "sasl.username": user or "",
            "sasl.password": password or "",
        }
    return settings


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _name(common_name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(name: str) -> Any:
    import ipaddress

    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: str = certificate.public_bytes(Encoding.PEM).decode()
    return text
