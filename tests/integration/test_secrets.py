"""Passwords, keys and tokens are nowhere but in the files that hold them: not in logs, answers, errors or data."""

import base64
import logging
import subprocess
import sys
import urllib.request

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from ottla import errors
from ottla.client import Admin, Producer
from ottla.client.settings import Settings
from ottla.security.certificates import Authority
from tests.compat.raw import Closed, Raw
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports
from tests.soak.lag import http_port

LISTED, STORE, KEY, GUESS, STORED, DYNAMIC = (
    f"canary-{name}" for name in ("listed", "store", "key", "guess", "stored", "dynamic")
)


def store(folder, authority):
    """A PKCS12 key store behind a password."""
    identity = authority.issue("broker", "localhost", "127.0.0.1")
    key = load_pem_private_key(identity.key.encode(), None)
    certificate = load_pem_x509_certificate(identity.certificate.encode())
    path = folder / "server.p12"
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(
            b"broker",
            key,  # type: ignore[arg-type]
            certificate,
            None,
            BestAvailableEncryption(STORE.encode()),
        )
    )
    return path


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A broker that logs everything, and a client that may do everything."""
    folder, authority, port = tmp_path_factory.mktemp("scene"), Authority(), free_ports(1)[0]
    (folder / "ca.pem").write_text(authority.pem)
    jaas = f'PlainLoginModule required username="admin" password="{LISTED}" user_admin="{LISTED}";'
    settings = {
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "listener.name.sasl_ssl.ottla.plain.scram.users": "true",
        "ssl.keystore.location": store(folder, authority),
        "ssl.keystore.password": STORE,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.pem",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "delegation.token.secret.key": KEY,
    }
    client = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(folder / "ca.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": LISTED,
        "default.api.timeout.ms": "20000",
    }
    # A file, as an operator has it: on the command line everybody on the machine would read it.
    properties = folder / "broker.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    options = ["--config", str(properties), "--http", "0", "--log-level", "DEBUG"]
    listeners = {"listeners": f"SASL_SSL://127.0.0.1:{port}"}
    with Ottla(port, options=options, settings=listeners, data=folder / "data") as broker:
        yield broker, client


def command(client, *arguments):
    """One of our commands in a process of its own: all that it says."""
    given = [
        part
        for name, value in client.items()
        if name != "bootstrap.servers"
        for part in ("-X", f"{name}={value}")
    ]
    line = [sys.executable, "-m", "ottla", *arguments, "-b", client["bootstrap.servers"], *given]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, input=f"{STORED}\n")


def test_no_secret_is_told_anywhere(scene, caplog):
    broker, client = scene
    caplog.set_level(logging.DEBUG)
    said = []
    with Admin(client) as admin:
        admin.create_topic("t", 1, 1)
        admin.set_user("alice", STORED, ["SCRAM-SHA-256"])
        token = admin.create_token([])
        said.append(repr(admin.describe_configs("broker", "1")))
        said.append(repr(admin.describe_users()))
        for name in ("listener.name.sasl_ssl.plain.sasl.jaas.config", "ssl.keystore.password"):
            with pytest.raises(errors.ProtocolError) as refused:
                admin.alter_configs("broker", "1", set_={name: f'x password="{DYNAMIC}";'})
            said.append(str(refused.value))
    alice = client | {"sasl.username": "alice", "sasl.password": STORED}
    with Producer(alice) as producer, pytest.raises(errors.TopicAuthorizationFailed):
        producer.send("t", b"v").result(20)
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        wrong = alice | {"sasl.password": GUESS, "sasl.mechanism": mechanism}
        said.append(repr(Settings(sasl_username="alice", sasl_password=GUESS)))
        with Admin(wrong) as admin, pytest.raises(errors.SaslAuthenticationFailed) as refused:
            admin.list_topics()
        said.append(f"{refused.value!r} {refused.value}")
    for arguments in (
        ["topics", "list"],
        ["users", "add", "bob", "--password-file", "-"],
        ["users", "list"],
        ["doctor"],
        ["config", "describe", "broker", "1", "--all"],
    ):
        for settings in (client, client | {"sasl.password": GUESS}):
            outcome = command(settings, *arguments)
            said += [outcome.stdout, outcome.stderr]
    with Raw(f"127.0.0.1:{broker.port}") as stranger, pytest.raises((OSError, Closed)):  # without TLS
        stranger.call("sasl_authenticate", 2, {"auth_bytes": b"\0alice\0" + GUESS.encode()})
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port(broker)}/metrics", timeout=20) as page:
        said.append(page.read().decode())
    broker.stop()
    told = "\n".join([*said, caplog.text, broker.log.read_text()])
    stored = b"\n".join(path.read_bytes() for path in sorted(broker.data.rglob("*")) if path.is_file())
    secret = base64.b64encode(token.secret).decode()
    for canary in (LISTED, STORE, KEY, GUESS, STORED, DYNAMIC, secret):
        assert canary not in told, _around(told, canary)
        assert canary.encode() not in stored, f"{canary} is in the broker's folder"
    assert token.secret not in stored
    assert "failed login from 127.0.0.1" in told  # or nothing was logged at all


def _around(text, canary):
    at = text.index(canary)
    return text[max(0, at - 300) : at + 100]
