"""The same logins at Ottla and Apache Kafka, configured alike: who gets in, and how clients report a refusal."""

from __future__ import annotations

import asyncio
import re
import select
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import pytest

from tests.compat.logins import (
    REAUTHENTICATION_MS,
    SCRAM,
    TOPIC,
    Aiokafka,
    Client,
    Confluent,
    Java,
    KafkaPython,
    Login,
    Papers,
    Server,
    servers,
)
from tests.oracle import programs
from tests.oracle.cluster import run_tool, start_tool

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]
PATIENCE_S = 120
CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka", "java")
MECHANISMS = ("PLAIN", *SCRAM)
ACCEPTED = (
    *(f"{mechanism}: right, {where}" for mechanism in MECHANISMS for where in ("plain text", "TLS")),
    "SCRAM-SHA-256: alone on its listener",
    "OAUTHBEARER: right",
    "OAUTHBEARER: right, TLS",
    "TLS: right",
    "client certificate: right",
)
BAD_TOKENS = tuple(
    f"OAUTHBEARER: {wrong}"
    for wrong in ("expired", "another audience", "forged", "without iat", "expired, TLS", "forged, TLS")
)
REFUSED = (
    *(
        f"{mechanism}: {wrong}"
        for mechanism in MECHANISMS
        for wrong in ("wrong password", "wrong password, TLS", "unknown user")
    ),
    *(f"{mechanism}: not offered" for mechanism in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")),
    *BAD_TOKENS,
    *(f"plain text at {listener}" for listener in ("USERS", "BOTH", "TLS")),
    "SASL without TLS at BOTH",
    "SASL at OPEN",
    "TLS at USERS",
    "TLS without SASL at BOTH",
    "TLS: untrusted authority",
    "TLS: expired",
    *(f"client certificate: {wrong}" for wrong in ("none", "expired", "of another authority")),
)


def logins(papers: Papers) -> dict[str, tuple[str, Login]]:
    """By the scenario's name: the listener, and what the client is told."""
    authority, token, past_s = papers.authority, papers.token, int(time.time()) - 600
    every: dict[str, tuple[str, Login]] = {}
    for each in MECHANISMS:
        in_clear, in_tls = ("SASL_PLAINTEXT", each), ("SASL_SSL", each)
        every |= {
            f"{each}: right, plain text": ("USERS", Login(*in_clear, "alice", "alice-secret")),
            f"{each}: right, TLS": ("BOTH", Login(*in_tls, "alice", "alice-secret", authority=authority)),
            f"{each}: wrong password": ("USERS", Login(*in_clear, "alice", "wrong")),
            f"{each}: wrong password, TLS": ("BOTH", Login(*in_tls, "alice", "wrong", authority=authority)),
            f"{each}: unknown user": ("USERS", Login(*in_clear, "nobody", "wrong")),
        }
    for name, each in (
        ("alone on its listener", "SCRAM-SHA-256"),
        ("not offered", "PLAIN"),
        ("not offered", "SCRAM-SHA-512"),
    ):
        every[f"{each}: {name}"] = ("ONE", Login("SASL_PLAINTEXT", each, "alice", "alice-secret"))
    bearer = ("SASL_PLAINTEXT", "OAUTHBEARER")
    tokens = {
        "right": token(),
        "expired": token(exp=past_s, iat=past_s - 60),
        "another audience": token(aud="others"),
        "forged": token(forged=True),
        "without iat": token(iat=None),
    }
    every |= {f"OAUTHBEARER: {name}": ("TOKENS", Login(*bearer, token=text)) for name, text in tokens.items()}
    for name in ("right", "expired", "forged"):
        over_tls = Login("SASL_SSL", "OAUTHBEARER", token=tokens[name], authority=authority)
        every[f"OAUTHBEARER: {name}, TLS"] = ("BOTH", over_tls)
    every["OAUTHBEARER: not offered"] = ("USERS", Login(*bearer, token=token()))
    every |= {f"plain text at {each}": (each, Login("PLAINTEXT")) for each in ("USERS", "BOTH", "TLS")}
    alice = ("PLAIN", "alice", "alice-secret")
    tls = Login("SSL", authority=authority)
    every |= {
        "SASL without TLS at BOTH": ("BOTH", Login("SASL_PLAINTEXT", *alice)),
        "SASL at OPEN": ("OPEN", Login("SASL_PLAINTEXT", *alice)),
        "TLS at USERS": ("USERS", tls),
        "TLS without SASL at BOTH": ("BOTH", tls),
        "TLS: right": ("TLS", tls),
        "TLS: untrusted authority": ("TLS", Login("SSL", authority=papers.another_authority)),
        "TLS: expired": ("EXPIRED", tls),
    }
    certificates = {
        "right": papers.client,
        "none": "",
        "expired": papers.expired_client,
        "of another authority": papers.strange_client,
    }
    for name, file in certificates.items():
        shown = Login("SSL", authority=authority, certificate=file)
        every[f"client certificate: {name}"] = ("MUTUAL", shown)
    for name in ACCEPTED:
        listener, login = every[name]
        every[name] = listener, replace(login, patience_s=60)
    return every


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def both(papers: Papers) -> Iterator[tuple[Server, Server]]:
    with pytest.MonkeyPatch.context() as patch:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={Path(papers.keys).as_uri()}"
        patch.setenv("KAFKA_OPTS", allowed)
        with servers(papers) as running:
            yield running


Outcomes = dict[tuple[str, str, str], "Future[str]"]


@pytest.fixture(scope="module")
def outcomes(papers: Papers, both: tuple[Server, Server]) -> Iterator[Outcomes]:
    """By client, scenario and server. Most of a refusal is waiting: each client has a thread at each server."""
    results: Outcomes = {}
    every = logins(papers)
    assert sorted(every) == sorted((*ACCEPTED, *REFUSED))
    with ExitStack() as stack:
        for server in both:
            java = stack.enter_context(Java(papers))
            clients: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka(), java)
            for client in clients:
                thread = stack.enter_context(ThreadPoolExecutor(1))
                stack.callback(thread.shutdown, cancel_futures=True)
                for name, (listener, login) in every.items():
                    pending = thread.submit(client.outcome, server.at(listener), login)
                    results[client.name, name, server.name] = pending
        yield results


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scenario", ACCEPTED)
def test_who_gets_in_at_kafka_gets_in_here(outcomes: Outcomes, client: str, scenario: str) -> None:
    assert outcomes[client, scenario, "kafka"].result() == "ok"
    assert outcomes[client, scenario, "ottla"].result() == "ok"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scenario", REFUSED)
def test_a_refusal_is_reported_as_at_kafka(outcomes: Outcomes, client: str, scenario: str) -> None:
    theirs = outcomes[client, scenario, "kafka"].result()
    ours = outcomes[client, scenario, "ottla"].result()
    assert theirs != "ok"
    if client == "aiokafka" and scenario in BAD_TOKENS:
        # It goes on as if it had logged in. Kafka answers with empty metadata before it closes the connection.
        assert (ours, theirs) == ("KafkaConnectionError", "no brokers")
    else:
        assert ours == theirs


def test_a_mechanism_may_have_sessions_of_its_own_length(both: tuple[Server, Server]) -> None:
    for server in both:
        assert plain_session_ms(server.at("BRIEF")) == 2 * REAUTHENTICATION_MS
        assert plain_session_ms(server.at("USERS")) == 0


def plain_session_ms(address: str) -> int:
    """How long the broker says that a login with PLAIN lasts."""
    token = b"\0alice\0alice-secret"
    requests = (
        struct.pack(">hhihh5s", 17, 1, 1, -1, 5, b"PLAIN"),
        struct.pack(">hhihi", 36, 1, 2, -1, len(token)) + token,
    )
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), 60) as connection, connection.makefile("rb") as answers:
        for request in requests:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = answers.read(struct.unpack(">i", answers.read(4))[0])
            assert answer[4:6] == b"\0\0"
    return int.from_bytes(answer[-8:])


@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_user_that_is_removed_is_out_when_its_session_ends(
    both: tuple[Server, Server], mechanism: str
) -> None:
    with ThreadPoolExecutor(2) as threads:
        ours, theirs = threads.map(lambda server: removed_while_connected(server, mechanism), both)
    assert ours == theirs == (None, "_AUTHENTICATION", "_MSG_TIMED_OUT")


def removed_while_connected(server: Server, mechanism: str) -> tuple[str | None, str, str | None]:
    """What became of a record before, which error the client reported, what became of a record after."""
    user = f"carol-{mechanism.lower()}"
    server.set_user(user, "secret", mechanism)
    errors: list[confluent_kafka.KafkaError] = []
    login = Login("SASL_PLAINTEXT", mechanism, user, "secret")
    settings = Confluent().settings(server.at("BRIEF"), login)
    began = time.monotonic()
    producer = confluent_kafka.Producer(
        {**settings, "error_cb": errors.append, "message.timeout.ms": 8000, "linger.ms": 0}
    )
    producer.list_topics(timeout=60)  # it has logged in: the time of a record is not spent on that
    before = delivery(producer)
    server.remove_user(user, mechanism)
    # It says nothing before it has to log in again: on a busy machine it may have had to by now.
    assert not errors or time.monotonic() - began > REAUTHENTICATION_MS / 1000 / 2, errors
    while not errors:
        producer.poll(0.1)
    return before, str(errors[0].name()), delivery(producer)


@pytest.mark.parametrize("client", [Confluent(), KafkaPython(), Aiokafka()], ids=lambda client: client.name)
def test_tokens_without_a_signature_are_taken_where_they_are_asked_for(
    both: tuple[Server, Server], papers: Papers, client: Client
) -> None:
    past_s = int(time.time()) - 600
    bearer = ("SASL_PLAINTEXT", "OAUTHBEARER")
    right = Login(*bearer, token=papers.unsigned_token(), patience_s=60)
    wrong = {
        "over": Login(*bearer, token=papers.unsigned_token(exp=past_s, iat=past_s - 60)),
        "without an end": Login(*bearer, token=papers.unsigned_token(exp=None)),
        "of nobody": Login(*bearer, token=papers.unsigned_token(sub=None)),
        "signed": Login(*bearer, token=papers.token()),
    }

    def check(server: Server) -> None:
        assert client.outcome(server.at("UNSIGNED"), right) == "ok", server.name
        assert client.outcome(server.at("TOKENS"), replace(right, patience_s=3)) != "ok", server.name
        for name, login in wrong.items():
            assert client.outcome(server.at("UNSIGNED"), login) != "ok", (server.name, name)

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(check, both)) == [None, None]


def test_java_makes_unsigned_tokens_of_its_own(both: tuple[Server, Server], tmp_path: Path) -> None:
    config = tmp_path / "unsigned.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="alice";\n'
    )

    def create(server: Server) -> str:
        where = ("--bootstrap-server", server.at("UNSIGNED"), "--command-config", str(config))
        return run_tool("kafka-topics", *where, "--create", "--topic", "unsigned")

    with ThreadPoolExecutor(2) as threads:
        assert all("Created topic unsigned" in said for said in threads.map(create, both))


def delivery(producer: confluent_kafka.Producer) -> str | None:
    """The name of the error that a record met, or None."""
    results: list[str | None] = []
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: results.append(error and error.name()))
    assert producer.flush(60) == 0
    return results[0]


class Sender(Protocol):
    """A producer that has logged in; `send` raises if its record was refused, or not acknowledged."""

    def send(self) -> None: ...

    def close(self) -> None: ...


class KafkaPythonSender:
    def __init__(self, bootstrap: str, login: Login) -> None:
        patience = {"max_block_ms": 4000, "request_timeout_ms": 3000, "delivery_timeout_ms": 4000}
        self._producer = kafka.KafkaProducer(
            **KafkaPython().settings(bootstrap, login), **patience, enable_idempotence=False, linger_ms=0
        )

    def send(self) -> None:
        self._producer.send(TOPIC, b"x").get(10)

    def close(self) -> None:
        self._producer.close(0)


class AiokafkaSender:
    def __init__(self, bootstrap: str, login: Login) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._loop.run_until_complete(self._started(bootstrap, login))

    async def _started(self, bootstrap: str, login: Login) -> aiokafka.AIOKafkaProducer:
        settings = {**Aiokafka().settings(login), "request_timeout_ms": 3000}
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, **settings)
        await producer.start()
        return producer

    def send(self) -> None:
        self._loop.run_until_complete(asyncio.wait_for(self._producer.send_and_wait(TOPIC, b"x"), 10))

    def close(self) -> None:
        with suppress(TimeoutError, aiokafka.errors.KafkaError):
            self._loop.run_until_complete(asyncio.wait_for(self._producer.stop(), 5))
        self._loop.close()


class Refused(Exception):
    """With the name of Java's exception."""


class JavaSender:
    """Java's console producer: a line is a record; what it says of one that failed is the error."""

    def __init__(self, bootstrap: str, login: Login) -> None:
        self._folder = tempfile.TemporaryDirectory()
        settings = Java(None).settings(bootstrap, login) | {
            "max.block.ms": "4000",
            "request.timeout.ms": "3000",
            "delivery.timeout.ms": "4000",
            "linger.ms": "0",
        }
        config = Path(self._folder.name) / "producer.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        words = ("--bootstrap-server", bootstrap, "--topic", TOPIC, "--command-config", str(config), "--sync")
        self._process = start_tool(
            "kafka-console-producer",
            *words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def send(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("x\n")
        self._process.stdin.flush()
        while select.select([self._process.stdout], [], [], 0.3)[0]:
            line = self._process.stdout.readline()
            found = re.search(r"errors\.(\w+)Exception", line)
            if found is not None:
                raise Refused(found[1])
            assert line, "the console producer has ended"

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


SENDERS: dict[str, Callable[[str, Login], Sender]] = {
    "kafka-python": KafkaPythonSender,
    "aiokafka": AiokafkaSender,
    "java": JavaSender,
}


# kafka-python tries to log in again and again, and tells whichever comes first: the refusal, or that the time is up.
NEVER_TOLD_APART = {"KafkaTimeoutError", "SaslAuthenticationFailedError"}


@pytest.mark.parametrize("client", SENDERS)
def test_every_client_of_a_removed_user_is_out_when_its_session_ends(
    both: tuple[Server, Server], client: str
) -> None:
    """Some of them never log in again on a connection: theirs is closed, and the next login is refused."""
    with ThreadPoolExecutor(2) as threads:
        ours, theirs = threads.map(lambda server: sends_until_refused(server, client), both)
    assert ours == theirs or {ours, theirs} == NEVER_TOLD_APART


def sends_until_refused(server: Server, client: str) -> str:
    """How the client reports it; then no record of it arrives any more."""
    user = f"dave-{client}"
    server.set_user(user, "secret", "SCRAM-SHA-256")
    sender: Sender = SENDERS[client](
        server.at("BRIEF"), Login("SASL_PLAINTEXT", "SCRAM-SHA-256", user, "secret")
    )
    try:
        before = end_offset(server)
        sender.send()
        until(lambda: end_offset(server) > before)  # Java's tool takes its time to start and to log in
        server.remove_user(user, "SCRAM-SHA-256")
        error = first_error(sender)
        end = end_offset(server)
        first_error(sender)
        assert end_offset(server) == end
        return error
    finally:
        sender.close()


def first_error(sender: Sender) -> str:
    errors: list[Exception] = []

    def is_refused() -> bool:
        try:
            sender.send()
        except Exception as error:
            errors.append(error)
        return bool(errors)

    until(is_refused)
    return str(errors[0]) if isinstance(errors[0], Refused) else type(errors[0]).__name__


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s"
        time.sleep(0.1)


def end_offset(server: Server) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": server.at("OPEN"), "group.id": "ends"})
    try:
        _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(TOPIC, 0), timeout=60)
    finally:
        consumer.close()
    return int(end)
