"""Secured brokers configured alike, Ottla and Apache Kafka, and how each public client logs in at them."""

from __future__ import annotations

import asyncio
import json
import re
import select
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiokafka
import aiokafka.abc
import aiokafka.conn
import aiokafka.errors
import aiokafka.helpers
import confluent_kafka
import jwt
import kafka
import kafka.errors
import kafka.net.sasl.oauth
from aiokafka.protocol.metadata import MetadataRequest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from ottla.security.certificates import Authority, Identity
from tests.compat.fences import fence
from tests.compat.raw import Raw
from tests.oracle import programs
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_block

SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
REAUTHENTICATION_MS = 3000
TOPIC = "t"  # there from the start: the time of a record is not spent on it
# The ports follow each other in this order. OPEN is the brokers' own, and for the tests' preparations.
LISTENERS = {
    "OPEN": "PLAINTEXT",
    "USERS": "SASL_PLAINTEXT",  # PLAIN and both of SCRAM
    "ONE": "SASL_PLAINTEXT",  # SCRAM-SHA-256 alone
    "TOKENS": "SASL_PLAINTEXT",  # OAUTHBEARER alone
    "BRIEF": "SASL_PLAINTEXT",  # as USERS; sessions end after REAUTHENTICATION_MS
    "BOTH": "SASL_SSL",  # as USERS, and OAUTHBEARER
    "TLS": "SSL",
    "MUTUAL": "SSL",  # asks for a client certificate
    "EXPIRED": "SSL",  # the server's certificate is over
    "UNSIGNED": "SASL_PLAINTEXT",  # OAUTHBEARER with tokens that nobody has signed
}
_MODULES = "org.apache.kafka.common.security"
_CONTROLLER = 100  # its port, from the first listener's
_LOGIN_S = 120
_REASON_S = 5
_LOST = ("_TRANSPORT", "_ALL_BROKERS_DOWN")  # librdkafka's words for a connection that ended
_AUDIENCE = "kafka"


_LIST = re.compile(r"\[(.*)\]")  # of mechanisms; Kafka's have no order


def _sorted(found: re.Match[str]) -> str:
    return f"[{', '.join(sorted(found[1].split(', ')))}]"


class Papers:
    """Certificates, and tokens with the keys that verify them, as files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority, stranger = Authority(), Authority()
        self.authority = self._file("ca.pem", self._authority.pem)
        self.another_authority = self._file("stranger.pem", stranger.pem)
        self.server = self._server("server.pem", days=30)
        self.expired_server = self._server("expired.pem", days=-1)
        self.client = self._client("shop.pem", self._authority.issue("shop"))
        self.expired_client = self._client("late.pem", self._authority.issue("late", days=-1))
        self.strange_client = self._client("thief.pem", stranger.issue("thief"))
        self._key, self._forger = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        public = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True) | {"kid": "k", "alg": "RS256"}
        self.keys = self._file("keys.json", json.dumps({"keys": [public]}))

    def token(self, *, forged: bool = False, **claims: Any) -> str:
        now_s = int(time.time())
        every = {"sub": "alice", "aud": _AUDIENCE, "iat": now_s, "exp": now_s + 600, **claims}
        used = {name: value for name, value in every.items() if value is not None}
        return jwt.encode(used, self._forger if forged else self._key, "RS256", {"kid": "k"})

    def unsigned_token(self, **claims: Any) -> str:
        now_s = int(time.time())
        every = {"sub": "alice", "iat": now_s, "exp": now_s + 600, **claims}
        used = {name: value for name, value in every.items() if value is not None}
        return jwt.encode(used, None, "none")

    def token_file(self, token: str) -> str:
        return self._file(f"{abs(hash(token))}.jwt", token)

    def _server(self, name: str, days: int) -> str:
        identity = self._authority.issue("broker", "localhost", "127.0.0.1", days=days)
        return self._client(name, identity)

    def _client(self, name: str, identity: Identity) -> str:
        return self._file(name, identity.key + identity.certificate)

    def _file(self, name: str, text: str) -> str:
        (self._folder / name).write_text(text)
        return str(self._folder / name)


class Server:
    """A running broker; `at` is where one of LISTENERS is."""

    def __init__(self, name: str, port: int) -> None:
        self.name, self._port = name, port

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self._port + list(LISTENERS).index(listener)}"

    def set_user(self, user: str, password: str, *mechanisms: str) -> None:
        for each in mechanisms:
            credential = ScramCredentialInfo(SCRAM[each], 4096)
            self._alter(UserScramCredentialUpsertion(user, credential, password.encode()))
        with Raw(self.at("OPEN")) as raw:
            fence(raw)  # Apache Kafka answers before those who check logins know the user

    def remove_user(self, user: str, mechanism: str) -> None:
        self._alter(UserScramCredentialDeletion(user, SCRAM[mechanism]))

    def _alter(self, change: UserScramCredentialAlteration) -> None:
        admin = AdminClient({"bootstrap.servers": self.at("OPEN")})
        for answer in admin.alter_user_scram_credentials([change], request_timeout=_LOGIN_S).values():
            answer.result()  # librdkafka says what it waited for; a time-out of our own would say nothing


@contextmanager
def servers(papers: Papers) -> Iterator[tuple[Server, Server]]:
    """Ottla and Apache Kafka with the users alice and bob, whose passwords are their names and `-secret`."""
    listeners = range(len(LISTENERS))
    with closing(free_block(listeners)) as ours, closing(free_block([*listeners, _CONTROLLER])) as theirs:
        controller = f"CONTROLLER://127.0.0.1:{theirs.base + _CONTROLLER}"
        with (
            Oracle(
                theirs.base, settings=_settings(papers, theirs.base, controller), heap="512M"
            ) as apache_kafka,
            Ottla(ours.base, settings=_settings(papers, ours.base)) as ottla,
        ):
            both = Server("ottla", ours.base), Server("kafka", theirs.base)
            for server, process in zip(both, (ottla, apache_kafka), strict=True):
                with _explained(server, process):  # type: ignore[arg-type]
                    admin = AdminClient({"bootstrap.servers": server.at("OPEN")})
                    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(_LOGIN_S)
                    server.set_user("alice", "alice-secret", *SCRAM)
            yield both


@contextmanager
def _explained(server: Server, process: Ottla | Oracle) -> Iterator[None]:
    """A set-up that fails shows what the broker has logged."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"{server.name}, port by port {[*LISTENERS]} from {server.at('OPEN')}; {process.log_tail()}"
        )
        raise


def _settings(papers: Papers, port: int, *others: str) -> dict[str, object]:
    addresses = [f"{name}://127.0.0.1:{port + i}" for i, name in enumerate(LISTENERS)]
    protocols = [f"{name}:{protocol}" for name, protocol in LISTENERS.items()]
    settings: dict[str, object] = {
        "listeners": ",".join([*addresses, *others]),
        "advertised.listeners": ",".join(addresses),
        "listener.security.protocol.map": ",".join(
            [*protocols, *(["CONTROLLER:PLAINTEXT"] if others else [])]
        ),
        "inter.broker.listener.name": "OPEN",
        "super.users": "",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": papers.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": papers.authority,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": papers.expired_server,
        "listener.name.one.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.one.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.unsigned.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.unsigned.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule "
        'required unsecuredLoginStringClaim_sub="broker";',
        "listener.name.unsigned.oauthbearer.sasl.server.callback.handler.class": f"{_MODULES}.oauthbearer.internals."
        "unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
        # Of the listener, and of one of its mechanisms.
        "listener.name.brief.connections.max.reauth.ms": REAUTHENTICATION_MS,
        "listener.name.brief.plain.connections.max.reauth.ms": 2 * REAUTHENTICATION_MS,
    }
    for name in ("tokens", "both"):
        prefix = f"listener.name.{name}"
        settings |= {
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": Path(papers.keys).as_uri(),
            f"{prefix}.sasl.oauthbearer.expected.audience": _AUDIENCE,
            f"{prefix}.sasl.oauthbearer.clock.skew.seconds": 0,  # a token that is over cannot log in again
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": f"{_MODULES}.oauthbearer."
            "OAuthBearerValidatorCallbackHandler",
        }
    users = 'user_alice="alice-secret" user_bob="bob-secret"'
    for name in ("users", "brief", "both"):
        mechanisms = ["PLAIN", *SCRAM, *(["OAUTHBEARER"] if name == "both" else [])]
        settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f"{_MODULES}.plain.PlainLoginModule required {users};"
        )
        for each in SCRAM:
            settings[f"listener.name.{name}.{each.lower()}.sasl.jaas.config"] = (
                f"{_MODULES}.scram.ScramLoginModule required;"
            )
    return settings


@dataclass(frozen=True)
class Login:
    """What a client is told, but for the address."""

    protocol: str
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    authority: str = ""
    certificate: str = ""  # a file of key and certificate
    patience_s: int = (
        3  # of clients that try again until their time is up; what is to succeed may take longer
    )

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")


class Client(Protocol):
    """`outcome` is "ok", or how the client reports the failure."""

    name: str

    def outcome(self, bootstrap: str, login: Login) -> str: ...


class Confluent:
    name = "confluent-kafka"

    def outcome(self, bootstrap: str, login: Login) -> str:
        errors: list[confluent_kafka.KafkaError] = []
        admin = AdminClient({**self.settings(bootstrap, login), "error_cb": errors.append})
        answer = admin.describe_cluster(request_timeout=_LOGIN_S)
        while not errors and not answer.done():
            admin.poll(0.05)
        # A lost connection says less than its reason, which may be reported after it.
        deadline = time.monotonic() + _REASON_S
        while errors and self._reason(errors) is None and time.monotonic() < deadline:
            admin.poll(0.05)
        if errors:
            return self._reason(errors) or str(errors[0].name())
        return "ok" if answer.result() else "nothing"

    @staticmethod
    def _reason(errors: list[confluent_kafka.KafkaError]) -> str | None:
        return next((str(each.name()) for each in errors if each.name() not in _LOST), None)

    def settings(self, bootstrap: str, login: Login) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "security.protocol": login.protocol}
        if login.has_tls:
            settings["ssl.ca.location"] = login.authority
        if login.certificate:
            settings |= {"ssl.certificate.location": login.certificate, "ssl.key.location": login.certificate}
        if login.mechanism:
            settings["sasl.mechanism"] = login.mechanism
        if login.token:
            settings["oauth_cb"] = lambda _: (login.token, time.time() + 600)
        elif login.mechanism:
            settings |= {"sasl.username": login.user, "sasl.password": login.password}
        return settings


class _Provider(kafka.net.sasl.oauth.AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class KafkaPython:
    name = "kafka-python"

    def outcome(self, bootstrap: str, login: Login) -> str:
        """It tries again until it times out, whatever the broker says."""
        try:
            admin = kafka.KafkaAdminClient(
                **self.settings(bootstrap, login), bootstrap_timeout_ms=(login.patience_s - 2) * 1000
            )
        except kafka.errors.KafkaError as error:
            return type(error).__name__
        try:
            return "ok" if admin.describe_cluster() else "nothing"
        finally:
            admin.close()

    def settings(self, bootstrap: str, login: Login) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": login.protocol}
        if login.has_tls:
            settings["ssl_cafile"] = login.authority
        if login.certificate:
            settings |= {"ssl_certfile": login.certificate, "ssl_keyfile": login.certificate}
        if login.mechanism:
            settings["sasl_mechanism"] = login.mechanism
        if login.token:
            settings["sasl_oauth_token_provider"] = _Provider(login.token)
        elif login.mechanism:
            settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
        return settings


class _AsyncProvider(aiokafka.abc.AbstractTokenProvider):
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class Aiokafka:
    name = "aiokafka"

    def outcome(self, bootstrap: str, login: Login) -> str:
        return asyncio.run(self._outcome(bootstrap, login))

    async def _outcome(self, bootstrap: str, login: Login) -> str:
        """Of its connection: a client of aiokafka only says that it could not bootstrap, and logs this error."""
        host, _, port = bootstrap.partition(":")
        settings = self.settings(login)
        try:
            connection = await aiokafka.conn.create_conn(
                host, int(port), request_timeout_ms=20_000, **settings
            )
        except (OSError, aiokafka.errors.KafkaError) as error:
            return f"{type(error).__name__} {getattr(error, 'reason', '') or ''}"
        try:
            # With TLS 1.3 a refused certificate shows in the first answer.
            answer = await connection.send(MetadataRequest([]))
            return "ok" if answer.brokers else "no brokers"
        except aiokafka.errors.KafkaError as error:
            return type(error).__name__
        finally:
            connection.close()

    def settings(self, login: Login) -> dict[str, Any]:
        settings: dict[str, Any] = {"security_protocol": login.protocol}
        if login.has_tls:
            certificate = {"certfile": login.certificate} if login.certificate else {}
            settings["ssl_context"] = aiokafka.helpers.create_ssl_context(
                cafile=login.authority, **certificate
            )
        if login.mechanism:
            settings["sasl_mechanism"] = login.mechanism
        if login.token:
            settings["sasl_oauth_token_provider"] = _AsyncProvider(login.token)
        elif login.mechanism:
            settings |= {"sasl_plain_username": login.user, "sasl_plain_password": login.password}
        return settings


class Java:
    """One JVM for all logins, one after the other; a context manager."""

    name = "java"

    def __init__(self, papers: Papers) -> None:
        self._papers = papers

    def __enter__(self) -> Java:
        self._process = programs.start(
            "Logins", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def outcome(self, bootstrap: str, login: Login) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        pairs = (f"{name}={value}" for name, value in self.settings(bootstrap, login).items())
        self._process.stdin.write(" ".join(b64encode(pair.encode()).decode() for pair in pairs) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _LOGIN_S)
        assert ready, f"nothing from the Java client within {_LOGIN_S} s"
        said = self._process.stdout.readline().strip()
        # It times out in one place or another; its thread may even end, from the alert that Kafka sends in plain text.
        return "TimeoutException" if said.startswith("TimeoutException") else _LIST.sub(_sorted, said)

    def settings(self, bootstrap: str, login: Login) -> dict[str, str]:
        settings = {"bootstrap.servers": bootstrap, "security.protocol": login.protocol}
        settings |= {
            "default.api.timeout.ms": str(login.patience_s * 1000),
            "request.timeout.ms": str((login.patience_s - 1) * 1000),
        }
        if login.has_tls:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.authority}
        if login.certificate:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login.certificate}
        if login.mechanism:
            settings["sasl.mechanism"] = login.mechanism
        if login.token:
            settings |= self._token(login.token)
        elif login.mechanism:
            module = "plain.PlainLoginModule" if login.mechanism == "PLAIN" else "scram.ScramLoginModule"
            settings["sasl.jaas.config"] = (
                f'{_MODULES}.{module} required username="{login.user}" password="{login.password}";'
            )
        return settings

    def _token(self, token: str) -> dict[str, str]:
        oauth = f"{_MODULES}.oauthbearer"
        return {
            "sasl.jaas.config": f"{oauth}.OAuthBearerLoginModule required;",
            "sasl.login.callback.handler.class": f"{oauth}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": Path(self._papers.token_file(token)).as_uri(),
        }
