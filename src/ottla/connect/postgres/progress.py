"""How far a capture has come: the position in the log, and how much of the tables the snapshot has read.

A snapshot is read in chunks of the key's order, each under its own snapshot of PostgreSQL, while changes go on. Which
changes a chunk already holds is decided by transaction ids: a chunk holds the transactions that its snapshot sees.
Positions in the log would not do: a commit can be decoded before it is visible to readers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.connect import snapshots
from ottla.connect.snapshots import KeyTexts, SnapshotProgress, key_texts, snapshot_fields
from ottla.connect.spi import Json


class Visible(NamedTuple):
    """`pg_current_snapshot()`: transactions that it sees."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Visible:
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(part) for part in running.split(",") if part))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def sees(self, xid: int) -> bool:
        """`xid` has 32 bits, as in the log; the snapshot's have 64: the nearest one is meant."""
        whole = self.xmax + (xid - self.xmax + 2**31) % 2**32 - 2**31
        return whole < self.xmin or (whole < self.xmax and whole not in self.running)


@dataclass(frozen=True, slots=True)
class Chunk(snapshots.Chunk):
    """Rows as `visible` sees them. Once the log is read up to `until_lsn`, every transaction that the chunk holds has
    passed."""

    visible: Visible
    until_lsn: int

    def to_json(self) -> Json:
        return {**self.keys_json(), "visible": str(self.visible), "until_lsn": self.until_lsn}


@dataclass(frozen=True, slots=True)
class Progress(SnapshotProgress[Chunk]):
    """The source offset. Transactions that commit before `lsn` are done, and `index` changes of the next one."""

    lsn: int
    index: int = 0
    last_commit_lsn: int | None = None
    unseen: tuple[int, ...] = ()  # transactions with changes left to the snapshot, which it may not see yet

    def passed(self, lsn: int) -> Progress:
        """The log has been read up to here: a chunk that it has overtaken needs no more care."""
        if self.chunk is not None and lsn >= self.chunk.until_lsn:
            return replace(self, chunk=None)
        return self

    def can_read(self, visible: Visible) -> bool:
        """Whether a chunk under this snapshot of PostgreSQL holds every change that was left to it."""
        return all(visible.sees(xid) for xid in self.unseen)

    def with_chunk(self, upto: KeyTexts | None, visible: Visible, until_lsn: int) -> Progress:
        """The rows behind the last chunk are read up to key `upto` (None: to the table's end)."""
        name = self.remaining[0]
        chunk = Chunk(name, self.upto, upto, visible, until_lsn)
        after = self.without(name) if upto is None else replace(self, upto=upto)
        return replace(after, chunk=chunk, unseen=())

    def to_json(self) -> Json:
        offset: Json = {"lsn": self.lsn}
        if self.index:
            offset["index"] = self.index
        if self.last_commit_lsn is not None:
            offset["lsn_commit"] = self.last_commit_lsn
        chunk = self.chunk.to_json() if self.chunk else None
        return {**offset, **self.snapshot_json(chunk, unseen=list(self.unseen))}

    @classmethod
    def from_json(cls, offset: Json) -> Progress:
        document: dict[str, Any] = offset.get("snapshot") or {}
        chunk = document.get("chunk")
        return cls(
            offset["lsn"],
            offset.get("index", 0),
            offset.get("lsn_commit"),
            tuple(document.get("unseen", ())),
            chunk=chunk and _chunk(chunk),
            **snapshot_fields(document),
        )


def _chunk(document: Json) -> Chunk:
    keys = key_texts(document["after"]), key_texts(document["upto"])
    return Chunk(document["table"], *keys, Visible.parse(document["visible"]), document["until_lsn"])
