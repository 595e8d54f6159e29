"""Settings of one listener, and JAAS entries."""

import pytest

from ottla.config.jaas import parse_jaas
from ottla.config.listeners import ListenerSettings, open_doors
from ottla.config.settings import Config
from ottla.errors import InvalidConfig

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN = f'{MODULE} required username="a" password="p" user_a="p" user_b="q r\\"s";'


def test_a_jaas_entry_has_a_module_and_options():
    jaas = parse_jaas(PLAIN, "x")
    assert jaas.module.endswith("PlainLoginModule")
    assert jaas.options["username"] == "a"
    assert jaas.users == {"a": "p", "b": 'q r"s'}


def test_options_may_stand_on_lines_of_their_own_and_without_quotes():
    jaas = parse_jaas("com.sun.Krb5LoginModule required\n useKeyTab=true\n principal=kafka/host@REALM ;", "x")
    assert jaas.options == {"useKeyTab": "true", "principal": "kafka/host@REALM"}


@pytest.mark.parametrize(
    "text", ["", "Module", 'M required user_a="secret', "M required =secret;", "M required a b=secret"]
)
def test_a_wrong_entry_is_refused_without_showing_what_it_holds(text):
    with pytest.raises(InvalidConfig, match=r"sasl\.jaas\.config") as refused:
        parse_jaas(text, "listener.name.x.sasl.jaas.config")
    assert "secret" not in str(refused.value)


def test_a_listeners_own_setting_goes_before_the_brokers():
    listener = ListenerSettings(
        "CLIENTS",
        "SASL_SSL",
        {
            "ssl.keystore.location": "all.pem",
            "listener.name.clients.ssl.keystore.location": "clients.pem",
            "ssl.truststore.location": "ca.pem",
            "listener.name.other.ssl.key.password": "x",
            "ssl.client.auth": "required",
        },
    )
    assert listener.tls() == {
        "keystore.location": "clients.pem",
        "truststore.location": "ca.pem",
        "client.auth": "none",  # the broker's own does not count where SASL tells who a client is
    }


def test_a_mechanism_has_its_own_jaas_entry_or_the_listeners():
    listener = ListenerSettings(
        "L",
        "SASL_PLAINTEXT",
        {
            "sasl.enabled.mechanisms": "plain, SCRAM-SHA-256",
            "listener.name.l.plain.sasl.jaas.config": PLAIN,
            "sasl.jaas.config": 'Scram required username="s";',
        },
    )
    assert listener.mechanisms() == ["PLAIN", "SCRAM-SHA-256"]
    assert "b" in listener.jaas("PLAIN").users
    assert listener.jaas("SCRAM-SHA-256").options == {"username": "s"}


@pytest.mark.parametrize(
    "settings, doors",
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, 0),
        (
            {
                "listeners": "PLAINTEXT://localhost:9092,X://[::1]:1",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,X:SSL",
            },
            0,
        ),
        ({"listeners": "PLAINTEXT://:9092"}, 1),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092,SASL_SSL://0.0.0.0:9093"}, 1),
        ({"listeners": "SSL://0.0.0.0:9092"}, 1),
        ({"listeners": "SSL://0.0.0.0:9092", "ssl.client.auth": "required"}, 0),
    ],
)
def test_a_listener_that_lets_other_machines_in_unasked_is_told(settings, doors):
    assert len(open_doors(Config(settings))) == doors
