"""What a configuration leaves open."""

import pytest

from ottla.config.exposure import exposures
from ottla.config.settings import Config

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def open_to(listener: str, settings: dict[str, str] | None = None) -> list[str]:
    return list(exposures(Config({"listeners": listener, **(settings or {})})))


@pytest.mark.parametrize("address", ["127.0.0.1:9092", "localhost:9092", "[::1]:9092"])
def test_a_broker_for_its_own_machine_is_not_open(address: str) -> None:
    assert open_to(f"PLAINTEXT://{address}") == []


@pytest.mark.parametrize(
    "address", [":9092", "0.0.0.0:9092", "[::]:9092", "10.0.0.1:9092", "localhost.care:9092"]
)
def test_a_listener_without_a_login_is_open_and_so_is_everything_behind_it(address: str) -> None:
    listener, rights = open_to(f"PLAINTEXT://{address}")
    assert listener.startswith(f"PLAINTEXT://{address}: everybody who reaches this address gets in")
    assert rights.startswith("no authorizer.class.name")


def test_passwords_that_travel_unencrypted_are_named() -> None:
    settings = {"sasl.enabled.mechanisms": "PLAIN", **AUTHORIZER}
    (warning,) = open_to("SASL_PLAINTEXT://0.0.0.0:9092", settings)
    assert "passwords of PLAIN" in warning


def test_tokens_that_nobody_has_signed_are_named() -> None:
    kafkas = "org.apache.kafka.common.security.oauthbearer.internals.unsecured"
    handler = {
        "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": f"{kafkas}."
        "OAuthBearerUnsecuredValidatorCallbackHandler"
    }
    (warning,) = open_to("SASL_SSL://0.0.0.0:9092", {**handler, **AUTHORIZER})
    assert "need no signature" in warning


@pytest.mark.parametrize(("asked", "count"), [("none", 1), ("requested", 1), ("required", 0)])
def test_tls_without_a_certificate_of_the_client_lets_everybody_in(asked: str, count: int) -> None:
    assert len(open_to("SSL://0.0.0.0:9092", {"ssl.client.auth": asked, **AUTHORIZER})) == count


def test_rules_that_let_everybody_in_are_named() -> None:
    settings = {
        **AUTHORIZER,
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    everyone, anonymous = open_to("SASL_SSL://0.0.0.0:9092", settings)
    assert "allow.everyone.if.no.acl.found=true" in everyone
    assert "User:ANONYMOUS" in anonymous


def test_nodes_of_zookeeper_that_anybody_may_write_are_open() -> None:
    (warning,) = open_to("PLAINTEXT://127.0.0.1:9092", {"zookeeper.connect": "zk:2181"})
    assert "zookeeper.set.acl" in warning
    assert open_to("PLAINTEXT://127.0.0.1:9092", {"zookeeper.connect": "127.0.0.1:2181/home"}) == []


def test_a_listener_with_tls_and_a_login_and_rules_is_closed() -> None:
    assert open_to("SASL_SSL://0.0.0.0:9092", AUTHORIZER) == []
