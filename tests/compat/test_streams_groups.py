"""Java's Kafka Streams with `group.protocol=streams`, and Apache Kafka's tool for its groups."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla import Admin
from tests.compat.members import wait_until
from tests.compat.printed import Printed, assert_alike, run_commands
from tests.compat.printed import words as printed_words
from tests.conftest import Target
from tests.oracle import programs
from tests.oracle.cluster import run_tool
from tests.oracle.ottla import Ottla
from tests.soak import streams as word_count
from tests.soak.kills import make_topic

Unique = Callable[[str], str]
TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
PATIENCE_S = 120
LIVE = (
    "--describe --group {group}",
    "--describe --group {group} --offsets --verbose",
    "--describe --group {group} --members --verbose",
    "--describe --group {group} --members",
    "--describe --group {group} --state --verbose",
    "--describe --group {group} --state",
    "--reset-offsets --group {group} --input-topic {topic} --to-earliest --execute",
    "--delete --group {group}",
)
EMPTY = (
    "--describe --group {group} --state",
    "--describe --group {group} --members",
    "--describe --group {group}",
    "--describe --group {group}-nobody",
    "--reset-offsets --group {group} --input-topic {topic} --to-earliest --dry-run",
    "--reset-offsets --group {group} --all-input-topics --to-latest --execute",
    "--delete-offsets --group {group} --input-topic {topic}:0",
    "--delete --group {group}",
    "--describe --group {group} --state",
)
OURS = tuple(line for line in LIVE if line.startswith("--describe"))


@contextmanager
def application(
    bootstrap: str, group: str, source: str, target: str, folder: Path
) -> Iterator[subprocess.Popen[str]]:
    folder.mkdir(exist_ok=True)
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    arguments = (bootstrap, group, source, target, str(folder), "streams")
    process = programs.start("WordCount", *arguments, **quiet)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write(bootstrap: str, topic: str, lines: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(lines):
        producer.produce(topic, b"one two", key=b"%d" % number)
    assert not producer.flush(60)


def is_stable(bootstrap: str, group: str, members: int = 1) -> bool:
    """All tasks run, and everything is committed."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        if not any(each.id == group for each in admin.list_groups(types=["streams"])):
            return False
        found = admin.describe_streams_group(group)
        return (
            found.state == "Stable"
            and len(found.members) == members
            and all(m.tasks.active for m in found.members)
        )


def has_committed(bootstrap: str, group: str) -> bool:
    """Of every partition with records that the group reads."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.describe_group(group)
        read = [partition for member in found.members for partition in member.assignment]
        ends = admin.list_offsets(dict.fromkeys(read, -1))
        filled = {partition for partition, at in ends.items() if at.offset > 0}
        return len({each.topic for each in filled}) == 2 and filled <= set(admin.group_offsets(group))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kafka_streams_groups_prints_the_same(
    both: dict[str, Target], unique: Unique, tmp_path: Path
) -> None:
    """Described, reset and deleted, while there is a member and afterwards; by Kafka's tool and by ours."""
    stem = unique("streams-printed")
    printed: dict[str, list[Printed]] = {}
    for name, server in both.items():
        topic, group = f"{stem}-topic", f"{stem}-group"
        for each in (topic, f"{topic}-out"):
            make_topic(server.bootstrap, each, 2)
        write(server.bootstrap, topic, 10)
        with application(server.bootstrap, group, topic, f"{topic}-out", tmp_path / name) as process:
            wait_until(partial(is_stable, server.bootstrap, group), "tasks run", PATIENCE_S)
            wait_until(partial(has_committed, server.bootstrap, group), "commits", PATIENCE_S)
            printed[name] = run_commands(TOOL, server, LIVE, topic, group, words)
            if name == "ottla":
                ours = [our_words(server, line, topic, group) for line in OURS]
                theirs = [found for line, found in zip(LIVE, printed[name], strict=True) if line in OURS]
                assert ours == theirs
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        printed[name] += run_commands(TOOL, server, EMPTY, topic, group, words)
    assert_alike([*LIVE, *EMPTY], printed)


def our_words(server: Target, line: str, topic: str, group: str) -> list[list[str]]:
    arguments = line.format(topic=topic, group=group).split()
    command = [sys.executable, "-m", "ottla.cli.main", "kafka-streams-groups"]
    done = subprocess.run(
        [*command, "--bootstrap-server", server.bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return words(done.stdout)


def words(text: str) -> list[list[str]]:
    """As of consumer groups; epochs and how far the tasks have got are each run's own."""
    return [[re.sub(r"^\d+$", "N", word) for word in line] for line in printed_words(text)]


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_instances_share_tasks_and_one_takes_over_when_the_other_leaves(
    java: None, tmp_path: Path
) -> None:
    """And Apache Kafka's kafka-dump-log reads what the coordinator has written."""
    data = tmp_path / "data"
    with Ottla(data=data, settings=word_count.SETTINGS | {"offsets.topic.num.partitions": 1}) as broker:
        for topic in ("lines", word_count.OUTPUT):
            make_topic(broker.bootstrap, topic, 2)
        write(broker.bootstrap, "lines", 50)
        first = application(broker.bootstrap, "pair", "lines", word_count.OUTPUT, tmp_path / "first")
        second = application(broker.bootstrap, "pair", "lines", word_count.OUTPUT, tmp_path / "second")
        with first, second as leaving:
            wait_until(lambda: is_stable(broker.bootstrap, "pair", members=2), "both run tasks", PATIENCE_S)
            leaving.send_signal(signal.SIGTERM)
            wait_until(lambda: is_stable(broker.bootstrap, "pair", members=1), "one has all", PATIENCE_S)
            write(broker.bootstrap, "lines", 50)
            wait_until(
                lambda: word_count.counts(broker.bootstrap)[0] == {"one": 100, "two": 100},
                "everything is counted",
                PATIENCE_S,
            )
        broker.stop()
        segments = sorted((data / "__consumer_offsets-0").glob("*.log"))
        names = ",".join(map(str, segments))
        text = run_tool("kafka-dump-log", "--offsets-decoder", "--files", names)
        kinds = {int(kind) for kind in re.findall(r'"type":"?(\d+)', text)}
        assert {17, 19, 20, 21, 22, 23} <= kinds, text[:2000]
