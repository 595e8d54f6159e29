"""State of many things in columns: one row for each id, kept in numpy, saved in chunks of which few change.

A million devices are a million rows of a few numbers: tens of megabytes. What is saved is Arrow, compressed, and
small enough for one record of a topic.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

CHUNK = 16_384
IDS = "ids"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
Groups = Mapping[
    str, Mapping[str, Any]
]  # group -> column -> numpy dtype; a tuple (dtype, n) is n numbers a row


class Store:
    """Columns that change together form a group: only changed groups of changed chunks are saved."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._ids = pa.array([], pa.string())
        self._room = 0
        self._columns: dict[str, Any] = {
            name: _empty(0, kind) for columns in groups.values() for name, kind in columns.items()
        }
        self._changed: dict[str, set[int]] = {group: set() for group in (IDS, *groups)}

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, column: str) -> Any:
        """The column of all rows; writing into it is what changes the state (then tell `touch`)."""
        return self._columns[column][: len(self)]

    def id_of(self, row: int) -> str:
        return str(self._ids[row].as_py())

    def ids(self, rows: Any) -> pa.Array:
        return self._ids.take(pa.array(rows, pa.int64()))

    def rows(self, ids: pa.Array) -> Any:
        """The row of each id; ids not seen before get new rows."""
        found = pc.index_in(ids, self._ids)
        if found.null_count:
            unknown = pc.unique(ids.filter(found.is_null()))
            self._grow(unknown)
            found = pc.index_in(ids, self._ids)
        return found.to_numpy().astype(np.int64)

    def find(self, ids: pa.Array) -> Any:
        """The row of each id, -1 for those not known."""
        return pc.fill_null(pc.index_in(ids, self._ids), -1).to_numpy().astype(np.int64)

    def touch(self, group: str, rows: Any | None = None) -> None:
        """These rows (or all) of the group have changed."""
        chunks = (
            range(-(-len(self) // CHUNK)) if rows is None else np.unique(np.asarray(rows) // CHUNK).tolist()
        )
        self._changed[group].update(chunks)

    # -- saving and loading ------------------------------------------------------------------------

    def changes(self) -> Iterator[tuple[str, bytes]]:
        """Key and content of every chunk that changed since the last call."""
        for group, chunks in self._changed.items():
            for chunk in sorted(chunks):
                yield f"{group}/{chunk}", self._packed(group, chunk)
            chunks.clear()

    def load(self, key: str, content: bytes) -> None:
        """What `changes` gave: later versions replace earlier ones. Ids before what belongs to them: see `order`."""
        group, chunk = key.split("/")
        first = int(chunk) * CHUNK
        rows = pa.ipc.open_stream(pa.py_buffer(content)).read_next_batch()
        if group == IDS:
            known = self._ids.slice(0, first), rows.column(0), self._ids.slice(first + rows.num_rows)
            self._ids = pa.concat_arrays([part for part in known if len(part)])
            self._make_room()
            return
        for name, kind in self._groups[group].items():
            values = rows.column(name)
            if isinstance(kind, tuple):
                values = values.flatten()
            array = values.to_numpy(zero_copy_only=False)
            # Rows without an id came in a chunk that was saved later than their ids: cannot be.
            self._columns[name][first : first + rows.num_rows] = array.reshape(
                (rows.num_rows, -1) if isinstance(kind, tuple) else rows.num_rows
            )

    @staticmethod
    def order(keys: list[str]) -> list[str]:
        """In which order chunks are to be loaded."""
        return sorted(keys, key=lambda key: (not key.startswith(IDS), int(key.split("/")[1]), key))

    def _packed(self, group: str, chunk: int) -> bytes:
        first, end = chunk * CHUNK, min(len(self), (chunk + 1) * CHUNK)
        if group == IDS:
            rows = pa.RecordBatch.from_arrays([self._ids.slice(first, end - first)], names=[IDS])
        else:
            columns = self._groups[group]
            arrays = [_arrow(self._columns[name][first:end], kind) for name, kind in columns.items()]
            rows = pa.RecordBatch.from_arrays(arrays, names=list(columns))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
            writer.write_batch(rows)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _grow(self, ids: pa.Array) -> None:
        first = len(self)
        self._ids = pa.concat_arrays([self._ids, ids.cast(pa.string())])
        self._make_room()
        for group in self._changed:
            self.touch(group, np.array([first, len(self) - 1]))
            self._changed[group].update(range(first // CHUNK, -(-len(self) // CHUNK)))

    def _make_room(self) -> None:
        if len(self) <= self._room:
            return
        self._room = max(1024, len(self), self._room * 2)
        for columns in self._groups.values():
            for name, kind in columns.items():
                wider = _empty(self._room, kind)
                wider[: len(self._columns[name])] = self._columns[name]
                self._columns[name] = wider


def _empty(rows: int, kind: Any) -> Any:
    return np.zeros((rows, kind[1]), kind[0]) if isinstance(kind, tuple) else np.zeros(rows, kind)


def _arrow(values: Any, kind: Any) -> pa.Array:
    if isinstance(kind, tuple):
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), kind[1])
    return pa.array(values)


def packed_json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
