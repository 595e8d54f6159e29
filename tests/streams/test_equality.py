"""Record by record as Kafka Streams: the same topologies, the same records, one record a step.

Deliberate differences, with reasons: docs/streams.md.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from ottla.streams import App
from ottla.streams.views import KEYED, SESSION, WINDOW
from tests.oracle.programs import why_not_java
from tests.streams import topologies
from tests.streams.equality import INTERNAL, Cells, Fixture, by_key, fixtures, java, ours, parse
from tests.streams.topologies import TOPOLOGIES

FIXTURES = {fixture.name: fixture for fixture in fixtures()}
CHANGELOG, GONE = "-changelog", "gone"
# The inputs of a cogroup have times of their own, but their store hides windows by the latest of all: then Kafka
# Streams begins a window again which one of the inputs has left behind; ours goes on with it.
RARELY_DIFFERENT = {"cogroup-tumbling"}


@pytest.mark.parametrize("name", list(TOPOLOGIES))
def test_a_topology_gives_what_kafka_streams_gives(name: str) -> None:
    compare(FIXTURES[name])


@pytest.mark.oracle
@pytest.mark.skipif(why_not_java() is not None, reason=str(why_not_java()))
@pytest.mark.parametrize("seed", [11])
def test_other_records_give_what_kafka_streams_gives(seed: int) -> None:
    names = [name for name in TOPOLOGIES if name not in RARELY_DIFFERENT]
    lines = java(seed, 100, *names)
    assert len(lines) == len(names)
    for line in lines:
        compare(parse(line))


# Ours gives final results without a second store, reads global tables outside the topology, and joins by a foreign
# key with fewer nodes.
DESCRIBED_OTHERWISE = {
    *("final-tumbling", "final-hopping", "final-session"),
    *("stream-global", "stream-global-left", "foreign-key", "foreign-key-left"),
}


@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if name not in DESCRIBED_OTHERWISE])
def test_a_topology_is_described_in_the_text_of_kafka_streams(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topologies, "IS_PLAIN", True)
    app = App("app")
    TOPOLOGIES[name](app)
    assert stores_sorted(app.describe()) == stores_sorted(FIXTURES[name].described)


def stores_sorted(text: str) -> str:
    """Kafka Streams tells the stores of a node in the order of a hash table."""
    return re.sub(r"stores: \[(.*?)\]", lambda found: str(sorted(found[1].split(", "))), text)


def compare(fixture: Fixture) -> None:
    driver = ours(fixture.name, fixture.inputs)
    for topic, expected in fixture.written.items():
        written = by_key(driver.written(topic))
        if any(mark in topic for mark in INTERNAL):
            continue
        if fixture.name.startswith("final-") and topic.endswith(CHANGELOG):
            continue  # a window that is given once leaves the store in the step that closes it
        if topic.endswith(CHANGELOG):
            kind = driver.store(topic.removeprefix("app-").removesuffix(CHANGELOG)).stored.kind
            mine, theirs = table(written, kind), table(expected, kind)
            assert (mine if kind == KEYED else unclosed(mine, theirs)) == theirs, (fixture.name, topic)
        else:
            assert written == expected, (fixture.name, topic)


def table(written: dict[bytes | None, Cells], kind: str) -> dict[bytes | None, list[Any]]:
    """Of a changelog: the rows that each key has had, and where it had none in between.

    The time of a deletion and the deletion of a row that is not there are left out (docs/streams.md), as is that of a
    session which is put again in the same step: ours writes it once.
    """
    found: dict[bytes | None, list[Any]] = {}
    for key, cells in written.items():
        rows: list[Any] = []
        for cell in cells:
            if cell[0] is None:
                rows += [GONE] if rows and rows[-1] is not GONE else []
                continue
            if kind == SESSION and rows and rows[-1] is GONE:
                rows.pop()
            rows += [cell] if not rows or rows[-1] != cell else []
        if rows:
            found[key] = rows
    return found


def unclosed(
    mine: dict[bytes | None, list[Any]], theirs: dict[bytes | None, list[Any]]
) -> dict[bytes | None, list[Any]]:
    """Without the deletions of windows and sessions that have closed: Kafka Streams leaves those to retention."""
    return {
        key: rows[:-1] if rows[-1] is GONE and theirs.get(key, [GONE])[-1] is not GONE else rows
        for key, rows in mine.items()
    }


def test_planted_a_deletion_that_is_not_written_is_seen() -> None:
    """In a table, in windows before their end, in sessions that became part of others."""
    row, other = (b"1", 5), (b"2", 9)
    for kind in (KEYED, WINDOW, SESSION):
        theirs = table({b"k": [row, (None, 7)]}, kind)
        assert unclosed(table({b"k": [row]}, kind), theirs) != theirs
    assert table({b"k": [row, (None, 7), other]}, KEYED) != table({b"k": [row, other]}, KEYED)
