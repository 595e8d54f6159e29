"""Delegation tokens beside Apache Kafka with the same users and rules: same answers, same logins; and its own tool."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.client.loop import security
from ottla.errors import NAMES
from ottla.testing import Broker
from ottla.wire import codec
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenResponse
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenResponse
from ottla.wire.schema import Message
from tests.compat.fences import fence
from tests.compat.raw import Raw
from tests.oracle.cluster import Oracle, run_tool, why_not
from tests.oracle.ports import free_ports

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
MODULES = "org.apache.kafka.common.security"
USERS = ("alice", "bob", "dave")
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(("PLAIN", *MECHANISMS)),
    "listener.name.client.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required username="x" '
    'password="y" ' + " ".join(f'user_{name}="{name}-secret"' for name in USERS) + ";",
    **{
        f"listener.name.client.{name.lower()}.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;"
        for name in MECHANISMS
    },
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "secret-of-the-brokers",
    "delegation.token.max.lifetime.ms": "7200000",
    "delegation.token.expiry.time.ms": "3600000",
}
RENEW, EXPIRE = "renew_delegation_token", "expire_delegation_token"
RESPONSES: dict[str, type[Message]] = {
    RENEW: RenewDelegationTokenResponse,
    EXPIRE: ExpireDelegationTokenResponse,
}
DELEGATION_TOKEN, USER, DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 6, 7, 8, 13, 14


class Server:
    def __init__(self, name: str, clients: str, inside: str) -> None:
        self.name, self.clients, self.admin = name, clients, Raw(inside)

    def plain(self, user: str) -> Raw:
        raw = Raw(self.clients)
        raw.call("sasl_handshake", 1, {"mechanism": "PLAIN"})
        answer = raw.call("sasl_authenticate", 2, {"auth_bytes": f"\0{user}\0{user}-secret".encode()})
        assert answer["error_code"] == "NONE"
        return raw

    def with_token(self, mechanism: str, name: str, secret: str, *, is_token: bool = True) -> Raw | str:
        """A connection that has logged in, or why it could not."""
        raw = Raw(self.clients)
        raw.call("sasl_handshake", 1, {"mechanism": mechanism})
        exchange = security.scram(
            mechanism.removeprefix("SCRAM-").replace("-", "").lower(), name, secret, is_token=is_token
        )
        message = next(exchange)
        while True:
            answer = raw.call("sasl_authenticate", 2, {"auth_bytes": message})
            if answer["error_code"] != "NONE":
                raw.close()
                return str(answer["error_code"])
            try:
                message = exchange.send(answer["auth_bytes"])
            except StopIteration:
                return raw

    def allow(self, user: str, operation: int, kind: int, name: str) -> None:
        rule = {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": 3,
            "principal": f"User:{user}",
            "host": "*",
            "operation": operation,
            "permission_type": 3,
        }
        answer = self.admin.call("create_acls", 3, {"creations": [rule]})
        assert answer["results"][0]["error_code"] == "NONE"
        self.fence()

    def fence(self) -> None:
        fence(self.admin)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Server]:
    with Oracle(listeners="sasl_plain", settings=SETTINGS, heap="512M") as oracle:
        yield Server("kafka", f"127.0.0.1:{oracle.port}", f"127.0.0.1:{oracle.port + 50}")


@pytest.fixture(scope="module")
def ottla() -> Iterator[Server]:
    clients, inside = free_ports(2)
    listeners = {
        "listeners": f"CLIENT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{inside}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with Broker(listeners | SETTINGS):
        yield Server("ottla", f"127.0.0.1:{clients}", f"127.0.0.1:{inside}")


def create(
    raw: Raw, *renewers: tuple[str, str], lifetime_ms: int = -1, owner: str | None = None, version: int = 3
) -> Any:
    body = {
        "owner_principal_type": "User" if owner else None,
        "owner_principal_name": owner,
        "renewers": [{"principal_type": kind, "principal_name": name} for kind, name in renewers],
        "max_lifetime": lifetime_ms,
    }
    return ask(raw, "create_delegation_token", version, body, CreateDelegationTokenResponse)


def ask(raw: Raw, api: str, version: int, body: dict[str, Any], kind: type[Message]) -> Any:
    """kio does not read the times of a token that has none."""
    raw.send(api, version, body)
    answer, _ = codec.read(kind, version, raw.receive_frame(), 5 if version >= kind.FLEXIBLE_FROM else 4)
    fields = {field.name.removesuffix("_ms"): getattr(answer, field.name) for field in kind.FIELDS}
    return fields | {"error_code": NAMES[fields["error_code"]]}


def seen(answer: Any) -> Any:
    """Without what is another on each server: the id, the secret, and when it was made."""
    times = [answer[each] for each in ("issue_timestamp", "expiry_timestamp", "max_timestamp")]
    shown = {key: value for key, value in answer.items() if not key.endswith("timestamp")}
    shown["hmac"], shown["token_id"] = len(answer["hmac"]), bool(answer["token_id"])
    return shown, times if answer["error_code"] != "NONE" else [each - times[0] for each in times]


def describe(raw: Raw, owners: list[str] | None) -> Any:
    wanted = (
        None if owners is None else [{"principal_type": "User", "principal_name": each} for each in owners]
    )
    answer = raw.call("describe_delegation_token", 3, {"owners": wanted})
    return answer["error_code"], sorted(each["principal_name"] for each in answer["tokens"])


def story(server: Server) -> list[tuple[str, Any]]:
    """One thing after the other, and what each was answered."""
    noted: list[tuple[str, Any]] = []

    def note(step: str, answer: Any) -> None:
        noted.append((step, answer))

    def code(raw: Raw, api: str, **body: Any) -> str:
        return str(ask(raw, api, 2, body, RESPONSES[api])["error_code"])

    alice, bob, dave = map(server.plain, USERS)
    note("anonymous creates", create(server.admin)["error_code"])
    note("anonymous describes", describe(server.admin, None))
    note("anonymous renews", code(server.admin, "renew_delegation_token", hmac=b"x", renew_period=-1))
    token = create(alice, ("User", "bob"))
    note("created", seen(token))
    for version in (1, 2):
        note(f"created v{version}", create(alice, version=version)["error_code"])
    note("short", seen(create(alice, lifetime_ms=60_000)))
    note("too long", seen(create(alice, lifetime_ms=10**12)))
    note("a renewer that is no user", seen(create(alice, ("Group", "bob"))))
    note("for another", seen(create(dave, owner="carol")))
    server.allow("dave", CREATE_TOKENS, USER, "User:carol")
    note("for another, allowed", seen(create(dave, ("User", "bob"), owner="carol")))
    server.fence()
    for who, raw in (("alice", alice), ("bob", bob), ("dave", dave)):
        for owners in (None, ["alice"], ["bob"], ["carol"], ["dave"], ["alice", "carol"], []):
            note(f"{who} describes {owners}", describe(raw, owners))
    server.allow("dave", DESCRIBE, DELEGATION_TOKEN, token["token_id"])
    note("dave describes, with a right on one", describe(dave, None))
    server.allow("dave", DESCRIBE_TOKENS, USER, "User:alice")
    note("dave describes, with a right on alice", describe(dave, None))
    note("dave renews", code(dave, "renew_delegation_token", hmac=token["hmac"], renew_period=-1))
    note("bob renews", code(bob, "renew_delegation_token", hmac=token["hmac"], renew_period=600_000))
    note("nothing is renewed", code(bob, "renew_delegation_token", hmac=b"nothing", renew_period=-1))
    server.fence()
    secret = base64.b64encode(token["hmac"]).decode()
    for mechanism in MECHANISMS:
        program = server.with_token(mechanism, token["token_id"], secret)
        assert isinstance(program, Raw), (server.name, mechanism, program)
        note(f"{mechanism}: a token makes no tokens", create(program)["error_code"])
        note(f"{mechanism}: nor sees any", describe(program, None))
        note(f"{mechanism}: a wrong secret", server.with_token(mechanism, token["token_id"], "wrong"))
        note(f"{mechanism}: unknown", server.with_token(mechanism, "unknown", secret))
        note(
            f"{mechanism}: not said", server.with_token(mechanism, token["token_id"], secret, is_token=False)
        )
        program.close()
    note("dave expires", code(dave, "expire_delegation_token", hmac=token["hmac"], expiry_time_period=-1))
    note(
        "alice expires later",
        code(alice, "expire_delegation_token", hmac=token["hmac"], expiry_time_period=500),
    )
    time.sleep(0.6)
    note("renewed too late", code(alice, "renew_delegation_token", hmac=token["hmac"], renew_period=-1))
    note("expired too late", code(alice, "expire_delegation_token", hmac=token["hmac"], expiry_time_period=9))
    note("alice expires", code(alice, "expire_delegation_token", hmac=token["hmac"], expiry_time_period=-1))
    server.fence()
    note("renewed after its end", code(alice, "renew_delegation_token", hmac=token["hmac"], renew_period=-1))
    note("logged in after its end", server.with_token(MECHANISMS[0], token["token_id"], secret))
    return noted


def test_tokens_are_kafkas(kafka: Server, ottla: Server) -> None:
    theirs, ours = story(kafka), story(ottla)
    assert len(ours) > 40
    assert ours == theirs


def test_without_a_key_tokens_are_disabled() -> None:
    answers = []
    settings = {name: value for name, value in SETTINGS.items() if not name.startswith("delegation")}
    clients, inside = free_ports(2)
    listeners = {
        "listeners": f"CLIENT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{inside}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    with (
        Oracle(listeners="sasl_plain", settings=settings, heap="512M") as oracle,
        Broker(listeners | settings),
    ):
        for bootstrap, admin in (
            (f"127.0.0.1:{oracle.port}", f"127.0.0.1:{oracle.port + 50}"),
            (f"127.0.0.1:{clients}", f"127.0.0.1:{inside}"),
        ):
            alice = Server("", bootstrap, admin).plain("alice")
            answers.append(
                (
                    seen(create(alice)),
                    describe(alice, None),
                    ask(alice, RENEW, 2, {"hmac": b"x", "renew_period": 1}, RESPONSES[RENEW]),
                    ask(alice, EXPIRE, 2, {"hmac": b"x", "expiry_time_period": 1}, RESPONSES[EXPIRE]),
                )
            )
    assert answers[0] == answers[1]


def test_javas_tool_and_ours_print_the_same_and_javas_client_logs_in_with_a_token(
    ottla: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "alice.properties"
    login = f'{MODULES}.plain.PlainLoginModule required username="alice" password="alice-secret";'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    where = ["--bootstrap-server", ottla.clients, "--command-config", str(config)]

    def java(*words: str) -> str:
        return run_tool("kafka-delegation-tokens", *where, *words)

    def ours(*words: str) -> str:
        capsys.readouterr()
        assert main(["kafka-delegation-tokens", *where, *words]) == 0
        return capsys.readouterr().out

    new = ("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    made, made_by_ours = java(*new), ours(*new)
    assert shape(made_by_ours) == shape(made)
    token_id, secret = made.splitlines()[-1].split()[:2]
    for words in (
        ("--describe", "--owner-principal", "User:alice"),
        ("--renew", "--renew-time-period", "60000", "--hmac", secret),
    ):
        assert shape(ours(*words)) == shape(java(*words)), words
    token = f'{MODULES}.scram.ScramLoginModule required username="{token_id}" password="{secret}" tokenauth="true";'
    config.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={token}\n"
    )
    ottla.allow("alice", DESCRIBE, 4, "kafka-cluster")
    assert '"error":null' in run_tool("kafka-log-dirs", "--describe", *where)
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    assert shape(java("--expire", "--expiry-time-period", "-1", "--hmac", secret))


def shape(text: str) -> list[list[str]]:
    """Its lines as words, without ids, secrets and times."""
    written = [line for line in text.splitlines() if line.strip()]
    return sorted([word for word in line.split() if not is_own(word)] for line in written)


def is_own(word: str) -> bool:
    return len(word) > 20 or word.startswith("20")
