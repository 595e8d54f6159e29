"""`kafka-consumer-groups` prints the same for the same history on both servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.compat.clients import Confluent, Row
from tests.compat.members import ConfluentMember, group_of, wait_until
from tests.conftest import Target
from tests.oracle import programs

Unique = Callable[[str], str]
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
LIVE = (
    "--describe --group {group}",
    "--describe --group {group} --offsets --verbose",
    "--describe --group {group} --members --verbose",
    "--describe --group {group} --state --verbose",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --execute",
    "--delete-offsets --group {group} --topic {topic}",
    "--delete --group {group}",
)
EMPTY = (
    "--describe --group {group}",
    "--describe --group {group} --members",
    "--describe --group {group} --state",
    "--describe --group {group}-nobody",
    "--reset-offsets --group {group} --topic {topic} --to-earliest --dry-run",
    "--reset-offsets --group {group} --topic {topic}:0 --to-offset 3 --execute",
    "--reset-offsets --group {group} --topic {topic} --shift-by -2 --execute",
    "--reset-offsets --group {group} --topic {topic} --to-datetime 2000-01-01T00:00:00.000 --execute",
    "--reset-offsets --group {group} --topic {topic} --by-duration PT1H --export",
    "--reset-offsets --group {group} --all-topics --to-latest --export",
    "--reset-offsets --group {group} --topic {topic} --to-current --execute",
    "--reset-offsets --group {group} --topic {topic}-nowhere --to-earliest --execute",
    "--reset-offsets --group {group} --topic {topic} --to-offset 99 --execute",
    "--describe --group {group}",
    "--delete-offsets --group {group} --topic {topic}:1",
    "--delete-offsets --group {group} --topic {topic}-nowhere",
    "--describe --group {group}",
    "--delete --group {group}",
    "--delete --group {group}",
    "--describe --group {group}",
)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_prints_the_same(
    both: dict[str, Target], protocol: str, unique: Unique
) -> None:
    """Described, reset and deleted, while there is a member and afterwards."""
    stem, printed = unique("printed"), {}
    settings = {"group.protocol": "consumer"} if protocol == "consumer" else {}
    for name, server in both.items():
        topic, group, client = f"{stem}-topic", f"{stem}-group", Confluent(server.bootstrap)
        client.create(topic, 2)
        for partition in range(2):
            client.produce(topic, [Row(b"%d" % i) for i in range(10)], partition)
        with group_of(ConfluentMember(server.bootstrap, group, [topic], **settings)) as (member,):
            wait_until(lambda m=member: len(m.read) == 20, "everything read")  # type: ignore[misc]
            printed[name] = _run(server, LIVE, topic, group)
        printed[name] += _run(server, EMPTY, topic, group)
    if len(printed) == 2:
        commands = [*LIVE, *EMPTY]
        unequal = [
            {"command": command, "kafka": kafka, "ottla": ottla}
            for command, kafka, ottla in zip(commands, printed["kafka"], printed["ottla"], strict=True)
            if kafka != ottla
        ]
        assert not unequal, json.dumps(unequal, indent=1)


def _run(server: Target, commands: tuple[str, ...], topic: str, group: str) -> list[list[list[str]]]:
    lines = [
        f"--bootstrap-server {server.bootstrap} " + each.format(topic=topic, group=group) for each in commands
    ]
    return [_words(each) for each in programs.run_lines(TOOL, lines)]


def _words(text: str) -> list[list[str]]:
    """Lines as words in any order of lines; ports, ids and Java's stack traces away."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"(?<=\s)(?=\S*[A-Z])[A-Za-z0-9_+/-]{22}(?=\s)", "ID", text)
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith(("\tat ", "[", "Caused by"))
    ]
    return sorted(line.split() for line in lines)
