"""The program in docs/pipelines.md does what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ottla import pipelines
from ottla.testing import Broker
from tests.pipelines.local import query

PAGE = Path(__file__).parents[2] / "docs" / "pipelines.md"


def test_the_first_program_counts_words(monkeypatch: Any) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    started: list[pipelines.Pipeline] = []
    monkeypatch.setattr("ottla.pipelines.running.run", started.append)
    with Broker() as broker:
        broker.create_topic("words", partitions=2)
        broker.create_topic("word-counts", partitions=2)
        program = program.replace("localhost:9092", broker.bootstrap).replace('"/var/lib/word-count"', "None")
        exec(program, {})
        for word in ("hello", "world", "hello"):
            broker.send("words", "", key=word)
        with query(started[0]) as running:
            running.drain()
        counts = {record.key: record.value for record in broker.records("word-counts")}
        assert counts == {b"hello": b"2", b"world": b"1"}
