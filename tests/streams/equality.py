"""What Kafka Streams made of records, beside what we make of them.

python -m tests.streams.equality    writes the fixtures again; needs Java and Maven
"""

from __future__ import annotations

import json
import subprocess
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ottla.streams import App, TestDriver
from tests.oracle import programs
from tests.streams.topologies import TOPOLOGIES

FIXTURES = Path(__file__).with_name("fixtures") / "kafka-streams.jsonl"
SEED, RECORDS = 1, 70
# Internal to Kafka Streams, in formats that ours need not have.
INTERNAL = ("-sup-store-changelog", "-join-store-changelog", "-subscription-", "-repartition")

Cells = list[tuple[bytes | None, int]]  # values and times


class Fixture(NamedTuple):
    name: str
    described: str  # with Kafka's names for nodes
    inputs: list[tuple[str, str | None, str | None, int]]
    written: dict[str, dict[bytes | None, Cells]]  # by topic and key


def fixtures() -> Iterator[Fixture]:
    return map(parse, FIXTURES.read_text().splitlines())


def parse(line: str) -> Fixture:
    told = json.loads(line)
    written = {
        topic: by_key((_bytes(key), _bytes(value), at) for key, value, at in records)
        for topic, records in told["written"].items()
    }
    return Fixture(told["name"], told["describe"], [tuple(each) for each in told["inputs"]], written)


def ours(name: str, inputs: Iterable[tuple[str, str | None, str | None, int]]) -> TestDriver:
    """A driver that has seen the records."""
    app = App("app")
    TOPOLOGIES[name](app)
    driver = TestDriver(app)
    for topic, key, value, at in inputs:
        driver.input(topic).pipe(value, key, at)
    return driver


def by_key(records: Iterable[Any]) -> dict[bytes | None, Cells]:
    found: dict[bytes | None, Cells] = {}
    for record in records:
        found.setdefault(record[0], []).append((record[1], record[2]))
    return found


def java(seed: int, records: int, *names: str) -> list[str]:
    """Lines of fixtures."""
    command = programs.streams_command(str(seed), str(records), *names)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


def _bytes(cell: str | None) -> bytes | None:
    if cell is None:
        return None
    return b64decode(cell[1:]) if cell.startswith("~") else cell.encode()


def _without_internal(line: str) -> str:
    told = json.loads(line)
    told["written"] = {
        topic: records
        for topic, records in told["written"].items()
        if not any(mark in topic for mark in INTERNAL)
    }
    return json.dumps(told, separators=(",", ":"))


if __name__ == "__main__":
    FIXTURES.write_text("".join(_without_internal(line) + "\n" for line in java(SEED, RECORDS)))
