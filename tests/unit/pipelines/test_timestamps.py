"""Rows with a time of their own: it is their changelog records' timestamp, and comes back from there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import BadChange, KeyedStore

SPEC = StoreSpec("counts", (("n", "int64"),), timestamped=True)


def times_of(changes: pa.RecordBatch) -> np.ndarray:
    return changes.column("timestamp").cast(pa.int64()).to_numpy() // 1000


def test_times_go_through_the_changelog_and_are_gone_with_their_rows() -> None:
    store = KeyedStore(SPEC)
    rows = store.rows([b"a", b"b"])
    store["n"][rows], store.times[rows] = [1, 2], [70, 80]
    changes = store.changes(5)
    assert times_of(changes).tolist() == [70, 80]
    again = KeyedStore(SPEC)
    again.apply(changes.column("key"), changes.column("value"), times_of(changes))
    assert again.times[again.find([b"a", b"b"])].tolist() == [70, 80]
    again.delete(again.find([b"a"]))
    assert times_of(again.changes(5)).tolist() == [5]
    assert again.times[again.rows([b"a"])].tolist() == [0]


def test_many_rows_keep_their_times() -> None:
    store = KeyedStore(SPEC)
    rows = store.rows([b"%d" % number for number in range(5_000)])
    store.times[rows] = np.arange(5_000)
    assert store.times[store.find([b"4999"])].tolist() == [4_999]


def test_the_last_of_several_records_of_a_key_has_its_time() -> None:
    store = KeyedStore(SPEC)
    value = (1).to_bytes(8)
    store.apply([b"a", b"a"], [value, value], np.array([9, 3]))
    assert store.times[store.find([b"a"])].tolist() == [3]


def test_records_without_timestamps_are_refused() -> None:
    with pytest.raises(BadChange, match="timestamps are missing"):
        KeyedStore(SPEC).apply([b"a"], [(1).to_bytes(8)])
