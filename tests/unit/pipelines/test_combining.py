"""Rows of one key in one row: the same result however they are cut."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from ottla.pipelines.combining import combine
from ottla.pipelines.errors import BadTopology


def rows(values: list[tuple[str, int, int]]) -> pa.Table:
    keys, cents, times = zip(*values, strict=True)
    return pa.table(
        {"key": keys, "cents": pa.array(cents, pa.int64()), "timestamp": pa.array(times, pa.int64())}
    )


def test_counts_sums_least_and_greatest_by_key_with_the_latest_time() -> None:
    found = combine(
        rows([("a", 3, 1), ("b", 9, 5), ("a", 4, 9)]),
        ["key"],
        n=("cents", "count"),
        total=("cents", "sum"),
        least=("cents", "min"),
        most=("cents", "max"),
    )
    assert found.sort_by("key").to_pylist() == [
        {"key": "a", "n": 2, "total": 7, "least": 3, "most": 4, "timestamp": 9},
        {"key": "b", "n": 1, "total": 9, "least": 9, "most": 9, "timestamp": 5},
    ]


def test_pieces_that_were_combined_add_up_to_the_whole() -> None:
    chance = random.Random(3)
    values = [(chance.choice("abc"), chance.randint(-50, 50), chance.randint(0, 99)) for _ in range(200)]
    whole = combine(rows(values), ["key"], total=("cents", "sum"))
    pieces = [
        combine(rows(values[at : at + 30]), ["key"], total=("cents", "sum")) for at in range(0, 200, 30)
    ]
    again = combine(pa.concat_tables(pieces), ["key"], total=("total", "sum"))
    assert again.sort_by("key").equals(whole.sort_by("key"))


def test_what_depends_on_the_order_is_refused() -> None:
    floats = pa.table({"key": ["a"], "cents": [0.5], "timestamp": [1]})
    with pytest.raises(BadTopology, match="a sum of double depends on the order"):
        combine(floats, ["key"], total=("cents", "sum"))
    with pytest.raises(BadTopology, match="'mean' cannot be combined"):
        combine(rows([("a", 1, 1)]), ["key"], mean=("cents", "mean"))
