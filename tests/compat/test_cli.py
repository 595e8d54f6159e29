"""Every command of `ottla`, the same on Apache Kafka and on Ottla."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Consumer, Producer
from ottla.client.values import TopicPartition
from tests.compat.clients import eventually
from tests.conftest import Target
from tests.oracle.transactions import wait_for_markers

Unique = Callable[[str], str]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    def rows(self) -> list[list[str]]:
        """A table's cells, its head first."""
        assert self.code == 0, self.err
        return [line.split() for line in self.out.splitlines()]


@pytest.fixture
def cli(target: Target, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", target.bootstrap)

    def run(*arguments: object, stdin: bytes = b"") -> Outcome:
        out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(each) for each in arguments])
        texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
        return Outcome(code, *texts)

    return run


Cli = Callable[..., Outcome]


def test_topics_from_creation_to_deletion(cli: Cli, unique: Unique) -> None:
    topic = unique("topics")
    created = cli("topics", "create", topic, "-p", 2, "-r", 1, "-c", "retention.ms=123456")
    assert created.rows() == [["TOPIC", "PARTITIONS", "REPLICAS", "STATUS"], [topic, "2", "1", "CREATED"]]
    again = cli("topics", "create", topic)
    assert again.code == 1 and topic in again.err and again.err.count("\n") == 1
    assert cli("topics", "create", topic, "--if-not-exists").rows()[1][-1] == "EXISTS"
    # Apache Kafka answers before its brokers have heard of a change.
    eventually(lambda: [topic, "2", "1"] in cli("topics", "list").rows())
    assert {"topic": topic, "partitions": 2, "replicas": 1} in cli("topics", "list", "--json").json()

    cli("topics", "alter", topic, "--set", "segment.ms=7200000", "--delete", "retention.ms")
    wanted = {"segment.ms": "7200000"}
    eventually(lambda: cli("topics", "describe", topic, "--json").json()[0]["configs"] == wanted)
    described = cli("topics", "describe", topic, "--json").json()[0]
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    assert all(p["replicas"] == p["isr"] and p["log_end_offset"] == 0 for p in described["partitions"])

    grown = cli("topics", "add-partitions", topic, "-n", 1)
    assert grown.rows()[1] == [topic, "3", "GROWN"] and "keys" in grown.err
    eventually(lambda: [topic, "3", "1"] in cli("topics", "list").rows())
    assert cli("topics", "add-partitions", topic, "--to", 2).code == 1

    assert cli("topics", "delete", topic).rows()[1] == [topic, "DELETED"]
    eventually(lambda: topic not in cli("topics", "list").out)
    assert cli("topics", "delete", topic).code == 1
    assert cli("topics", "delete", topic, "--if-exists").code == 0
    assert topic not in cli("topics", "list").out


def test_bad_requests_end_in_one_line_and_exit_code_1(cli: Cli, unique: Unique) -> None:
    topic = unique("bad")
    for arguments in (
        ("topics", "create", "no/slash"),
        ("topics", "create", topic, "-r", 99),
        ("topics", "create", topic, "-c", "no.such.setting=1"),
        ("topics", "describe", topic),
        ("topics", "alter", topic, "--set", "retention.ms=1"),
        ("config", "describe", "topic", topic),
        ("groups", "describe", topic),
        ("groups", "delete", topic),
        ("transactions", "describe", topic),
    ):
        failed = cli(*arguments)
        assert failed.code == 1 and failed.err.count("\n") == 1, arguments


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(cli: Cli, unique: Unique, codec: str) -> None:
    topic = unique("records")
    cli("topics", "create", topic, "-p", 1)
    sent = cli("produce", topic, "-K", ":", "-H", "h=1", "-z", codec, "-v", stdin=b"a:1\nb:2\n:3\n")
    assert [line.split()[:3] for line in sent.out.splitlines()] == [
        [f"{topic}-0", "offset", str(i)] for i in range(3)
    ]
    assert (
        cli("consume", topic, "-e", "-f", "%p@%o %k=%s %h\\n").out == "0@0 a=1 h=1\n0@1 b=2 h=1\n0@2 =3 h=1\n"
    )


def test_ranges_of_offsets_and_times(cli: Cli, unique: Unique) -> None:
    topic = unique("ranges")
    cli("topics", "create", topic, "-p", 1, "-c", "retention.ms=-1")
    lines = b"".join(b"%d %d\n" % (1_700_000_000_000 + i * 1000, i) for i in range(10))
    assert cli("produce", topic, "-f", "%T %v\\n", stdin=lines).code == 0

    def read(*options: object) -> str:
        return cli("consume", topic, "-f", "%s", *options).out

    assert read("-o", "start", "-n", 3) == "012"
    assert read("-o", "-2", "-e") == "89"
    assert read("-o", "+7", "-e") == "789"
    assert read("-o", "4:6") == "45"
    assert read("-o", ":end") == "0123456789"
    assert read("-o", "@1700000003000:1700000005500") == "345"
    assert read("-o", "s@1700000008000", "-e") == "89"
    assert read("-o", "end", "-e") == ""
    assert json.loads(read("-J", "-o", "9", "-n", 1))["timestamp"] == 1_700_000_009_000


def test_bytes_that_are_no_text_and_nulls_survive_json(cli: Cli, target: Target, unique: Unique) -> None:
    topic, copy = unique("json"), unique("json-copy")
    cli("topics", "create", topic, copy, "-p", 1, "-c", "retention.ms=-1")
    with Producer(bootstrap_servers=target.bootstrap) as producer:
        producer.send(
            topic, b"\xff\x00", key=None, headers=[("h", b"\xfe"), ("h", None)], timestamp=1_700_000_000_000
        )
        producer.send(topic, None, key=b"", timestamp=1_700_000_000_001)
    printed = cli("consume", topic, "-e", "-J").out.replace(topic, copy)
    assert cli("produce", "--input", "json", stdin=printed.encode()).code == 0
    with Consumer(bootstrap_servers=target.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(copy, 0)])
        got = [(r.key, r.value, tuple(r.headers), r.timestamp) for r in _read(consumer, 2)]
    assert got == [
        (None, b"\xff\x00", (("h", b"\xfe"), ("h", None)), 1_700_000_000_000),
        (b"", None, (), 1_700_000_000_001),
    ]


def test_truncating_deletes_what_lies_before(cli: Cli, unique: Unique) -> None:
    topic = unique("truncate")
    cli("topics", "create", topic, "-p", 1)
    cli("produce", topic, stdin=b"0\n1\n2\n3\n")
    assert cli("topics", "truncate", topic, "--before", 3).rows()[1] == [topic, "0", "3"]
    assert cli("consume", topic, "-e").out == "3\n"
    assert cli("topics", "truncate", topic, "--before", "end").rows()[1] == [topic, "0", "4"]
    assert cli("consume", topic, "-e").out == ""


def test_a_group_reads_on_where_it_stopped_and_is_described(cli: Cli, unique: Unique) -> None:
    topic, group = unique("grouped"), unique("group")
    cli("topics", "create", topic, "-p", 1)
    cli("produce", topic, stdin=b"0\n1\n2\n3\n")
    assert cli("consume", topic, "-g", group, "-n", 3).out == "0\n1\n2\n"
    described = cli("groups", "describe", group)
    head = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert described.rows() == [head.split(), [group, topic, "0", "3", "4", "1", "-", "-", "-"]]
    assert "no active members" in described.err
    assert cli("consume", topic, "-g", group, "-e").out == "3\n"
    assert [group, "Empty"] in [[row[0], row[-1]] for row in cli("groups", "list").rows()]

    assert cli("groups", "delete-offsets", group, "-t", topic).rows()[1] == [topic, "0", "DELETED"]
    assert cli("groups", "describe", group, "--json").json() == []
    assert cli("groups", "delete", group).rows()[1] == [group, "DELETED"]
    assert cli("groups", "describe", group).code == 1


def test_offsets_are_reset_in_every_way(cli: Cli, unique: Unique, tmp_path: Path) -> None:
    topic, group = unique("reset"), unique("reset-group")
    cli("topics", "create", topic, "-p", 1, "-c", "retention.ms=-1")
    lines = b"".join(b"%d %d\n" % (1_700_000_000_000 + i * 1000, i) for i in range(10))
    cli("produce", topic, "-f", "%T %v\\n", stdin=lines)

    def reset(*options: object) -> int:
        rows = cli("groups", "reset-offsets", group, "-t", topic, *options, "--json").json()
        return int(rows[0]["new_offset"])

    assert reset("--to-offset", 5, "--execute") == 5
    assert reset("--to-earliest") == 0
    assert reset("--to-latest") == 10
    assert reset("--to-offset", 99) == 10
    assert reset("--to-datetime", "2023-11-14T22:13:23Z") == 3
    assert reset("--by-duration", "PT1H") == 10
    assert reset("--to-current") == 5, "the others were dry runs"
    assert reset("--shift-by", -2, "--execute") == 3
    exported = cli("groups", "reset-offsets", group, "--all-topics", "--to-current", "--export")
    assert exported.out == f'"{topic}",0,3\n'
    (tmp_path / "offsets.csv").write_text(exported.out.replace(",3", ",7"))
    arguments = ("groups", "reset-offsets", group, "--from-file", tmp_path / "offsets.csv", "--execute")
    assert cli(*arguments).rows()[1] == [group, topic, "0", "7"]
    assert cli("groups", "describe", group, "--json").json()[0]["current_offset"] == 7


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group_shows_its_members_and_cannot_be_reset(
    cli: Cli, target: Target, unique: Unique, protocol: str
) -> None:
    topic, group = unique("active"), unique("active-group")
    cli("topics", "create", topic, "-p", 2)
    settings = {"bootstrap.servers": target.bootstrap, "group.id": group, "group.protocol": protocol}
    with Consumer(settings, client_id="watcher") as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.5) is not None and len(consumer.assignment()) == 2)
        rows = cli("groups", "describe", group).rows()
        assert [(row[1], row[2], row[-1]) for row in rows[1:]] == [
            (topic, "0", "watcher"),
            (topic, "1", "watcher"),
        ]
        members = cli("groups", "describe", group, "--members", "--json").json()
        assert [(m["client_id"], m["partitions"]) for m in members] == [("watcher", 2)]
        state = cli("groups", "describe", group, "--state", "--json").json()[0]
        assert (state["state"], state["members"], state["type"]) == ("Stable", 1, protocol)
        refused = cli("groups", "reset-offsets", group, "-t", topic, "--to-earliest", "--execute")
        assert refused.code == 1 and "has members" in refused.err
        assert cli("groups", "delete", group).code == 1


def test_settings_are_shown_set_and_unset(cli: Cli, unique: Unique) -> None:
    topic = unique("config")
    cli("topics", "create", topic)
    eventually(lambda: topic in cli("topics", "list").out)
    assert cli("config", "set", "topic", topic, "max.message.bytes=54321").code == 0

    def shown() -> list[tuple[str, str]]:
        rows = cli("config", "describe", "topic", topic, "max.message.bytes", "--json").json()
        return [(each["value"], each["source"]) for each in rows]

    eventually(lambda: shown() == [("54321", "DYNAMIC_TOPIC_CONFIG")])
    assert cli("config", "unset", "topic", topic, "max.message.bytes").code == 0
    eventually(lambda: shown()[0][1] != "DYNAMIC_TOPIC_CONFIG")
    assert cli("config", "set", "topic", topic, "max.message.bytes=many").code == 1
    assert cli("config", "describe", "broker", 1, "--all").code == 0


def test_the_cluster_is_shown(cli: Cli, target: Target) -> None:
    info = cli("cluster", "info", "--json").json()
    assert [f"{b['host']}:{b['port']}" for b in info["brokers"]] == [target.bootstrap]
    assert cli("cluster", "log-dirs").code == 0
    served = {row[0]: row[2] for row in cli("cluster", "api-versions").rows()[1:]}
    assert int(served["Metadata"]) >= 12 and int(served["Fetch"]) >= 13


def test_transactions_are_listed_described_and_an_open_one_is_aborted(
    cli: Cli, target: Target, unique: Unique
) -> None:
    topic, name = unique("tx"), unique("tx-id")
    cli("topics", "create", topic, "-p", 1)
    settings = {"bootstrap.servers": target.bootstrap, "transactional.id": name}
    with Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"committed")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send(topic, b"open").result(60)
        listed = [row for row in cli("transactions", "list").rows() if row[0] == name]
        assert listed[0][-1] == "Ongoing"
        described = cli("transactions", "describe", name, "--json").json()[0]
        assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
        assert cli("consume", topic, "-e", "--read-committed").out == "committed\n"
        # The coordinator knows it and would end it: it does not hang.
        assert (
            cli(
                "transactions", "find-hanging", "-t", topic, "--max-transaction-timeout", "0s", "--json"
            ).json()
            == []
        )
        with Admin(bootstrap_servers=target.bootstrap) as admin:
            partition = TopicPartition(topic, 0)
            active = admin.describe_producers([partition])[partition]
        start = next(p.transaction_start_offset for p in active if p.transaction_start_offset >= 0)
        assert cli("transactions", "abort", "-t", topic, "-p", 0, "--start-offset", start).code == 0
        with Admin(bootstrap_servers=target.bootstrap) as admin:
            assert all(
                p.transaction_start_offset < 0 for p in admin.describe_producers([partition])[partition]
            )
        with contextlib.suppress(Exception):
            producer.abort_transaction()
    assert cli("consume", topic, "-e", "--read-committed").out == "committed\n"


def test_all_of_the_input_is_one_transaction_when_an_id_is_given(
    cli: Cli, target: Target, unique: Unique
) -> None:
    topic = unique("tx-produce")
    cli("topics", "create", topic, "-p", 1)
    assert cli("produce", topic, "-X", f"transactional.id={unique('id')}", stdin=b"a\nb\n").code == 0
    wait_for_markers(target.bootstrap, topic)
    assert cli("consume", topic, "-e", "--read-committed").out == "a\nb\n"


def _read(consumer: Consumer, count: int) -> list[Any]:
    records: list[Any] = []
    eventually(lambda: records.extend(consumer.poll(0.5)) or len(records) >= count)
    return records
