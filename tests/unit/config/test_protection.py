"""A configuration that promises protection which is not there is refused; one that only tunes it is not."""

import pytest

from ottla import errors
from ottla.config.alter import check_dynamic_broker
from ottla.config.describe import describe_broker
from ottla.config.settings import Config

PROMISES = [
    {"listeners": "CLIENTS://:9093"},
    {"listeners": "PLAINTEXT://:9092", "inter.broker.listener.name": "SSL"},
    {"super.users": "User:admin"},
    {"allow.everyone.if.no.acl.found": "false"},
    {"client.quota.callback.class": "org.example.Quotas"},
    {"principal.builder.class": "org.example.Names"},
    {"quota.producer.default": "1000000"},
    {"quota.consumer.default": "1000000"},
    {"create.topic.policy.class.name": "org.example.Policy"},
    {"alter.config.policy.class.name": "org.example.Policy"},
]

HARMLESS = [
    {"listeners": "CLIENTS://:9093", "listener.security.protocol.map": "clients:ssl"},
    {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "false",
    },
    {"listeners": "CLIENTS://:9093", "listener.security.protocol.map": "CLIENTS:PLAINTEXT"},
    {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"},
    {"listeners": "PLAINTEXT://:9092", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL"},
    {"security.inter.broker.protocol": "PLAINTEXT"},
    {"authorizer.class.name": "", "super.users": ""},
    {"allow.everyone.if.no.acl.found": "true"},
    {"ssl.client.auth": "none"},
    {"ssl.keystore.location": "/etc/keys", "ssl.keystore.type": "PEM", "ssl.protocol": "TLSv1.3"},
    {"sasl.enabled.mechanisms": "PLAIN", "sasl.kerberos.service.name": "kafka"},
    {"quota.window.num": "11", "quota.window.size.seconds": "1"},
    {"replication.quota.window.num": "11", "controller.quota.window.num": "11"},
    {"max.connection.creation.rate": "20"},
    {
        "listener.name.clients.max.connection.creation.rate": "20",
        "listener.name.plaintext.max.connections": "20",
    },
]


@pytest.mark.parametrize("settings", PROMISES, ids=lambda settings: ",".join(map("=".join, settings.items())))
def test_protection_that_is_not_there_is_a_refusal_that_names_the_setting(settings):
    with pytest.raises(errors.InvalidConfig) as refused:
        Config(settings)
    assert all(name in refused.value.message for name in settings)


@pytest.mark.parametrize("settings", HARMLESS, ids=lambda settings: ",".join(map("=".join, settings.items())))
def test_what_only_tunes_protection_is_accepted(settings):
    Config(settings)


def test_all_broken_promises_are_named_at_once_without_their_values():
    settings = {"super.users": "User:x", "alter.config.policy.class.name": "hush", "listeners": "X://:1"}
    with pytest.raises(errors.InvalidConfig) as refused:
        Config(settings)
    assert all(
        part in refused.value.message for part in ("super.users", "alter.config.policy.class.name", "X://:1")
    )
    assert "hush" not in refused.value.message


@pytest.mark.parametrize("protocols", ["CLIENTS", "CLIENTS:TLS", "CLIENTS:"])
def test_a_protocol_map_that_cannot_be_read_is_refused(protocols):
    with pytest.raises(errors.InvalidConfig, match=r"listener\.security\.protocol\.map"):
        Config({"listener.security.protocol.map": protocols})


def test_protection_cannot_be_promised_while_running_either():
    with pytest.raises(errors.InvalidRequest, match=r"client\.quota\.callback\.class"):
        check_dynamic_broker({}, {"client.quota.callback.class": "org.example.Quotas"}, one_broker=True)
    check_dynamic_broker({}, {"max.connection.creation.rate": "5"}, one_broker=False)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.clients.plain.sasl.jaas.config",
        "listener.name.clients.ssl.keystore.location",
        "ssl.keystore.password",
        "sasl.oauthbearer.jwks.endpoint.url",
        "listener.name.clients.ottla.plain.scram.users",
    ],
)
def test_logins_key_stores_and_addresses_do_not_change_while_running(name):
    """Who may change settings could else choose whom the broker believes, and what file it reads."""
    with pytest.raises(errors.InvalidRequest, match="property file") as refused:
        check_dynamic_broker({}, {name: "hush"}, one_broker=True)
    assert name in refused.value.message and "hush" not in refused.value.message


def test_limits_of_a_listener_change_while_running_if_they_are_numbers():
    limit = "listener.name.clients.max.connections"
    check_dynamic_broker({}, {"sasl.kerberos.min.time.before.relogin": "58000"}, one_broker=True)  # of Java's
    check_dynamic_broker({}, {limit: "20"}, one_broker=True)
    check_dynamic_broker({limit: "20"}, {}, one_broker=True)
    for wrong in ("many", "", "-1", "2147483648", "9" * 5000):
        with pytest.raises(errors.InvalidConfig, match=f"max.connections={wrong[:20]} is not a number"):
            check_dynamic_broker({}, {limit: wrong}, one_broker=True)
    shown = {entry.name: entry.value for entry in describe_broker(Config({}).with_dynamic({}, {limit: "20"}))}
    assert shown[limit] == "20"


def test_the_password_of_zookeeper_is_never_shown():
    config = Config({"ottla.zookeeper.auth": "digest:broker:hush", "ssl.key.password": "hush"})
    assert config.ottla_zookeeper_auth == "digest:broker:hush"
    shown = {entry.name: entry for entry in describe_broker(config)}["ottla.zookeeper.auth"]
    assert (shown.value, shown.is_sensitive) == (None, True)
    assert [synonym.value for synonym in shown.synonyms] == [None]
    assert "hush" not in repr(config)
