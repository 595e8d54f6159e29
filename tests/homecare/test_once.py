"""One transaction for each micro-batch, on Ottla and on Apache Kafka: what a driver leaves behind when it dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.errors import OttlaError
from ottla.homecare import table, topics
from ottla.homecare.billing import records
from ottla.homecare.once import Once
from ottla.homecare.reading import latest, read
from ottla.homecare.simulator import simulate
from ottla.homecare.world import Plan
from tests.conftest import Target


@pytest.fixture
def bootstrap(target: Target) -> str:
    topics.create(target.bootstrap, 2)
    return target.bootstrap


def _rows(*values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values), pa.array(values)], names=["key", "value"])


def _seen(bootstrap: str, topic: str) -> list[str]:
    return sorted(v.decode() for rows in read(bootstrap, topic) for v in rows.column("value").to_pylist())


def test_what_was_committed_is_there_with_its_state_position_and_number(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    name = unique("job")
    once = Once(bootstrap, name, topics.TECHNICIAN_STATE)
    once.open()
    once.commit("query", 4, [(topics.EVENT, _rows(name))], [(name, b"state")], {(topics.HEARTBEAT, 1): 7})
    once.close()
    again = Once(bootstrap, name, topics.TECHNICIAN_STATE)
    assert again.open()[name] == b"state"
    assert again.positions([(topics.HEARTBEAT, 0), (topics.HEARTBEAT, 1)]) == {(topics.HEARTBEAT, 1): 7}
    assert [again.is_done("query", batch) for batch in (3, 4, 5)] == [True, True, False]
    assert not again.is_done("another checkpoint", 4)
    assert name in _seen(bootstrap, topics.EVENT)
    again.close()


def test_a_state_larger_than_a_record_may_be(bootstrap: str, unique: Callable[[str], str]) -> None:
    """The open windows of a million patients, say."""
    name = unique("job")
    once = Once(bootstrap, name, topics.NURSE_STATE)
    once.open()
    once.commit("query", 0, [], [(name, b"long" * 1_000_000), (f"{name}-2", b"")], {})
    once.commit("query", 1, [], [(f"{name}-2", b"short")], {})
    once.close()
    again = Once(bootstrap, name, topics.NURSE_STATE)
    saved = again.open()
    again.close()
    assert saved[name] == b"long" * 1_000_000
    assert saved[f"{name}-2"] == b"short"


def test_a_driver_that_was_thought_dead_can_write_no_more(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    name = unique("job")
    old, new = (Once(bootstrap, name, topics.TECHNICIAN_STATE) for _ in range(2))
    old.open()
    old.commit("query", 0, [(topics.EVENT, _rows(f"{name}-old"))], [], {})
    new.open()
    with pytest.raises(OttlaError):
        old.commit("query", 1, [(topics.EVENT, _rows(f"{name}-zombie"))], [(name, b"zombie")], {})
    new.commit("query", 1, [(topics.EVENT, _rows(f"{name}-new"))], [], {})
    seen = _seen(bootstrap, topics.EVENT)
    assert f"{name}-old" in seen and f"{name}-new" in seen and f"{name}-zombie" not in seen
    assert name not in latest(bootstrap, topics.TECHNICIAN_STATE)
    for each in (old, new):
        each.close()


def test_the_table_reads_on_from_its_own_offsets_and_a_rebuilt_one_is_equal(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique("job")
    once = Once(bootstrap, name, topics.BILLING_STATE)
    once.open()
    key = f"{name}/2026-11"
    for batch in range(3):
        total = pa.table({"key": [key], "services": [batch + 1], "cents": [100 * batch]})
        once.commit("query", batch, [records(total)], [], {})
        assert table.as_totals(table.update(bootstrap, tmp_path))[key] == (batch + 1, 100 * batch)
    once.close()
    rebuilt = table.update(bootstrap, tmp_path / "new")
    assert table.as_totals(rebuilt) == table.as_totals(table.load(tmp_path)[0])


def test_the_simulator_sends_what_its_world_says(bootstrap: str) -> None:
    def count() -> int:
        return sum(
            rows.num_rows for topic in (topics.VITALS, topics.BILLING) for rows in read(bootstrap, topic)
        )

    before = count()
    world = simulate(bootstrap, Plan(devices=200, seconds=20), lambda _: None, flat_out=True)
    assert count() - before == world.sent[topics.VITALS] + world.sent[topics.BILLING]
