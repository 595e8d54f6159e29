"""TLS, users and rights for a test's broker: `Broker(security="SASL_SSL", users={"alice": "secret"})`.

Certificates are made in memory, once for a process; clients get the authority's as a file.
"""

import atexit
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ottla.errors import InvalidConfig
from ottla.security.certificates import Authority, Identity

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
BROKER_USER = "ottla-broker"  # as which brokers of a cluster log in at each other
MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"


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
