"""The derived table: last total wins, offsets are in the same file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ottla.client.values import TopicPartition
from ottla.homecare import table


def changes(*totals: tuple[str, int, int]) -> pa.Table:
    keys, services, cents = zip(*totals, strict=True)
    return pa.table({"key": keys, "services": services, "cents": cents})


def test_the_last_total_of_a_key_wins() -> None:
    one = table.merge(
        table._SCHEMA.empty_table(), changes(("p/2026-11", 1, 5), ("q/2026-11", 1, 7), ("p/2026-11", 2, 9))
    )
    two = table.merge(one, changes(("q/2026-11", 3, 30)))
    assert table.as_totals(two) == {"p/2026-11": (2, 9), "q/2026-11": (3, 30)}


def test_the_table_and_how_far_it_was_read_are_one_file(tmp_path: Path) -> None:
    rows = table.merge(table._SCHEMA.empty_table(), changes(("p/2026-11", 1, 5)))
    offsets = {TopicPartition("billing-total", 0): 17, TopicPartition("billing-total", 1): 4}
    table.save(tmp_path, rows, offsets)
    assert [each.name for each in tmp_path.iterdir()] == [table.FILE]
    again, read = table.load(tmp_path)
    assert (table.as_totals(again), read) == ({"p/2026-11": (1, 5)}, offsets)


def test_without_a_file_there_is_an_empty_table(tmp_path: Path) -> None:
    rows, read = table.load(tmp_path)
    assert (rows.num_rows, read) == (0, {})
