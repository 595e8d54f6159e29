"""Our events beside Debezium's, field by field, with schemas and headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.connect.postgres.source import PostgresSource
from ottla.connect.spi import Config, Limit, SourceRecord
from tests.connect import debezium
from tests.connect.databases import Postgres


class Capturing:
    """A source as the framework drives it, with the offset through JSON."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.source = PostgresSource(Config(settings, PostgresSource.settings))
        self.offset: Any = None
        self.records: list[SourceRecord] = []

    def until_quiet(self, limit: Limit | None = None) -> None:
        """Chunks and log take turns: two empty reads in a row are the end."""
        empty = 0
        while empty < 2:
            batch = self.source.read({}, self.offset, limit or Limit())
            empty = empty + 1 if batch is None else 0
            if batch is not None:
                self.records += batch.records
                self.offset = json.loads(json.dumps(batch.offset))
                self.source.committed([({}, self.offset)])


@pytest.fixture(scope="module")
def captured(postgres: Postgres) -> Iterator[dict[str, list[dict[str, Any]]]]:
    debezium.prepare(postgres, "clinic")
    captures = {name: Capturing(debezium.settings(name, postgres, "clinic")) for name in debezium.CONNECTORS}
    for capture in captures.values():
        capture.until_quiet()
    debezium.change(postgres, "clinic")
    for capture in captures.values():
        capture.until_quiet()
        capture.source.close()
    yield {name: debezium.ours(capture.records) for name, capture in captures.items()}


@pytest.mark.parametrize("name", debezium.CONNECTORS)
def test_events_are_debeziums(captured, name):
    theirs = [debezium.comparable(event) for event in debezium.fixture(name)]
    ours = [debezium.comparable(event) for event in captured[name]]
    assert [(event["topic"], event["offset"]) for event in ours] == [
        (event["topic"], event["offset"]) for event in theirs
    ]
    for our, their in zip(ours, theirs, strict=True):
        assert our == their, f"{our['topic']}@{our['offset']}"


@pytest.mark.oracle
def test_events_are_debeziums_live():
    """Debezium itself, now, on Java's Connect against Ottla: the fixture is what it writes."""
    reason = debezium.why_not()
    if reason:
        pytest.skip(reason)
    live = debezium.record()
    for name in debezium.CONNECTORS:
        recorded = [debezium.comparable(event) for event in debezium.fixture(name)]
        assert [debezium.comparable(event) for event in live[name]] == recorded
