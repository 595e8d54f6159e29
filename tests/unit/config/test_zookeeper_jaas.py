"""KAFKA_OPTS with a JAAS file: which login a broker has for ZooKeeper."""

import pytest

from ottla.config.settings import Config
from ottla.config.zookeeper_jaas import zookeeper_auth
from ottla.errors import InvalidConfig
from ottla.server.zookeeper.protocol import Acl
from ottla.server.zookeeper.security import acl, credentials

DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="hush";'


def options(tmp_path, text, more=""):
    path = tmp_path / "a jaas file.conf"
    path.write_text(text)
    return f"-Xmx1G '-Djava.security.auth.login.config={path}' {more}"


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


def test_a_file_that_is_missing_is_named():
    with pytest.raises(InvalidConfig, match=r"/no/such\.conf"):
        zookeeper_auth("-Djava.security.auth.login.config=/no/such.conf")


def test_nodes_belong_to_the_user_of_the_login():
    config = Config({"ottla.zookeeper.auth": "sasl:kafka:hush:hush", "zookeeper.set.acl": "true"})
    assert credentials(config) == ("sasl", b"kafka:hush:hush")
    assert acl(config) == Acl("sasl", "kafka")
