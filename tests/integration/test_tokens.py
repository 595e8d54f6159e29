"""Delegation tokens at a broker: a program logs in for its user, and no longer than the token lives."""

import base64
from functools import partial

import pytest

import ottla
from ottla import errors
from ottla.cli.main import main
from ottla.client import Admin
from ottla.testing import Broker, Cluster

USERS = {"alice": "alice-secret", "bob": "bob-secret", "admin": "admin-secret"}
KEY = {"delegation.token.secret.key": "the brokers' own"}


def login(broker, token):
    """Settings of a client that has the token."""
    settings = broker.client_settings("alice", mechanism="SCRAM-SHA-256")
    for name in ("sasl.username", "sasl.password"):
        settings.pop(name)
    secret = base64.b64encode(token.secret).decode()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings["sasl.jaas.config"] = (
        f'{module} required username="{token.id}" password="{secret}" tokenauth="true";'
    )
    return settings


@pytest.fixture
def broker():
    with Broker(KEY, security="SASL_PLAINTEXT", users=USERS) as one:
        yield one


def admin_of(broker, user):
    return Admin(broker.client_settings(user))


def test_a_program_with_a_token_acts_as_its_owner_until_the_token_is_expired(broker):
    broker.create_topic("t")
    with admin_of(broker, "alice") as alice, admin_of(broker, "bob") as bob:
        token = alice.create_token(["bob"], lifetime_ms=3_600_000)
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
        assert token.ends_ms - token.issued_ms == 3_600_000
        with ottla.Producer(login(broker, token)) as producer:
            producer.send("t", b"v").result(60)
        with Admin(login(broker, token)) as program, pytest.raises(errors.DelegationTokenRequestNotAllowed):
            program.create_token()  # a token makes no tokens
        assert bob.renew_token(token.secret, 60_000) <= token.expires_ms
        assert [each.id for each in bob.describe_tokens(["alice"])] == [token.id]
        alice.expire_token(token.secret)
        assert alice.describe_tokens() == []
        with pytest.raises(errors.DelegationTokenNotFound):
            alice.renew_token(token.secret)
        with Admin(login(broker, token)) as program, pytest.raises(errors.SaslAuthenticationFailed):
            program.list_topics()


def test_tokens_of_a_renewer_are_those_that_it_may_renew_too(broker):
    """As in Kafka: an owner in a request is anyone who owns, asked for or renews a token."""
    with admin_of(broker, "alice") as alice, admin_of(broker, "bob") as bob:
        token = alice.create_token(["bob"])
        alice.create_token()
        assert [each.id for each in bob.describe_tokens(["bob"])] == [token.id]
        assert len(bob.describe_tokens(["alice"])) == 2  # without an authorizer everybody sees them


def test_an_expired_token_lets_nobody_in_and_is_removed_in_time():
    with Broker(KEY, security="SASL_PLAINTEXT", users=USERS) as broker, admin_of(broker, "alice") as alice:
        token = alice.create_token(lifetime_ms=60_000)
        broker.advance(seconds=61)
        with Admin(login(broker, token)) as program, pytest.raises(errors.SaslAuthenticationFailed):
            program.list_topics()
        assert len(alice.describe_tokens()) == 1
        broker.advance(seconds=3600)
        broker.wait_until(lambda: not alice.describe_tokens())


def test_a_session_with_a_token_ends_with_the_token(broker):
    """However long the listener would let it last."""
    with admin_of(broker, "alice") as alice:
        token = alice.create_token(lifetime_ms=60_000)
    with Admin(login(broker, token)) as program:
        program.list_topics()
        broker.advance(seconds=61)
        with pytest.raises(errors.OttlaError):
            program.list_topics()


def test_tokens_outlast_a_restart_and_their_secrets_are_in_no_record_or_setting(broker):
    with admin_of(broker, "alice") as alice:
        token = alice.create_token()
    broker.restart()
    with Admin(login(broker, token)) as program:
        program.list_topics()
    with admin_of(broker, "admin") as admin:
        shown = admin.describe_configs("broker", "1")["delegation.token.secret.key"]
        assert shown.sensitive and shown.value is None


def test_without_a_key_there_are_no_tokens():
    with (
        Broker(security="SASL_PLAINTEXT", users=USERS) as broker,
        admin_of(broker, "alice") as alice,
        pytest.raises(errors.DelegationTokenAuthDisabled),
    ):
        alice.create_token()


def test_nobody_gets_a_token_who_has_not_logged_in():
    with Broker(KEY) as broker, Admin(bootstrap_servers=broker.bootstrap) as anybody:
        for ask in (anybody.create_token, anybody.describe_tokens, lambda: anybody.renew_token(b"x")):
            with pytest.raises(errors.DelegationTokenRequestNotAllowed):
                ask()


def test_every_broker_of_a_cluster_makes_tokens_and_takes_them():
    with Cluster(KEY, brokers=2, security="SASL_PLAINTEXT", users=USERS) as cluster:
        controller = cluster.controller
        other = next(each for each in cluster if each is not controller)
        for maker, taker in ((controller, other), (other, controller)):
            with admin_of(maker, "alice") as alice:
                token = alice.create_token(["bob"])
                assert token.requester == "User:alice"
            taker.wait_until(partial(knows, taker, token))
            with Admin(login(taker, token)) as program:
                program.list_topics()
            with admin_of(taker, "bob") as bob:
                bob.renew_token(token.secret)


def knows(broker, token):
    with admin_of(broker, "alice") as alice:
        return token.id in {each.id for each in alice.describe_tokens()}


def test_tokens_by_command(broker, capsys, tmp_path):
    settings = tmp_path / "alice.properties"
    settings.write_text(
        "".join(f"{name}={value}\n" for name, value in broker.client_settings("alice").items())
    )
    where = ["-b", broker.bootstrap, "--command-config", str(settings)]
    assert main(["tokens", "create", "--renewer", "bob", "--lifetime", "2h", *where]) == 0
    token_id, secret, owner, renewers, *_ = capsys.readouterr().out.splitlines()[1].split()
    assert (owner, renewers) == ("User:alice", "User:bob")
    assert main(["tokens", "list", *where]) == 0
    assert token_id in capsys.readouterr().out
    assert main(["tokens", "renew", secret, "--period", "30m", *where]) == 0
    assert main(["tokens", "expire", secret, *where]) == 0
    capsys.readouterr()
    assert main(["tokens", "list", *where]) == 0
    assert token_id not in capsys.readouterr().out
    assert main(["tokens", "renew", secret, *where]) == 1
    assert "DELEGATION_TOKEN_NOT_FOUND" in capsys.readouterr().err
    assert main(["tokens", "renew", "not base64!", *where]) == 1
    assert main(["tokens", "create", "--lifetime", "long", *where]) == 1
