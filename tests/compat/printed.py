"""What Apache Kafka's tools print of two servers, as words that can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from tests.conftest import Target
from tests.oracle import programs

Printed = list[list[str]]  # the words of each line


def words(text: str) -> Printed:
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


def run_commands(
    tool: str,
    server: Target,
    commands: Sequence[str],
    topic: str,
    group: str,
    read: Callable[[str], Printed] = words,
) -> list[Printed]:
    """What the tool prints for each command line, in which {topic} and {group} are filled in."""
    lines = [
        f"--bootstrap-server {server.bootstrap} " + command.format(topic=topic, group=group)
        for command in commands
    ]
    return [read(text) for text in programs.run_lines(tool, lines)]


def assert_alike(commands: Sequence[str], printed: dict[str, list[Printed]]) -> None:
    """Nothing to compare where only one of the two servers is there."""
    if len(printed) == 2:
        unequal = [
            {"command": command, "kafka": kafka, "ottla": ottla}
            for command, kafka, ottla in zip(commands, printed["kafka"], printed["ottla"], strict=True)
            if kafka != ottla
        ]
        assert not unequal, json.dumps(unequal, indent=1)
