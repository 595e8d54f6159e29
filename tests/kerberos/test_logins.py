"""Logins with Kerberos tickets of a real KDC at Ottla and Apache Kafka, configured alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ottla.client import Admin
from ottla.errors import TopicAuthorizationFailed
from tests.kerberos import kdc as kdc_module
from tests.kerberos.kdc import Kdc
from tests.kerberos.servers import Dialogue, Java, KafkaPython, Login, Ours, Server, library, servers
from tests.oracle import programs

gssapi = pytest.importorskip("gssapi", reason="the extra `kerberos` is not installed (make test-kerberos)")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(kdc_module.why_not() is not None, reason=str(kdc_module.why_not())),
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]
CLIENTS = ("ottla", "kafka-python", "java")
ACCEPTED = ("tickets of a cache", "keys of a keytab")
REFUSED = (
    "no ticket",
    "an expired ticket",
    "a ticket for another service",
    "a service that the KDC does not know",
    "a principal that the KDC has forgotten",
    "a principal to which no rule applies",
)
FAILED = 58  # SASL_AUTHENTICATION_FAILED


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(tmp_path_factory.mktemp("kdc")) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def both(kdc: Kdc) -> Iterator[tuple[Server, Server]]:
    with servers(kdc, kdc.keytab("kafka/localhost")) as running:
        yield running


@pytest.fixture(scope="module")
def logins(kdc: Kdc) -> dict[str, Login]:
    alice, bob, eve, ghost = (kdc.keytab(name) for name in ("alice", "bob", "eve/visitor", "ghost"))
    kdc.keytab("other/localhost")
    kdc.forget("ghost")
    tickets = kdc.tickets("alice", alice)
    short = kdc.tickets("alice", alice, "3s")
    kdc.wait_until_expired(short, "other/localhost")
    return {
        "tickets of a cache": Login(tickets),
        "keys of a keytab": Login(keytab=alice, principal="alice"),
        "no ticket": Login("FILE:/nonexistent"),
        "an expired ticket": Login(short),
        "a ticket for another service": Login(tickets, service="other"),
        "a service that the KDC does not know": Login(tickets, service="nobody"),
        "a principal that the KDC has forgotten": Login(keytab=ghost, principal="ghost"),
        "a principal to which no rule applies": Login(keytab=eve, principal="eve/visitor"),
        "bob": Login(keytab=bob, principal="bob"),
    }


Outcomes = dict[tuple[str, str, str], str]


@pytest.fixture(scope="module")
def outcomes(kdc: Kdc, both: tuple[Server, Server], logins: dict[str, Login]) -> Outcomes:
    """By client, scenario and server."""
    with ExitStack() as stack:
        clients = (Ours(), KafkaPython(), stack.enter_context(Java(kdc)))
        return {
            (client.name, scenario, server.name): client.outcome(server.address, logins[scenario])
            for client in clients
            for scenario in (*ACCEPTED, *REFUSED)
            for server in both
        }


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scenario", ACCEPTED)
def test_who_gets_in_at_kafka_gets_in_here(outcomes: Outcomes, client: str, scenario: str) -> None:
    assert outcomes[client, scenario, "kafka"] == "ok"
    assert outcomes[client, scenario, "ottla"] == "ok"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scenario", REFUSED)
def test_a_refusal_is_reported_as_at_kafka(outcomes: Outcomes, client: str, scenario: str) -> None:
    theirs, ours = outcomes[client, scenario, "kafka"], outcomes[client, scenario, "ottla"]
    assert theirs != "ok"
    if scenario == "a principal to which no rule applies" and client != "kafka-python":
        # Kafka says that the login was right, and closes the connection at the first request.
        assert theirs in ("TimedOut", "TimeoutException")
        assert ours.startswith("SaslAuthentication")
    else:
        assert ours == theirs


@pytest.mark.parametrize("scenario", ("a ticket for another service", "a principal to which no rule applies"))
def test_what_the_broker_refuses_is_no_lost_connection(outcomes: Outcomes, scenario: str) -> None:
    assert outcomes["ottla", scenario, "ottla"] == "SaslAuthenticationFailed"
    assert outcomes["java", scenario, "ottla"] == (
        "SaslAuthenticationException Authentication failed during authentication "
        "due to invalid credentials with SASL mechanism GSSAPI"
    )


def test_a_principal_is_the_user_that_the_rules_make_of_it(
    both: tuple[Server, Server], logins: dict[str, Login]
) -> None:
    """alice is a super user; bob may do nothing."""
    for server in both:
        for name in ("alice", "bob"):
            login = logins["keys of a keytab" if name == "alice" else name]
            with Admin(Ours().settings(server.address, login)) as admin:
                if name == "alice":
                    admin.create_topic("visits", 1, 1)
                else:
                    with pytest.raises(TopicAuthorizationFailed):
                        admin.create_topic("of-bob", 1, 1)


# -- by hand -----------------------------------------------------------------------------------------------


def first_token(login: Login) -> bytes:
    with library(login, keytab=True):
        service = gssapi.Name(f"{login.service}@localhost", gssapi.NameType.hostbased_service)
        token: bytes = gssapi.SecurityContext(name=service, usage="initiate").step()
    return token


def answers(both: tuple[Server, Server], token: bytes) -> tuple[tuple[int, str], tuple[int, str]]:
    """Of Ottla and of Kafka, to this as a first token: the error code and its text."""
    outcomes = []
    for server in both:
        with Dialogue(server.address) as dialogue:
            dialogue.handshake()
            code, text, _ = dialogue.authenticate(token)
            outcomes.append((code, text))
    return outcomes[0], outcomes[1]


def test_tokens_that_are_none_are_refused_as_by_kafka(
    both: tuple[Server, Server], logins: dict[str, Login]
) -> None:
    token = first_token(logins["tickets of a cache"])
    for bad in (b"\0" * 40, token[:-20], token[:-1] + bytes([token[-1] ^ 1])):
        ours, theirs = answers(both, bad)
        assert ours == theirs
        assert ours[0] == FAILED


def test_a_ticket_that_has_expired_on_the_way_is_refused_as_by_kafka(
    kdc: Kdc, both: tuple[Server, Server], logins: dict[str, Login]
) -> None:
    alice = logins["keys of a keytab"].keytab
    short = Login(kdc.tickets("alice", alice, "4s"))
    token = first_token(short)
    kdc.wait_until_expired(short.cache, "other/localhost")
    ours, theirs = answers(both, token)
    assert ours == theirs
    assert ours[0] == FAILED


def test_a_token_is_good_once(both: tuple[Server, Server], logins: dict[str, Login]) -> None:
    token = first_token(logins["tickets of a cache"])
    ours = both[0]
    for expected in (0, FAILED):
        with Dialogue(ours.address) as dialogue:
            dialogue.handshake()
            code, _, _ = dialogue.authenticate(token)
            assert code == expected


def layers(server: Server, login: Login, choice: bytes, version: int = 1) -> int:
    """How the broker takes an answer to its offer of layers: an error code, or the id of its next answer."""
    with library(login, keytab=True), Dialogue(server.address) as dialogue:
        service = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(name=service, usage="initiate")
        dialogue.handshake(version)
        if version == 0:
            dialogue.bare(context.step())
            context.step(dialogue.frame())
            dialogue.bare(b"")
            assert context.unwrap(dialogue.frame()).message[0] == 1
            dialogue.bare(context.wrap(choice, False).message)
            return dialogue.api_versions()
        code, text, token = dialogue.authenticate(context.step())
        assert code == 0, text
        context.step(token)
        _, _, offer = dialogue.authenticate(b"")
        assert context.unwrap(offer).message[0] == 1  # no layer, and nothing else
        return dialogue.authenticate(context.wrap(choice, False).message)[0]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (bytes([1, 0, 0, 0]), 0),
        (bytes([1, 0, 0, 0]) + b"alice@OTTLA.TEST", 0),
        (bytes([1, 0, 0, 0]) + b"root", 0),  # as in Kafka: it stays alice
        (bytes([2, 0, 0, 0]), FAILED),
        (bytes([4, 0, 0, 0]), FAILED),
    ],
)
def test_layers_are_negotiated_as_by_kafka(
    both: tuple[Server, Server], logins: dict[str, Login], choice: bytes, expected: int
) -> None:
    ours, theirs = (layers(server, logins["tickets of a cache"], choice) for server in both)
    assert (ours, theirs) == (expected, expected)


@pytest.mark.parametrize("choice", [b"", bytes([1])])
def test_a_choice_of_layers_that_is_cut_short_is_refused(
    both: tuple[Server, Server], logins: dict[str, Login], choice: bytes
) -> None:
    """Kafka closes the connection without a word."""
    assert layers(both[0], logins["tickets of a cache"], choice) == FAILED


def test_bare_tokens_end_with_the_word_of_the_client(
    both: tuple[Server, Server], logins: dict[str, Login]
) -> None:
    """After a handshake of version 0 the next bytes of the broker answer the next request."""
    for server in both:
        assert layers(server, logins["tickets of a cache"], bytes([1, 0, 0, 0]), version=0) == 7


def test_new_keys_count_at_once_and_old_ones_no_more(
    kdc: Kdc, both: tuple[Server, Server], logins: dict[str, Login]
) -> None:
    """The last test: the service's keys change."""
    ours, login = both[0], logins["keys of a keytab"]
    kdc.change_keys("kafka/localhost")
    fresh = Login(kdc.tickets("alice", login.keytab, "2h"))  # a cache without a ticket for the old keys
    assert Ours().outcome(ours.address, fresh) == "SaslAuthenticationFailed"
    kdc.add_to_keytab("kafka/localhost")
    again = Login(kdc.tickets("alice", login.keytab, "3h"))
    assert Ours().outcome(ours.address, again) == "ok"
