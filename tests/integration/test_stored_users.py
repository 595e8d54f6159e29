"""Users of the metadata: those whom PLAIN takes too, and the one that a cluster without users begins with."""

import pytest

from ottla import errors
from ottla.client import Admin
from ottla.testing import Broker
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports

STORED = {"listener.name.sasl_ssl.ottla.plain.scram.users": "true"}


def as_plain(broker, name, password):
    return broker.client_settings("alice", mechanism="PLAIN") | {
        "sasl.username": name,
        "sasl.password": password,
    }


def test_plain_takes_a_user_of_the_metadata_until_it_is_changed_or_removed():
    with Broker(security="SASL_SSL", users={"alice": "listed"}) as without:
        with Admin(without.client_settings("alice")) as admin:
            admin.set_user("bob", "stored", ["SCRAM-SHA-512"])
        with (
            Admin(as_plain(without, "bob", "stored")) as admin,
            pytest.raises(errors.SaslAuthenticationFailed),
        ):
            admin.list_topics()  # nobody has asked for it
    with (
        Broker(STORED, security="SASL_SSL", users={"alice": "listed"}) as broker,
        Admin(broker.client_settings("alice", mechanism="PLAIN")) as admin,
    ):
        admin.set_user("bob", "stored", ["SCRAM-SHA-512"])
        for _ in range(2):  # hashed, then remembered
            with Admin(as_plain(broker, "bob", "stored")) as bob:
                bob.list_topics()
        with (
            Admin(as_plain(broker, "bob", "wrong")) as bob,
            pytest.raises(errors.SaslAuthenticationFailed),
        ):
            bob.list_topics()
        admin.set_user("bob", "changed", ["SCRAM-SHA-512"])
        with (
            Admin(as_plain(broker, "bob", "stored")) as bob,
            pytest.raises(errors.SaslAuthenticationFailed),
        ):
            bob.list_topics()
        with Admin(as_plain(broker, "bob", "changed")) as bob:
            bob.list_topics()
        admin.remove_user("bob", ["SCRAM-SHA-512"])
        with (
            Admin(as_plain(broker, "bob", "changed")) as bob,
            pytest.raises(errors.SaslAuthenticationFailed),
        ):
            bob.list_topics()


def test_without_tls_passwords_of_stored_users_do_not_travel():
    with (
        pytest.raises(errors.InvalidConfig, match="needs TLS"),
        Broker({"listener.name.sasl_plaintext.ottla.plain.scram.users": "true"}, security="SASL_PLAINTEXT"),
    ):
        pass


def test_a_cluster_without_users_begins_with_the_one_of_its_brokers_and_changes_no_other(tmp_path):
    """Else nobody could log in to add the first; and a password that was changed since stays changed."""
    port = free_ports(1)[0]
    settings = {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": (
            'ScramLoginModule required username="admin" password="first";'
        ),
    }
    client = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.username": "admin",
        "default.api.timeout.ms": "20000",
    }
    data = tmp_path / "data"
    # A broker without logins, as many begin.
    with Ottla(port, data=data) as before, Admin(bootstrap_servers=before.bootstrap) as admin:
        admin.create_topic("t", 1, 1)
    with Ottla(port, settings=settings, data=data):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            with Admin(client | {"sasl.mechanism": mechanism, "sasl.password": "first"}) as admin:
                assert "t" in admin.list_topics()
        with Admin(client | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "first"}) as admin:
            admin.set_user("admin", "second", ["SCRAM-SHA-512"])
    with Ottla(port, settings=settings, data=data):
        with Admin(client | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "second"}) as admin:
            admin.list_topics()
        wrong = client | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "first"}
        with Admin(wrong) as admin, pytest.raises(errors.SaslAuthenticationFailed):
            admin.list_topics()
