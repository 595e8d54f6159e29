"""Java's client pushes its metrics to Ottla once somebody subscribes to them (KIP-714)."""

from __future__ import annotations

import json
import urllib.request

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.testing import Broker
from tests.conftest import Target
from tests.oracle.cluster import run_tool, why_not

pytestmark = [pytest.mark.oracle, pytest.mark.skipif(why_not() is not None, reason=why_not() or "")]


def test_javas_producer_pushes_by_itself() -> None:
    with Broker() as broker:
        broker.create_topic("t", 1)
        with Admin({"bootstrap.servers": broker.bootstrap}) as admin:
            wanted = {"metrics": "*", "interval.ms": "100"}
            admin.alter_configs("client-metrics", "all", set_=wanted)
        arguments = ["--topic", "t", "--num-records", "1500", "--record-size", "100", "--throughput", "500"]
        settings = ["--producer-props", f"bootstrap.servers={broker.bootstrap}", "client.id=java"]
        run_tool("kafka-producer-perf-test", *arguments, *settings)
        with urllib.request.urlopen(f"http://{broker.http}/telemetry") as answer:
            (client,) = json.load(answer)["clients"]
        assert client["client_id"] == "java"
        assert client["client_software_name"] == "apache-kafka-java"
        # Whether it also pushes a last time depends on whether a push is under way when it ends.
        assert client["pushes"] >= 2
        names = {point["name"] for point in client["metrics"]}
        assert any(name.startswith("org.apache.kafka.producer.") for name in names), names


def test_javas_tool_sets_levels_of_loggers_and_subscriptions() -> None:
    with Broker() as broker:
        where = ["--bootstrap-server", broker.bootstrap]
        done = run_tool("kafka-client-metrics", *where, "--alter", "--name", "s", "--metrics", "a")
        assert done == "Altered client metrics config for s.\n"
        loggers = ["--entity-type", "broker-loggers", "--entity-name", "1"]
        described = run_tool("kafka-configs", *where, "--describe", *loggers)
        assert "  ottla.server=" in described


def test_top_tells_the_same_of_both(both: dict[str, Target], capsys: pytest.CaptureFixture[str]) -> None:
    """Over the Kafka protocol alone: rates differ, what there is does not."""
    shown = {}
    for name, server in both.items():
        where = ["--bootstrap", server.bootstrap]
        assert main(["topics", "create", "seen-by-top", "--partitions", "3", *where]) == 0
        with Producer({"bootstrap.servers": server.bootstrap}) as producer:
            for number in range(30):
                producer.send("seen-by-top", b"v", partition=number % 3)
            producer.flush()
        capsys.readouterr()
        assert main(["top", "--json", "--interval", "0.2", *where]) == 0
        told = json.loads(capsys.readouterr().out)
        (topic,) = (row for row in told["topics"] if row["topic"] == "seen-by-top")
        shown[name] = {key: topic[key] for key in ("partitions", "messages", "offline", "under_replicated")}
        assert topic["bytes"] > 0
        assert told["brokers"][0]["role"] == "controller"
    assert all(each == shown["ottla"] for each in shown.values())
