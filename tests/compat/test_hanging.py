"""A transaction that nobody would end: found, shown and aborted, by our tool and by Apache Kafka's, on both."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.compat.clients import Confluent
from tests.compat.raw import Raw, ask_until
from tests.conftest import SETTINGS, Target
from tests.oracle import programs
from tests.oracle.cluster import Oracle
from tests.oracle.ottla import Ottla
from tests.oracle.transactions import wait_for_markers
from tests.soak.kills import read_all

Unique = Callable[[str], str]
TOOL = "org.apache.kafka.tools.TransactionsCommand"
_COMMITTED = {"isolation.level": "read_committed"}
_EMPTY, _COMMIT, _ABORT = (0,), (1, 2, 4), (1, 3, 5)  # states in the log: ongoing, prepared, complete


@pytest.fixture(params=[Oracle, Ottla], ids=["kafka", "ottla"])
def server(request: pytest.FixtureRequest) -> Iterator[Target]:
    """One of its own: what its coordinator knew is going to be lost."""
    if request.config.getoption("--target") not in ("both", request.param.name):
        pytest.skip("not asked for (--target)")
    if (reason := programs.why_not_java()) is not None:
        pytest.skip(reason)
    with request.param(settings=SETTINGS) as made:
        yield made


@pytest.mark.oracle
@pytest.mark.slow
def test_a_hanging_transaction_is_found_shown_and_aborted(server: Target, unique: Unique) -> None:
    topic, client = unique("hanging"), Confluent(server.bootstrap)
    client.create(topic)
    _leave_open(server, topic, unique("producer"))
    plain = confluent_kafka.Producer({"bootstrap.servers": server.bootstrap})
    plain.produce(topic, b"behind", partition=0)
    plain.flush(60)
    assert read_all(server.bootstrap, topic, 0, **_COMMITTED) == [], "nothing passes it"

    where = f"--topic {topic} --partition 0"
    found, shown, nothing = _java(
        server,
        "find-hanging --broker-id 1 --max-transaction-timeout 0",
        f"describe-producers {where}",
        "list",
    )
    assert _rows(found)[1][:2] == [topic, "0"]
    assert _rows(shown)[1][5] == "0", "it starts at offset 0"
    assert len(_rows(nothing)) == 1, "no coordinator knows it"
    ours = _ottla(server, "find-hanging", "--max-transaction-timeout", "0s")
    assert _rows(ours)[1][:2] == [topic, "0"]

    if server.name == "ottla":
        (aborted,) = _java(server, f"abort {where} --start-offset 0")
        assert "rror" not in aborted, aborted
    else:
        _ottla(server, "abort", "-t", topic, "-p", "0", "--start-offset", "0")
    wait_for_markers(server.bootstrap, topic)
    assert read_all(server.bootstrap, topic, 0, **_COMMITTED) == [b"behind"]
    (found,) = _java(server, "find-hanging --broker-id 1 --max-transaction-timeout 0")
    assert len(_rows(found)) == 1, "and is gone"


@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_dump_log_reads_the_transactions_of_a_running_broker(server: Target, unique: Unique) -> None:
    topic, name = unique("dumped"), unique("producer")
    Confluent(server.bootstrap).create(topic)
    producer = _producer(server, name)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce(topic, b"v", partition=0)
        producer.flush(60)  # else an abort finds nothing to end
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    with Raw(server.bootstrap) as raw:
        ask_until(  # the coordinator writes down the end behind its answer, and behind the markers
            lambda: raw.call("describe_transactions", 0, {"transactional_ids": [name]}),
            lambda answer: answer["transaction_states"][0]["transaction_state"] == "CompleteAbort",
            "the transaction is completed",
        )
    lines = [
        f"--transaction-log-decoder --files {each}"
        for each in sorted(server.log_folder().glob("__transaction_state-*/*.log"))
        if each.stat().st_size
    ]
    printed = "".join(programs.run_lines("org.apache.kafka.tools.DumpLogSegments", lines))
    found = re.findall(r"^\| offset: \d+ .* key: (\{.*\}) payload: (\{.*\})$", printed, re.MULTILINE)
    states = [json.loads(value)["data"]["transactionStatus"] for key, value in found if name in key]
    assert states == [*_EMPTY, *_COMMIT, *_ABORT]


def _leave_open(server: Target, topic: str, name: str) -> None:
    """A record of a transaction whose coordinator loses all it knew."""
    producer = _producer(server, name)
    producer.begin_transaction()
    producer.produce(topic, b"hanging", partition=0)
    producer.flush(60)
    server.kill()
    for each in server.log_folder().glob("__transaction_state-*"):
        for file in (*each.glob("0*"), *each.glob("*.snapshot")):
            file.unlink()
    server.start()
    del producer


def _producer(server: Target, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(60)
    return producer


def _java(server: Target, *lines: str) -> list[str]:
    return programs.run_lines(TOOL, [f"--bootstrap-server {server.bootstrap} {each}" for each in lines])


def _ottla(server: Target, *arguments: str) -> str:
    program = Path(sys.executable).with_name("ottla")
    command = [program, "transactions", *arguments, "--bootstrap", server.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    return done.stdout


def _rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip() and not line.startswith("[")]
