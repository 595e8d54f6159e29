"""Stores to be read: in the values of the app's serdes, by key, and those of windows and sessions also by time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.windows import split_session_keys, split_stored_window_keys
from ottla.streams.errors import BadTopology
from ottla.streams.graph import Graph
from ottla.streams.serdes import Serde, bytes_, int64, milliseconds, objects

KEYED, WINDOW, SESSION = "keyed", "window", "session"


class Stored(NamedTuple):
    """How the bytes of a store are to be read."""

    name: str
    kind: str
    key: Serde
    value: Serde


class Row(NamedTuple):
    """Of a window or session store; `end_ms` is that of a session, and None for a window."""

    key: Any
    start_ms: int
    end_ms: int | None
    value: Any


def stored(graph: Graph, name: str) -> Stored:
    for placed in graph.nodes:
        for spec in placed.stores:
            if spec.name == name:
                for definition in getattr(placed.node, "definitions", ()):
                    if definition.name == name:
                        return Stored(name, definition.kind, definition.key, definition.value)
                node = getattr(placed.node, "aggregate", placed.node)  # that of a cogroup has its store
                kind = getattr(node, "stored_as", None) or (WINDOW if spec.windowed else KEYED)
                serde = getattr(node, "value", None)
                if serde is None:
                    serde = int64 if spec.columns == (("n", "int64"),) else bytes_
                return Stored(name, kind, getattr(node, "key", bytes_), serde)
    names = [spec.name for placed in graph.nodes for spec in placed.stores]
    raise BadTopology(f"the app has no store {name}; it has {', '.join(names) or 'none'}")


def view(graph: Graph, name: str, source: Callable[[], KeyedStore], lock: Any = None) -> "Store":
    """`source` gives the store as it is now; while it is read, `lock` is held."""
    definition = stored(graph, name)
    return (Store if definition.kind == KEYED else WindowStore)(definition, source, lock or nullcontext())


class Store(Mapping[Any, Any]):
    """The rows of a store by key. Every question is answered with the rows of that moment."""

    def __init__(self, stored: Stored, source: Callable[[], KeyedStore], lock: Any) -> None:
        self.stored, self._source, self._lock = stored, source, lock

    def __getitem__(self, key: Any) -> Any:
        with self._lock:
            store = self._source()
            row = int(store.find(self.stored.key.encode([key]))[0])
            if row < 0:
                raise KeyError(key)
            return self._values(store, np.array([row]))[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self.range()])

    def __len__(self) -> int:
        with self._lock:
            return len(self._source())

    def items(self) -> Any:
        return dict(self.range()).items()

    def range(self, first: Any = None, last: Any = None) -> list[tuple[Any, Any]]:
        """Keys from `first` to `last`, both included, in the order of their bytes, with their values."""
        low, high = (
            None if bound is None else self.stored.key.encode([bound])[0].as_py() for bound in (first, last)
        )
        with self._lock:
            store = self._source()
            rows = store.alive().nonzero()[0]
            wanted = sorted(
                (cell, at)
                for at, cell in enumerate(store.keys(rows).to_pylist())
                if (low is None or cell >= low) and (high is None or cell <= high)
            )
            chosen = rows[np.array([at for _, at in wanted], np.int64)]
            keys = objects(self.stored.key.decode(store.keys(chosen)))
            return list(zip(keys, self._values(store, chosen), strict=True))

    def _values(self, store: KeyedStore, rows: Any) -> list[Any]:
        return objects(self.stored.value.decode(store.encoded(rows)))


class WindowStore(Store):
    """Keys are pairs of a key and a window's start; of sessions key, start and end."""

    def __getitem__(self, key: Any) -> Any:
        for row in self.rows(key[0]):
            if _place(row) == tuple(key):
                return row.value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return iter([_place(row) for row in self.rows()])

    def items(self) -> Any:
        return {_place(row): row.value for row in self.rows()}.items()

    def range(self, first: Any = None, last: Any = None) -> list[tuple[Any, Any]]:
        raise BadTopology(f"store {self.stored.name} has windows: ask it for rows(key, from_ms, to_ms)")

    def rows(self, key: Any = None, from_ms: int | None = None, to_ms: int | None = None) -> list[Row]:
        """By key and start: of one key or of all, those that begin from `from_ms` to `to_ms`, both included; sessions
        that overlap that time."""
        with self._lock:
            cells = self._cells(self._source())
        matches = [
            Row(*cell)
            for cell in cells
            if (key is None or cell[0] == key)
            and (to_ms is None or cell[1] <= to_ms)
            and (from_ms is None or (cell[1] if cell[2] is None else cell[2]) >= from_ms)
        ]
        return sorted(matches, key=lambda row: (repr(row.key), row.start_ms, row.end_ms or 0))

    def _cells(self, store: KeyedStore) -> list[tuple[Any, int, int | None, Any]]:
        rows = store.alive().nonzero()[0]
        ends: list[int | None] = [None] * len(rows)
        if self.stored.kind == SESSION:
            keys, starts, stops = split_session_keys(store.keys(rows))
            ends = stops.tolist()
        else:
            keys, starts, _ = split_stored_window_keys(store.keys(rows))
        decoded = objects(self.stored.key.decode(keys))
        return list(zip(decoded, starts.tolist(), ends, self._values(store, rows), strict=True))


def _place(row: Row) -> tuple[Any, ...]:
    return (row.key, row.start_ms) if row.end_ms is None else (row.key, row.start_ms, row.end_ms)


def applied(store: KeyedStore, rows: pa.RecordBatch) -> None:
    """Records of a changelog into a store."""
    stamps = milliseconds(rows.column("timestamp"))
    store.apply(rows.column("key"), rows.column("value"), stamps)
