"""State in columns: grows, saves what changed, loads the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.homecare import store
from ottla.homecare.store import Store

GROUPS = {"a": {"x": np.int64, "flag": np.bool_}, "b": {"slots": (np.int32, 3)}}


def _loaded(saved: dict[str, bytes]) -> Store:
    again = Store(GROUPS)
    for key in Store.order(list(saved)):
        again.load(key, saved[key])
    return again


def test_an_id_keeps_its_row() -> None:
    table = Store(GROUPS)
    first = table.rows(pa.array(["p", "q", "p"]))
    assert first.tolist() == [0, 1, 0]
    assert table.rows(pa.array(["r", "q"])).tolist() == [2, 1]
    assert table.find(pa.array(["r", "?"])).tolist() == [2, -1]


def test_what_was_saved_loads_the_same(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(store, "CHUNK", 4)
    table, saved = Store(GROUPS), {}
    for turn in range(6):
        rows = table.rows(pa.array([f"id{i}" for i in range(turn * 3, turn * 3 + 5)]))
        table["x"][rows] = turn
        table["flag"][rows[:2]] = True
        table["slots"][rows, 1] = turn * 10
        table.touch("a", rows)
        table.touch("b", rows)
        saved.update(table.changes())
        again = _loaded(saved)
        for name in ("x", "flag", "slots"):
            assert (again[name] == table[name]).all()
        assert again.ids(range(len(again))).equals(table.ids(range(len(table))))


def test_only_changed_chunks_of_changed_groups_are_saved(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(store, "CHUNK", 4)
    table = Store(GROUPS)
    table.rows(pa.array([str(i) for i in range(12)]))
    assert len(list(table.changes())) == 9
    table.touch("a", np.array([5, 6]))
    assert [key for key, _ in table.changes()] == ["a/1"]
    assert list(table.changes()) == []
