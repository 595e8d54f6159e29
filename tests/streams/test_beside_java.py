"""Beside real Kafka Streams on several partitions: the same final tables, and it goes on with our state."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from ottla.streams import App, int64, string
from ottla.testing import Broker
from tests.oracle import programs
from tests.pipelines.local import query

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(programs.why_not_java() is not None, reason=str(programs.why_not_java())),
]
STORE = "KSTREAM-AGGREGATE-STATE-STORE-0000000003"  # as Java's topology calls it


def word_count(broker: Broker, name: str, output: str) -> App:
    app = App(name, broker.bootstrap)
    words = app.stream("lines", value=string).flat_map_values(lambda line: line.split(" "), value=string)
    words.group_by(lambda key, word: word).count(name=STORE).to_stream().to(output, value=int64)
    return app


def send(broker: Broker, chance: random.Random, count: int) -> Counter[str]:
    words: Counter[str] = Counter()
    for number in range(count):
        line = chance.choices([f"w{n}" for n in range(20)], k=chance.randint(1, 6))
        words.update(line)
        broker.send("lines", " ".join(line), key=f"k{number}")
    return words


def table(broker: Broker, topic: str) -> dict[str, int]:
    return {record.key.decode(): int.from_bytes(record.value) for record in broker.records(topic)}


def run_java(broker: Broker, name: str, output: str, folder: Path, expected: Counter[str]) -> None:
    """Until its table is as expected."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = programs.start("WordCount", broker.bootstrap, name, "lines", output, str(folder), **quiet)
    try:
        deadline = time.monotonic() + 240
        while table(broker, output) != expected:
            assert running.poll() is None and time.monotonic() < deadline, table(broker, output)
            time.sleep(0.2)
    finally:
        running.kill()
        running.wait()


def test_final_tables_are_those_of_kafka_streams_and_it_goes_on_with_our_state(tmp_path: Path) -> None:
    chance = random.Random(5)
    with Broker() as broker:
        broker.create_topic("lines", partitions=3)
        for topic in ("ours", "javas"):
            broker.create_topic(topic, partitions=3)
        sent = send(broker, chance, 60)
        with query(word_count(broker, "ours", "ours").pipeline(), workers=2) as running:
            running.drain()
        run_java(broker, "javas", "javas", tmp_path / "javas", sent)
        assert table(broker, "ours") == table(broker, "javas") == sent
        # The same application, in Java: it restores our changelog and reads on from our positions.
        broker.advance(minutes=2)  # our driver's session ends
        sent += send(broker, chance, 20)
        run_java(broker, "ours", "ours", tmp_path / "ours", sent)
        assert table(broker, "ours") == sent
