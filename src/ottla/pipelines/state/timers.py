"""Timers that survive kills: a time for each key, kept in a store like everything else."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import Ints
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore

_DUE = "due_ms"


def timer_spec(name: str, max_rows: int | None = None) -> StoreSpec:
    """A store for `Timers`, among the stores of a stage."""
    return StoreSpec(name, ((_DUE, "int64"),), time=_DUE, max_rows=max_rows)


class Timers:
    """One timer for a key; a key that needs several has them under keys of its own, as `windows.window_keys` makes."""

    def __init__(self, store: KeyedStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return len(self._store)

    def set(self, keys: Any, due_ms: Any) -> None:
        """From now on these are due then; of a key that is there twice the last time stays."""
        rows = self._store.rows(keys)
        self._store[_DUE][rows] = due_ms
        self._store.touch(rows)

    def cancel(self, keys: Any) -> None:
        """Keys without a timer do no harm."""
        rows = self._store.find(keys)
        self._store.delete(rows[rows >= 0])

    def take_due(self, now_ms: int) -> tuple[Any, Ints]:
        """The keys whose time has come, and their times, oldest first and by key; their timers are gone."""
        rows = self._store.expired(now_ms + 1)
        keys, due_ms = self._store.keys(rows), self._store[_DUE][rows]
        self._store.delete(rows)
        table = pa.table({"due": due_ms, "key": keys}).sort_by([("due", "ascending"), ("key", "ascending")])
        return table["key"].combine_chunks(), table["due"].to_numpy()

    def next_due_ms(self) -> int | None:
        """When the first timer is due."""
        due_ms = self._store[_DUE][self._store.alive()]
        return int(np.min(due_ms)) if len(due_ms) else None
