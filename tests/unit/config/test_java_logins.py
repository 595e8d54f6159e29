"""KAFKA_OPTS with a JAAS file: which logins a broker has for ZooKeeper, and takes from clients."""

import pytest

from ottla.config.java_logins import java_logins
from ottla.config.listeners import listener_settings
from ottla.config.settings import Config
from ottla.errors import InvalidConfig
from ottla.server.zookeeper.protocol import Acl
from ottla.server.zookeeper.security import acl, credentials

DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="hush";'


def options(tmp_path, text, more=""):
    path = tmp_path / "a jaas file.conf"
    path.write_text(text)
    return f"-Xmx1G '-Djava.security.auth.login.config={path}' {more}"


def zookeeper_auth(options):
    return java_logins(options, {"zookeeper.connect": "zk:2181"}).get("ottla.zookeeper.auth")


def test_the_section_client_is_the_login(tmp_path):
    assert zookeeper_auth(options(tmp_path, f"Client {{ {DIGEST} }};")) == "sasl:kafka:hush"


def test_another_section_may_be_named(tmp_path):
    given = options(tmp_path, f"ZK {{ {DIGEST} }};", "-Dzookeeper.sasl.clientconfig=ZK")
    assert zookeeper_auth(given) == "sasl:kafka:hush"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (f"KafkaServer {{ {DIGEST} }};", ""),
        (f"// Client {{ {DIGEST} }};", ""),
        (f"Client {{ {DIGEST} }};", "-Dzookeeper.sasl.client=false"),
    ],
)
def test_without_a_section_or_switched_off_there_is_no_login(tmp_path, text, more):
    assert zookeeper_auth(options(tmp_path, text, more)) is None


def test_options_without_a_jaas_file_are_no_login():
    assert zookeeper_auth("-Xmx1G -Dsome.thing=x") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };",
            "Krb5LoginModule",
        ),
        ('Client { DigestLoginModule required username="kafka"; };', "needs username"),
        ('Client { DigestLoginModule required username="a:b" password="hush"; };', "needs username"),
        ("Client { hush };", "not of the form"),
    ],
)
def test_a_login_that_cannot_be_used_is_refused_without_its_password(tmp_path, text, reason):
    with pytest.raises(InvalidConfig, match=reason) as refused:
        zookeeper_auth(options(tmp_path, text))
    assert "hush" not in str(refused.value)


def test_options_with_an_open_quotation_mark_are_refused():
    with pytest.raises(InvalidConfig, match="KAFKA_OPTS"):
        java_logins("-Dx='y", {})


def test_a_file_that_is_missing_is_named():
    with pytest.raises(InvalidConfig, match=r"/no/such\.conf"):
        zookeeper_auth("-Djava.security.auth.login.config=/no/such.conf")


def test_nodes_belong_to_the_user_of_the_login():
    config = Config({"ottla.zookeeper.auth": "sasl:kafka:hush:hush", "zookeeper.set.acl": "true"})
    assert credentials(config) == ("sasl", b"kafka:hush:hush")
    assert acl(config) == Acl("sasl", "kafka")


SERVER = """
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="admin;secret" user_admin="admin;secret";
    org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="x";
};
inside.KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required user_peer="hush";
};
"""


def test_the_section_kafka_server_has_the_logins_of_listeners(tmp_path):
    settings = {
        "listeners": "CLIENTS://:9092,INSIDE://:9093,OWN://:9094",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INSIDE:SASL_PLAINTEXT,OWN:SASL_PLAINTEXT",
        "listener.name.own.plain.sasl.jaas.config": 'PlainLoginModule required user_own="z";',
    }
    config = Config(settings | java_logins(options(tmp_path, SERVER), settings))
    users = {
        name: listener_settings(config, name).jaas("PLAIN").users for name in ("CLIENTS", "INSIDE", "OWN")
    }
    assert users == {"CLIENTS": {"admin": "admin;secret"}, "INSIDE": {"peer": "hush"}, "OWN": {"own": "z"}}
    assert listener_settings(config, "CLIENTS").jaas("SCRAM-SHA-512").options["username"] == "admin"
    assert listener_settings(config, "INSIDE").jaas("SCRAM-SHA-512") is None


def test_a_broker_without_zookeeper_needs_no_login_for_it(tmp_path):
    kerberos = "Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };"
    assert java_logins(options(tmp_path, kerberos), {}) == {}
