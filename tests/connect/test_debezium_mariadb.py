"""Our events of MariaDB beside Debezium's, field by field, with schemas and headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.connect.mysql.source import MySqlSource
from tests.connect import debezium_mariadb as debezium
from tests.connect.databases import MariaDb
from tests.connect.debezium import fixture, ours
from tests.connect.test_mariadb import Capturing


@pytest.fixture(scope="module")
def captured(mariadb: MariaDb) -> Iterator[dict[str, list[dict[str, Any]]]]:
    debezium.prepare(mariadb, "clinic")
    captures = {
        name: Capturing(debezium.settings(name, mariadb, "clinic"), MySqlSource)
        for name in debezium.CONNECTORS
    }
    for capture in captures.values():
        capture.until_quiet()
    debezium.change(mariadb, "clinic")
    for capture in captures.values():
        capture.until_quiet()
        capture.source.close()
    yield {name: ours(capture.records) for name, capture in captures.items()}


@pytest.mark.parametrize("name", debezium.CONNECTORS)
def test_events_are_debeziums(captured, name):
    theirs = [debezium.comparable(event) for event in debezium.without_open(fixture(name, debezium.FIXTURE))]
    events_of_ours = [debezium.comparable(event) for event in captured[name]]
    places = [[(event["topic"], event["offset"]) for event in each] for each in (events_of_ours, theirs)]
    assert places[0] == places[1]
    for our, their in zip(events_of_ours, theirs, strict=True):
        assert our == their, f"{our['topic']}@{our['offset']}"


@pytest.mark.oracle
def test_events_are_debeziums_live():
    """Debezium itself, now, on Java's Connect against Ottla: the fixture is what it writes."""
    reason = debezium.why_not()
    if reason:
        pytest.skip(reason)
    live = debezium.record()
    for name in debezium.CONNECTORS:
        recorded = [debezium.comparable(event) for event in fixture(name, debezium.FIXTURE)]
        assert [debezium.comparable(event) for event in live[name]] == recorded
