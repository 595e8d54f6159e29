"""Record by record as Kafka Streams: the same topologies, the same records, one record a step.

Deliberate differences, with reasons: docs/streams.md.
"""

from __future__ import annotations

import pytest

from tests.oracle.programs import why_not_java
from tests.streams.equality import Cells, Fixture, by_key, fixtures, java, ours, parse
from tests.streams.topologies import TOPOLOGIES

FIXTURES = {fixture.name: fixture for fixture in fixtures()}
CHANGELOG = "-changelog"


NOT_YET = {
    *("repartition", "table-of-counts", "stream-table-left", "tumbling-count", "tumbling-no-grace"),
    *("tumbling-after-filter", "hopping-count", "final-tumbling", "final-hopping"),
}


def cases() -> list[object]:
    strict = pytest.mark.xfail(strict=True, reason="differs from Kafka Streams")
    return [pytest.param(name, marks=[strict] if name in NOT_YET else []) for name in TOPOLOGIES]


@pytest.mark.parametrize("name", cases())
def test_a_topology_gives_what_kafka_streams_gives(name: str) -> None:
    compare(FIXTURES[name])


@pytest.mark.oracle
@pytest.mark.skipif(why_not_java() is not None, reason=str(why_not_java()))
@pytest.mark.parametrize("seed", [11, 12])
def test_other_records_give_what_kafka_streams_gives(seed: int) -> None:
    names = [name for name in TOPOLOGIES if name not in NOT_YET]
    lines = java(seed, 150, *names)
    assert len(lines) == len(names)
    for line in lines:
        compare(parse(line))


def compare(fixture: Fixture) -> None:
    driver = ours(fixture.name, fixture.inputs)
    for topic, expected in fixture.written.items():
        written = by_key(driver.written(topic))
        if topic.endswith(CHANGELOG):
            assert {key: rows(cells) for key, cells in written.items() if rows(cells)} == {
                key: rows(cells) for key, cells in expected.items() if rows(cells)
            }, (fixture.name, topic)
        elif "-repartition" not in topic:
            assert written == expected, (fixture.name, topic)


def rows(cells: Cells) -> Cells:
    """Of a changelog: a deletion of what is not there says nothing, and the time of a deletion neither."""
    kept: Cells = []
    for value, at in cells:
        if value is not None:
            kept.append((value, at))
        elif kept and kept[-1][0] is not None:
            kept.append((None, 0))
    return kept
