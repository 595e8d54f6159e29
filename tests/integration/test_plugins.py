"""Classes of one's own, named in the settings: the example of docs/security.md, and what fails."""

import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ottla import errors
from ottla.client import Admin
from ottla.errors import InvalidConfig
from ottla.testing import Broker
from tests.compat.raw import Raw
from tests.oracle.ports import free_ports

DOCUMENT = Path(__file__).parents[2] / "docs/security.md"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Writes a module that a broker of this process finds."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


def example():
    """The documented module and settings."""
    section = DOCUMENT.read_text().partition("## Classes of one's own")[2].partition("\n## ")[0]
    (module,) = re.findall(r"```python\n# house_rules.py\n(.*?)```", section, re.S)
    (lines,) = re.findall(r"```\n(authorizer.*?)```", section, re.S)
    return module, dict(line.split("=", 1) for line in lines.splitlines())


def listeners(mechanisms="PLAIN,OAUTHBEARER"):
    clients, inside = free_ports(2)
    return (
        f"127.0.0.1:{clients}",
        f"127.0.0.1:{inside}",
        {
            "listeners": f"CLIENTS://127.0.0.1:{clients},INSIDE://127.0.0.1:{inside}",
            "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": mechanisms,
        },
    )


def test_the_documented_classes_decide_who_gets_in_and_who_may_do_what(modules, caplog):
    module, settings = example()
    modules("house_rules", module)
    clients, _, ports = listeners()
    with Broker(ports | settings | {"listener.name.clients.house.realm": "here"}) as broker:
        for topic in ("bob.diary", "alice.diary"):
            broker.create_topic(topic)
        assert topics(clients, "bob", "bob@here") == {"bob.diary"}
        broker.allow("alice", "DESCRIBE", topic="alice.diary")
        assert topics(clients, "alice", "alice@here") == {"alice.diary"}
        with pytest.raises(errors.SaslAuthenticationFailed):
            topics(clients, "bob", "bob@home")
        assert bearer(clients, "badge-7") == ("NONE", {"alice.diary"})
        assert bearer(clients, "badge-8")[0] == "SASL_AUTHENTICATION_FAILED"
        assert "a token is refused: KeyError at" in caplog.text and "badge-8" not in caplog.text


def topics(bootstrap, user, password):
    with Admin(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username=user,
        sasl_password=password,
    ) as admin:
        return set(admin.list_topics(internal=False))


def bearer(bootstrap, token):
    """How the login ended, and the topics that the client sees."""
    with Raw(bootstrap) as raw:
        raw.call("sasl_handshake", 1, {"mechanism": "OAUTHBEARER"})
        first = b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
        answer = raw.call("sasl_authenticate", 2, {"auth_bytes": first})
        if answer["auth_bytes"]:  # it says what is wrong, and waits for a word
            answer = raw.call("sasl_authenticate", 2, {"auth_bytes": b"\x01"})
            return answer["error_code"], set()
        seen = raw.call("metadata", 9, {"topics": None, "allow_auto_topic_creation": False})
        return answer["error_code"], {topic["name"] for topic in seen["topics"]}


FAILING = """
class Directory:
    def __init__(self, settings):
        pass

    def authenticate(self, name, password):
        if name == "broken":
            raise LookupError(f"{password} is not in the directory")
        return "yes"  # not True


class Authorizer:
    def __init__(self, settings, standard):
        pass

    def allows(self, question):
        raise LookupError("the rules are away")
"""


def test_a_class_that_fails_lets_nobody_in_and_nobody_do_anything(modules, caplog):
    modules("failing", FAILING)
    clients, inside, ports = listeners("PLAIN")
    settings = {
        "listener.name.clients.plain.sasl.server.callback.handler.class": "failing.Directory",
        "authorizer.class.name": "failing.Authorizer",
    }
    with Broker(ports | settings):
        for name in ("broken", "odd"):
            with pytest.raises(errors.SaslAuthenticationFailed, match="Invalid username or password"):
                topics(clients, name, "guessed")
        assert "the check of broken failed: LookupError at" in caplog.text
        assert "guessed" not in caplog.text
        with Raw(inside) as raw:
            assert raw.call(
                "describe_configs", 4, {"resources": [{"resource_type": 2, "resource_name": "t"}]}
            )["results"][0]["error_code"] in ("TOPIC_AUTHORIZATION_FAILED", 29)
        assert "the rules are away" in caplog.text


def test_a_slow_check_holds_up_nobody_else(modules):
    """Eight logins wait for their directory, and a ninth for them; a client of another listener is served."""
    modules(
        "slow",
        """
import threading

entered, gate = threading.Semaphore(0), threading.Event()

class Directory:
    def __init__(self, settings):
        pass

    def authenticate(self, name, password):
        entered.release()
        return gate.wait(240)
""",
    )
    clients, inside, ports = listeners("PLAIN")
    setting = "listener.name.clients.plain.sasl.server.callback.handler.class"
    with Broker(ports | {setting: "slow.Directory"}) as broker:
        import slow  # type: ignore[import-not-found]

        raws = [Raw(clients) for _ in range(9)]
        for raw in raws:
            raw.call("sasl_handshake", 1, {"mechanism": "PLAIN"})
            raw.send("sasl_authenticate", 2, {"auth_bytes": b"\0a\0b"})
        for _ in range(8):
            assert slow.entered.acquire(timeout=120)
        broker.create_topic("t")
        with Raw(inside) as other:
            other.call("metadata", 9, {"topics": []})
        assert not slow.entered.acquire(timeout=0.1)
        slow.gate.set()
        for raw in raws:
            assert raw.receive("sasl_authenticate", 2)["error_code"] == "NONE"
            raw.call("metadata", 9, {"topics": []})
            raw.close()


@pytest.mark.parametrize(
    ("setting", "text", "named"),
    [
        ("authorizer.class.name", "no.such.Thing", "no such Python class"),
        ("authorizer.class.name", "org.example.Authorizer", "no such Python class"),
        ("authorizer.class.name", "nothing", "module.Class"),
        ("authorizer.class.name", "collections.OrderedDict", "cannot be made"),
        (
            "listener.name.clients.plain.sasl.server.callback.handler.class",
            "collections.Counter",
            "authenticate",
        ),
        (
            "listener.name.clients.scram-sha-256.sasl.server.callback.handler.class",
            "a.B",
            "PLAIN and OAUTHBEARER",
        ),
    ],
)
def test_a_class_that_cannot_decide_is_a_refusal_to_start(setting, text, named):
    _, _, ports = listeners("PLAIN,SCRAM-SHA-256")
    users = {"listener.name.clients.plain.sasl.jaas.config": 'PlainLoginModule required user_a="b";'}
    with pytest.raises(InvalidConfig, match=named) as refused, Broker(ports | users | {setting: text}):
        pass
    assert setting in refused.value.message


def test_no_client_can_have_a_class_loaded():
    """Neither at once nor at the next start: only what the broker's own file says is loaded."""
    clients, inside, ports = listeners("PLAIN")
    users = {"listener.name.clients.plain.sasl.jaas.config": 'PlainLoginModule required user_a="b";'}
    callback = "listener.name.clients.plain.sasl.server.callback.handler.class"
    with Broker(ports | users) as broker:
        with Admin(bootstrap_servers=inside) as admin:
            with pytest.raises(errors.InvalidRequest):
                admin.alter_configs("broker", "", set_={"authorizer.class.name": "antigravity.Fly"})
            with suppress(errors.InvalidRequest):
                admin.alter_configs("broker", "", set_={callback: "antigravity.Fly"})
        broker.restart()
        assert topics(clients, "a", "b") == set()
    assert "antigravity" not in sys.modules
