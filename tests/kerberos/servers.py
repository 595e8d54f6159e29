"""Ottla and Apache Kafka as services of one Kerberos realm, and clients that log in at them with tickets."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import kafka
import kafka.errors
import pytest

from ottla.client import Admin
from ottla.errors import OttlaError
from tests.kerberos.kdc import REALM, Kdc
from tests.oracle import programs
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.oracle.ports import Block

BROKER = f"kafka/localhost@{REALM}"
_MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
# People by their names, the service kafka of whatever host; eve/visitor is nobody to the brokers.
RULES = f"RULE:[1:$1@$0](.*@{REALM})s/@.*//,RULE:[2:$1@$0](kafka@{REALM})s/@.*//"
_ANSWER_S = 60


@dataclass(frozen=True)
class Server:
    name: str
    open: str  # the listener for preparations
    address: str  # the listener with GSSAPI


@contextmanager
def servers(kdc: Kdc, keytab: str) -> Iterator[tuple[Server, Server]]:
    ours, theirs = Block(), Block()
    controller = f"CONTROLLER://127.0.0.1:{theirs.base + 100}"
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KAFKA_OPTS", f"-Djava.security.krb5.conf={kdc.config}")
            for name, value in kdc.environment.items():
                patch.setenv(name, value)
            with (
                Oracle(theirs.base, settings=_settings(keytab, theirs.base, controller), heap="512M"),
                Ottla(ours.base, settings=_settings(keytab, ours.base)),
            ):
                yield _server("ottla", ours.base), _server("kafka", theirs.base)
    finally:
        ours.close()
        theirs.close()


def _server(name: str, port: int) -> Server:
    return Server(name, f"127.0.0.1:{port}", f"localhost:{port + 1}")


def _settings(keytab: str, port: int, *others: str) -> dict[str, object]:
    addresses = [f"OPEN://127.0.0.1:{port}", f"TICKETS://localhost:{port + 1}"]
    protocols = ["OPEN:PLAINTEXT", "TICKETS:SASL_PLAINTEXT", *(["CONTROLLER:PLAINTEXT"] if others else [])]
    return {
        "listeners": ",".join([*addresses, *others]),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "OPEN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        "listener.name.tickets.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.tickets.gssapi.sasl.jaas.config": (
            f'{_MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="{BROKER}";'
        ),
    }


@dataclass(frozen=True)
class Login:
    """With the tickets of a cache, or with the keys of a keytab."""

    cache: str = ""
    keytab: str = ""
    principal: str = ""
    service: str = "kafka"


class Ours:
    name = "ottla"

    def outcome(self, address: str, login: Login) -> str:
        try:
            with library(login, keytab=False), Admin(self.settings(address, login)) as admin:
                admin.describe_cluster()
                return "ok"
        except OttlaError as error:
            return type(error).__name__

    def settings(self, address: str, login: Login) -> dict[str, object]:
        settings: dict[str, object] = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": login.service,
            "default.api.timeout.ms": 5000,
        }
        if login.keytab:
            settings["sasl.jaas.config"] = _jaas(login)
        return settings


class KafkaPython:
    name = "kafka-python"

    def outcome(self, address: str, login: Login) -> str:
        """It tries again until it times out, whatever the broker says."""
        with library(login, keytab=True):
            try:
                admin = kafka.KafkaAdminClient(**self.settings(address, login), bootstrap_timeout_ms=1000)
            except Exception as error:  # what the Kerberos library raises comes through as it is
                return type(error).__name__
            try:
                return "ok" if admin.describe_cluster() else "nothing"
            finally:
                admin.close()

    def settings(self, address: str, login: Login) -> dict[str, object]:
        return {
            "bootstrap_servers": address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": login.service,
        }


class Java:
    """One JVM for all logins, one after the other; a context manager."""

    name = "java"

    def __init__(self, kdc: Kdc) -> None:
        self._kdc = kdc

    def __enter__(self) -> Java:
        options = f"-Djava.security.krb5.conf={self._kdc.config}"
        self._process = programs.start(
            "Logins",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "JDK_JAVA_OPTIONS": options},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def outcome(self, address: str, login: Login) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        pairs = (f"{name}={value}" for name, value in self.settings(address, login).items())
        self._process.stdin.write(" ".join(b64encode(pair.encode()).decode() for pair in pairs) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S)
        assert ready, f"nothing from the Java client within {_ANSWER_S} s"
        said = self._process.stdout.readline().strip()
        return "TimeoutException" if said.startswith("TimeoutException") else said

    def settings(self, address: str, login: Login) -> dict[str, object]:
        return {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": login.service,
            "sasl.jaas.config": _jaas(login),
            "default.api.timeout.ms": 3000,
            "request.timeout.ms": 2000,
        }


def _jaas(login: Login) -> str:
    if login.keytab:
        keys = f'useKeyTab=true storeKey=true keyTab="{login.keytab}" principal="{login.principal}@{REALM}"'
        return f"{_MODULE} {keys};"
    return (
        f'{_MODULE} useTicketCache=true doNotPrompt=true ticketCache="{login.cache.removeprefix("FILE:")}";'
    )


@contextmanager
def library(login: Login, *, keytab: bool) -> Iterator[None]:
    """The Kerberos library of this process finds these tickets; with `keytab` also these keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5CCNAME", login.cache or f"MEMORY:{login.principal}")
        patch.setenv("KRB5_CLIENT_KTNAME", login.keytab if keytab and login.keytab else "FILE:/nonexistent")
        yield


class Dialogue:
    """SASL by hand: one connection, whose answers are looked at byte by byte."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._connection = socket.create_connection((host, int(port)), _ANSWER_S)
        self._answers = self._connection.makefile("rb")

    def __enter__(self) -> Dialogue:
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._connection.close()

    def handshake(self, version: int = 1) -> None:
        answer = self._ask(struct.pack(">hhihh6s", 17, version, 1, -1, 6, b"GSSAPI"))
        assert answer[4:6] == b"\0\0"

    def authenticate(self, token: bytes) -> tuple[int, str, bytes]:
        """The error code, its message, and the broker's token."""
        answer = self._ask(struct.pack(">hhihi", 36, 0, 2, -1, len(token)) + token)
        code, length = struct.unpack_from(">hh", answer, 4)
        end = 8 + max(length, 0)
        return code, answer[8:end].decode(), answer[end + 4 :]

    def bare(self, token: bytes) -> None:
        self._connection.sendall(struct.pack(">i", len(token)) + token)

    def frame(self) -> bytes:
        """Empty when the broker has closed the connection."""
        length = self._answers.read(4)
        return self._answers.read(struct.unpack(">i", length)[0]) if length else b""

    def api_versions(self) -> int:
        """The id under which the broker answers a request that follows."""
        answer = self._ask(struct.pack(">hhih", 18, 0, 7, -1))
        return int.from_bytes(answer[:4])

    def _ask(self, request: bytes) -> bytes:
        self._connection.sendall(struct.pack(">i", len(request)) + request)
        return self.frame()
