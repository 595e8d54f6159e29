"""Rules, SCRAM users and quotas go from Apache Kafka to Ottla and back, as Kafka's own tools and logins see them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla import errors
from ottla.client import Admin, Producer
from tests.integration.test_start import ottla
from tests.oracle import cluster
from tests.oracle.cluster import Oracle, run_tool
from tests.oracle.ottla import Ottla
from tests.oracle.ports import free_ports

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(cluster.why_not() is not None, reason=cluster.why_not() or ""),
]

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "group.initial.rebalance.delay.ms": 0}
MECHANISMS = "SCRAM-SHA-256,SCRAM-SHA-512"


class Seen(NamedTuple):
    """What Apache Kafka's tools print, line by line; the order of lines, and within them, means nothing."""

    rules: list[str]
    users: list[tuple[str, ...]]
    clients: list[tuple[str, ...]]


class Place(NamedTuple):
    """`clients` wants a login; `inside` is for the operator, who may do everything."""

    clients: str
    inside: str

    def tool(self, name: str, *arguments: str) -> str:
        return run_tool(name, "--bootstrap-server", self.inside, *arguments)

    def configure(self, *arguments: str) -> None:
        self.tool("kafka-configs", "--alter", *arguments)

    def look(self) -> Seen:
        rules = self.tool("kafka-acls", "--list").splitlines()
        return Seen(
            sorted(line.strip() for line in rules if line.strip()),
            self._described("users"),
            self._described("clients"),
        )

    def _described(self, kind: str) -> list[tuple[str, ...]]:
        printed = self.tool("kafka-configs", "--describe", "--entity-type", kind).splitlines()
        return sorted(tuple(sorted(line.replace(",", " ").split())) for line in printed if line.strip())

    def writes(self, topic: str, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
        """Whether the user may; raises if the login is refused."""
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
        with Producer({"bootstrap.servers": self.clients, "max.block.ms": 60_000, **login}) as producer:
            try:
                producer.send(topic, b"value").result(60)
            except errors.TopicAuthorizationFailed:
                return False
            return True


def at(kafka: Oracle) -> Place:
    return Place(f"127.0.0.1:{kafka.port}", f"127.0.0.1:{kafka.port + 50}")


@pytest.fixture
def oracles(tmp_path: Path) -> Iterator[list[Oracle]]:
    made = [
        Oracle(data=tmp_path / f"kafka-{number}", settings=SETTINGS, heap="512M", listeners="scram")
        for number in range(2)
    ]
    yield made
    for oracle in made:
        oracle.close()


def set_up(kafka: Place) -> None:
    """One of each kind, and one of each that is removed again."""
    with Admin(bootstrap_servers=kafka.inside) as admin:
        for topic in ("orders", "orders-eu", "secret"):
            admin.create_topic(topic, 1)
    rules = [
        ("--allow-principal", "User:alice", "--producer", "--topic", "orders"),
        ("--allow-principal", "User:carol", "--operation", "Write", "--topic", "orders",
         "--resource-pattern-type", "prefixed"),
        ("--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--operation", "All", "--group", "*"),
        ("--allow-principal", "User:gone", "--operation", "Alter", "--cluster"),
    ]  # fmt: skip
    for rule in rules:
        kafka.tool("kafka-acls", "--add", *rule)
    kafka.tool("kafka-acls", "--remove", "--force", *rules[-1])
    kafka.configure(
        "--entity-type", "users", "--entity-name", "carol",
        "--add-config", "SCRAM-SHA-512=[iterations=8192,password=carol-secret]",
    )  # fmt: skip
    kafka.configure("--entity-type", "users", "--entity-name", "bob", "--delete-config", "SCRAM-SHA-512")
    with Admin(bootstrap_servers=kafka.inside) as admin:
        admin.alter_quotas({"user": "alice"}, {"producer_byte_rate": 1048576.0, "consumer_byte_rate": 2e9})
        admin.alter_quotas({"user": "alice", "client-id": None}, {"producer_byte_rate": 4096.0})
        admin.alter_quotas({"client-id": "billing"}, {"consumer_byte_rate": 77.0})
        admin.alter_quotas({"client-id": "gone"}, {"consumer_byte_rate": 78.0})
        admin.alter_quotas({"client-id": "gone"}, {"consumer_byte_rate": None})


def check_logins(place: Place, carol: str) -> None:
    assert place.writes("orders", "alice", "alice-secret")
    assert place.writes("orders", "alice", "alice-secret", "SCRAM-SHA-512")
    assert place.writes("orders-eu", "carol", carol, "SCRAM-SHA-512")
    assert not place.writes("orders-eu", "alice", "alice-secret")
    assert not place.writes("secret", "bob", "bob-secret")
    for user, password, mechanism in (
        ("alice", "wrong", "SCRAM-SHA-256"),
        ("bob", "bob-secret", "SCRAM-SHA-512"),  # removed
        ("carol", carol, "SCRAM-SHA-256"),  # never set
    ):
        with pytest.raises(errors.SaslAuthenticationFailed):
            place.writes("orders", user, password, mechanism)


def start_imported(source: Path, data: Path) -> tuple[Ottla, Place]:
    result = ottla("import-kafka", "--from", str(source), "--data", str(data))
    assert result.returncode == 0, result.stderr
    assert "ACLs: they are enforced where authorizer.class.name is set" in result.stdout
    clients, inside = free_ports(2)
    settings = {
        **SETTINGS,
        "listeners": f"CLIENT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{inside}",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": MECHANISMS,
        "super.users": "User:admin;User:ANONYMOUS",
    }
    broker = Ottla(clients, data=data, settings=settings, options=("--broker-id", "1"))
    return broker, Place(f"127.0.0.1:{clients}", f"127.0.0.1:{inside}")


def export(data: Path, kafka: Oracle) -> None:
    kafka.prepare()
    shutil.rmtree(kafka.log_folder())
    controller = f"127.0.0.1:{kafka.port + 100}"
    result = ottla(
        "export-kafka", "--data", str(data), "--to", str(kafka.log_folder()), "--controller", controller
    )
    assert result.returncode == 0, result.stderr


def test_rules_users_and_quotas_there_and_back(tmp_path: Path, oracles: list[Oracle]) -> None:
    first, second = oracles
    first.start()
    set_up(at(first))
    seen = at(first).look()
    printed = " ".join(word for line in (*seen.users, *seen.clients) for word in line)
    for expected in ("'carol'", "producer_byte_rate=1048576.0", "SCRAM-SHA-512=iterations=8192", "'billing'"):
        assert expected in printed
    assert any("PREFIXED" in line for line in seen.rules) and "gone" not in str(seen)
    check_logins(at(first), "carol-secret")
    first.stop()

    broker, place = start_imported(first.log_folder(), tmp_path / "ours")
    with broker:
        assert place.look() == seen
        check_logins(place, "carol-secret")
        place.tool("kafka-acls", "--remove", "--force", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1",
                   "--operation", "All", "--group", "*")  # fmt: skip
        place.configure("--entity-type", "users", "--entity-name", "carol",
                        "--add-config", "SCRAM-SHA-512=[iterations=4096,password=changed]")  # fmt: skip
        with Admin(bootstrap_servers=place.inside) as admin:
            admin.alter_quotas({"user": "alice"}, {"producer_byte_rate": 5.0, "consumer_byte_rate": None})
        changed = place.look()
        assert changed != seen
        assert broker.stop() == 0
    export(tmp_path / "ours", second)

    second.start()
    assert at(second).look() == changed
    check_logins(at(second), "changed")
