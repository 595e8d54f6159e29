"""TLS, users and rights in a test: clients of others get in, or do not, as with a broker at work."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from ottla import errors
from ottla.client import Admin
from ottla.testing import Broker, Cluster

USERS = {"alice": "secret", "bob": 'qu"ote'}
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def send(settings, topic="t", value=b"x"):
    """The name of the error that a record met, or None."""
    results = []
    producer = Producer({**settings, "message.timeout.ms": 60_000, "linger.ms": 0})
    producer.produce(topic, value, on_delivery=lambda error, _: results.append(error and error.name()))
    assert producer.flush(90) == 0
    return results[0]


def is_refused(settings, code):
    """Whether librdkafka reports this error; it may report others before."""
    seen = []
    producer = Producer({**settings, "error_cb": lambda error: seen.append(error.code())})
    producer.produce("t", b"x")
    for _ in range(600):
        producer.poll(0.1)
        if code in seen:
            producer.purge()
            return True
    raise AssertionError(f"it reported {seen}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("user", USERS)
def test_a_client_with_the_right_settings_gets_in(protocol, user):
    with Broker(security=protocol, users=USERS) as broker:
        assert send(broker.client_settings(user)) is None
        with Admin(broker.client_settings(user)) as admin:
            assert "t" in admin.list_topics()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_takes_the_right_password_and_no_other(mechanism):
    with Broker(security="SASL_SSL", users=USERS) as broker:
        right = broker.client_settings("bob", mechanism=mechanism)
        assert send(right) is None
        assert is_refused({**right, "sasl.password": "wrong"}, KafkaError._AUTHENTICATION)
        assert is_refused({**right, "sasl.username": "nobody"}, KafkaError._AUTHENTICATION)


def test_a_client_that_does_not_trust_the_authority_does_not_connect():
    with Broker(security="SSL") as broker:
        trusting = broker.client_settings()
        strange = {name: text for name, text in trusting.items() if name != "ssl.ca.location"}
        assert is_refused(strange, KafkaError._SSL)


def test_plain_text_at_a_tls_port_is_closed_and_disturbs_nobody():
    with Broker(security="SSL") as broker:
        assert is_refused({"bootstrap.servers": broker.bootstrap}, KafkaError._ALL_BROKERS_DOWN)
        assert send(broker.client_settings()) is None


def test_a_client_certificate_is_a_principal_that_rules_can_name():
    with Broker(security="SSL", authorizer=True) as broker:
        broker.allow("User:CN=shop", "WRITE", "CREATE", "DESCRIBE", topic="orders")
        assert send(broker.client_settings(certificate="shop"), "orders") is None
        assert send(broker.client_settings(certificate="thief"), "orders") == "TOPIC_AUTHORIZATION_FAILED"
        assert send(broker.client_settings(), "orders") == "TOPIC_AUTHORIZATION_FAILED"
        assert len(broker.records("orders")) == 1


def test_rules_are_followed_as_soon_as_they_change():
    with Broker(security="SASL_PLAINTEXT", users=USERS, authorizer=True) as broker:
        broker.create_topic("orders")
        alice = broker.client_settings("alice")
        assert send(alice, "orders") == "TOPIC_AUTHORIZATION_FAILED"
        broker.allow("alice", "WRITE", topic="ord", prefix=True)
        assert send(alice, "orders") is None
        broker.deny("alice", "WRITE", topic="orders")
        assert send(alice, "orders") == "TOPIC_AUTHORIZATION_FAILED"
        broker.deny("alice", "WRITE", topic="orders", remove=True)
        assert send(alice, "orders") is None
        assert len(broker.records("orders")) == 2


def test_a_consumer_needs_its_group_and_its_topic():
    with Broker(security="SASL_PLAINTEXT", users=USERS, authorizer=True) as broker:
        broker.send("orders", "apple")
        settings = {"group.id": "g", "auto.offset.reset": "earliest", **broker.client_settings("bob")}

        def first():
            consumer = Consumer(settings)
            consumer.subscribe(["orders"])
            try:
                return next(iter(lambda: consumer.poll(60), None))
            finally:
                consumer.close()

        assert first().error().name() in ("GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED")
        broker.allow("bob", "READ", topic="orders")
        assert first().error().name() == "GROUP_AUTHORIZATION_FAILED"
        broker.allow("bob", "READ", group="g")
        assert first().value() == b"apple"


def test_users_come_and_go_while_the_broker_runs():
    with Broker(security="SASL_PLAINTEXT", users=USERS) as broker:
        broker.add_user("carol", "new")
        carol = broker.client_settings("carol")
        assert send(carol) is None
        broker.remove_user("carol")
        assert is_refused(carol, KafkaError._AUTHENTICATION)
        broker.restart()
        assert send(broker.client_settings("alice")) is None


def test_our_own_client_says_why_it_does_not_get_in():
    with Broker(security="SASL_SSL", users=USERS) as broker:
        settings = broker.client_settings("alice") | {"sasl.password": "wrong"}
        with (
            pytest.raises(errors.SaslAuthenticationFailed, match="invalid credentials"),
            Admin(settings) as admin,
        ):
            admin.list_topics()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_brokers_of_a_cluster_replicate_and_fail_over_as_secured_as_their_clients(protocol):
    with Cluster(brokers=3, security=protocol, users=USERS, authorizer=True) as cluster:
        cluster.create_topic("t", min_insync_replicas=2)
        whom = {"SSL": "User:CN=shop", "SASL_SSL": "alice"}[protocol]
        cluster.controller.allow(whom, "WRITE", "DESCRIBE", topic="t")
        settings = (
            cluster.client_settings(certificate="shop") if protocol == "SSL" else cluster.client_settings()
        )
        assert send(settings) is None
        cluster.kill(cluster.leader("t").broker_id)
        assert send(settings) is None
        assert len(cluster.records("t")) == 2


@pytest.mark.parametrize("prefix", ["", "listener.name.sasl_ssl.", "listener.name.sasl_ssl.plain."])
def test_a_callback_class_is_refused_and_not_ignored(prefix):
    setting = f"{prefix}sasl.server.callback.handler.class"
    with (
        pytest.raises(errors.InvalidConfig, match=r"callback\.handler\.class.*there is no such Python class"),
        Broker({setting: "org.example.OnlyEmployees"}, security="SASL_SSL", users=USERS),
    ):
        pass
