"""`kafka-acls`, `kafka-configs` for users, `ottla acls|users|secure`: beside Java's tools, and as people use them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ottla.cli.main import main
from ottla.testing import Broker
from tests.oracle.cluster import run_tool, why_not
from tests.oracle.programs import Commands

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
needs_java = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

STEPS = (
    "kafka-acls --add --allow-principal User:alice --operation Read --topic t",
    "kafka-acls --add --allow-principal User:bob --producer --topic t --transactional-id x --idempotent",
    "kafka-acls --add --allow-principal User:carol --consumer --topic t --group g "
    "--resource-pattern-type prefixed",
    "kafka-acls --add --deny-principal User:mallory --deny-host 10.0.0.1 --operation All --cluster",
    "kafka-acls --list",
    "kafka-acls --list --topic t",
    "kafka-acls --list --topic topic --resource-pattern-type match",
    "kafka-acls --list --principal User:alice",
    "kafka-acls --remove --force --allow-principal User:alice --operation Read --topic t",
    "kafka-acls --list --topic t",
    "kafka-acls --remove --force --topic t",
    "kafka-acls --list",
    "kafka-configs --alter --entity-type users --entity-name a --add-config "
    "SCRAM-SHA-256=[iterations=8192,password=x],SCRAM-SHA-512=[password=x]",
    "kafka-configs --describe --entity-type users --entity-name a",
    "kafka-configs --alter --user a --delete-config SCRAM-SHA-512",
    "kafka-configs --describe --entity-type users",
)

# Arguments of kafka-configs.
QUOTAS = """\
--alter --entity-type clients --entity-name c --add-config producer_byte_rate=1024,consumer_byte_rate=2048
--alter --entity-type clients --entity-default --add-config request_percentage=50.5
--alter --entity-type users --entity-name u --add-config producer_byte_rate=1000
--alter --entity-type users --entity-default --add-config consumer_byte_rate=1000
--alter --entity-type users --entity-name u --entity-type clients --entity-name c --add-config producer_byte_rate=10
--alter --entity-type users --entity-name u --entity-type clients --entity-default --add-config producer_byte_rate=11
--alter --entity-type clients --entity-name c --entity-type users --entity-default --add-config producer_byte_rate=12
--alter --user u2 --client c2 --add-config producer_byte_rate=13,controller_mutation_rate=2.5
--alter --user-defaults --client-defaults --add-config producer_byte_rate=14000000
--alter --user u2 --add-config SCRAM-SHA-256=[password=x]
--alter --user u3 --add-config SCRAM-SHA-256=[password=x],producer_byte_rate=7
--alter --ip 10.0.0.1 --add-config connection_creation_rate=5
--alter --entity-type ips --entity-default --add-config connection_creation_rate=6
--describe --entity-type clients
--describe --entity-type clients --entity-name c
--describe --entity-type clients --entity-default
--describe --entity-type clients --entity-name nobody
--describe --entity-type users
--describe --entity-type users --entity-name u
--describe --entity-type users --entity-name u2
--describe --entity-type users --entity-default
--describe --entity-type users --entity-name nobody
--describe --entity-type users --entity-type clients
--describe --entity-type users --entity-name u --entity-type clients
--describe --user u --client c
--describe --user u --client-defaults
--describe --user-defaults --client c
--describe --ip 10.0.0.1
--describe --ip-defaults
--describe --entity-type ips
--describe --entity-type ips --entity-name 10.9.9.9
--alter --entity-type clients --entity-name c --delete-config consumer_byte_rate
--alter --entity-type clients --entity-name c --delete-config consumer_byte_rate
--alter --ip 10.0.0.1 --delete-config connection_creation_rate
--alter --entity-type clients --entity-name c --add-config nonsense=1
--alter --entity-type clients --entity-name c --add-config producer_byte_rate=abc
--alter --entity-type clients --entity-name c --add-config producer_byte_rate=-1
--alter --entity-type ips --entity-name nonsense --add-config connection_creation_rate=6
--alter --entity-type clients --add-config producer_byte_rate=1
--alter --ip 10.0.0.1 --user u --add-config connection_creation_rate=6
--alter --entity-type users --entity-name u --add-config connection_creation_rate=6
--alter --user u --delete-config producer_byte_rate --add-config consumer_byte_rate=5
--describe --user u
--describe --entity-type clients --entity-name c
""".splitlines()


def lines(text: str) -> list[str]:
    """Without order: Java's sets have none."""
    return sorted(line.strip() for line in text.splitlines() if line.strip())


@needs_java
@pytest.mark.oracle
def test_our_commands_do_and_print_what_javas_do(capsys):
    with Broker(SETTINGS) as theirs, Broker(SETTINGS) as ours:
        for step in STEPS:
            tool, *arguments = step.split()
            java = run_tool(tool, "--bootstrap-server", theirs.bootstrap, *arguments)
            assert main([tool, "--bootstrap-server", ours.bootstrap, *arguments]) == 0
            assert lines(capsys.readouterr().out) == lines(java), step


@needs_java
@pytest.mark.oracle
def test_quotas_by_our_kafka_configs_and_by_javas(capsys):
    with Broker() as theirs, Broker() as ours, Commands() as java:
        for step in QUOTAS:
            there = ["--bootstrap-server", theirs.bootstrap, *step.split()]
            expected = java.run("kafka.admin.ConfigCommand", there)
            here = ["--bootstrap-server", ours.bootstrap, *step.split()]
            assert main(["kafka-configs", *here]) == expected.status, step
            assert lines(capsys.readouterr().out) == lines(expected.out), step


def test_rules_are_explained(capsys):
    with Broker(SETTINGS) as broker:
        where = ["-b", broker.bootstrap]
        assert (
            main(["acls", "allow", "alice", "read", "describe-configs", "--topic", "ord", "--prefix", *where])
            == 0
        )
        assert main(["acls", "deny", "alice", "read", "--topic", "orders-secret", *where]) == 0
        capsys.readouterr()
        assert main(["acls", "explain", "alice", "read", "--topic", "orders", *where]) == 0
        assert "User:alice from * is allowed READ on topic ord..." in capsys.readouterr().out
        assert main(["acls", "explain", "alice", "read", "--topic", "orders-secret", *where]) == 1
        assert "denied READ on topic orders-secret" in capsys.readouterr().out
        assert main(["acls", "explain", "bob", "read", "--topic", "elsewhere", *where]) == 1
        assert "no rule names this resource" in capsys.readouterr().out
        assert main(["acls", "remove", "alice", "read", "--topic", "orders-secret", "--deny", *where]) == 0
        assert main(["acls", "explain", "alice", "read", "--topic", "orders-secret", *where]) == 0
        assert main(["acls", "remove", "alice", "read", "--topic", "nothing", *where]) == 1
        assert main(["acls", "allow", "alice", "fly", "--topic", "t", *where]) == 1
        assert "there is no operation 'fly'" in capsys.readouterr().err


def test_users_come_and_go(capsys, tmp_path):
    password = tmp_path / "password"
    password.write_text("secret\n")
    with Broker(security="SASL_PLAINTEXT", users={"admin": "x"}) as broker:
        config = tmp_path / "admin.properties"
        config.write_text("\n".join(f"{k}={v}" for k, v in broker.client_settings("admin").items()))
        where = ["--command-config", str(config)]
        assert main(["users", "add", "alice", "--password-file", str(password), *where]) == 0
        broker._users["alice"] = "secret"
        alice = tmp_path / "alice.properties"
        alice.write_text("\n".join(f"{k}={v}" for k, v in broker.client_settings("alice").items()))
        assert main(["topics", "list", "--command-config", str(alice)]) == 0
        assert main(["users", "remove", "alice", *where]) == 0
        assert main(["topics", "list", "--command-config", str(alice)]) == 1
        assert "invalid credentials" in capsys.readouterr().err
        assert main(["users", "remove", "alice", *where]) == 1
        assert "does not exist" in capsys.readouterr().err


def test_from_nothing_to_tls_scram_and_rules(tmp_path, capsys):
    """`ottla secure init` and the commands that it prints."""
    from tests.oracle.ports import free_ports

    (port,) = free_ports(1)
    folder, where = tmp_path / "secure", f"localhost:{port}"
    assert main(["secure", "init", str(folder), "--port", str(port)]) == 0
    assert {each.stat().st_mode & 0o077 for each in folder.iterdir()} == {0}
    assert main(["secure", "init", str(folder)]) == 1  # nothing is written over
    start = [
        sys.executable,
        "-m",
        "ottla",
        "start",
        "--config",
        str(folder / "broker.properties"),
        "--memory",
    ]
    with subprocess.Popen(start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("ready "), process.stderr.read()
            admin = ["-b", where, "--command-config", str(folder / "client.properties")]
            assert main(["topics", "create", "orders", *admin]) == 0
            (tmp_path / "p").write_text("secret")
            assert main(["users", "add", "alice", "--password-file", str(tmp_path / "p"), *admin]) == 0
            assert main(["acls", "allow", "alice", "describe", "--topic", "orders", *admin]) == 0
            alice = [
                "-b",
                where,
                "-X",
                "security.protocol=SASL_SSL",
                "-X",
                f"ssl.ca.location={folder}/ca.pem",
            ]
            alice += [
                "-X",
                "sasl.mechanism=SCRAM-SHA-512",
                "-X",
                "sasl.username=alice",
                "-X",
                "sasl.password=secret",
            ]
            capsys.readouterr()
            assert main(["topics", "list", *alice]) == 0
            assert "orders" in capsys.readouterr().out
            assert main(["topics", "create", "mine", *alice]) == 1
            assert "authorization failed" in capsys.readouterr().err
            assert main(["topics", "list", "-b", where, "-X", "default.api.timeout.ms=2000"]) == 1
        finally:
            process.terminate()
            process.communicate(timeout=60)
