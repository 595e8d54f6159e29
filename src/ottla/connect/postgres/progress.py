"""How far a capture has come: the position in the log, and how much of the tables the snapshot has read.

A snapshot is read in chunks of the key's order, each under its own snapshot of PostgreSQL, while changes go on. Which
changes a chunk already holds is decided by transaction ids: a chunk holds the transactions that its snapshot sees.
Positions in the log would not do: a commit can be decoded before it is visible to readers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.connect.spi import Json

KeyTexts = tuple[str, ...]


class Visible(NamedTuple):
    """`pg_current_snapshot()`: transactions that it sees."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Visible:
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(each) for each in running.split(",") if each))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def sees(self, xid: int) -> bool:
        """`xid` has 32 bits, as in the log; the snapshot's have 64: the nearest one is meant."""
        whole = self.xmax + (xid - self.xmax + 2**31) % 2**32 - 2**31
        return whole < self.xmin or (whole < self.xmax and whole not in self.running)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows behind key `after` up to key `upto` (None: from the first, to the last), as `visible` sees them.

    Once the log is read up to `until_lsn`, every transaction that the chunk holds has passed.
    """

    table: str
    after: KeyTexts | None
    upto: KeyTexts | None
    visible: Visible
    until_lsn: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The source offset. Transactions that commit before `lsn` are done, and `index` changes of the next one."""

    lsn: int
    index: int = 0
    last_commit_lsn: int | None = None
    remaining: tuple[str, ...] = ()  # tables whose snapshot is not complete, the current one first
    upto: KeyTexts | None = None  # of the current table's keys, these are read
    chunk: Chunk | None = None  # the last one, while the log has not passed it
    unseen: tuple[
        int, ...
    ] = ()  # transactions whose changes were left to the snapshot, and which it may not see yet
    begun: bool = False  # the snapshot's first row is written

    @property
    def is_snapshot_complete(self) -> bool:
        return not self.remaining

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

    def without(self, table: str) -> Progress:
        """The table is complete, or gone."""
        if self.remaining and self.remaining[0] == table:
            return replace(self, remaining=self.remaining[1:], upto=None)
        return replace(self, remaining=tuple(each for each in self.remaining if each != table))

    def restarted(self, table: str) -> Progress:
        """The table was emptied: its rows are read from the beginning."""
        others = tuple(each for each in self.remaining if each != table)
        return replace(self, remaining=(table, *others), upto=None, chunk=None)

    def to_json(self) -> Json:
        offset: Json = {"lsn": self.lsn}
        if self.index:
            offset["index"] = self.index
        if self.last_commit_lsn is not None:
            offset["lsn_commit"] = self.last_commit_lsn
        if self.remaining or self.chunk:
            offset["snapshot"] = {
                "remaining": list(self.remaining),
                "upto": _listed(self.upto),
                "begun": self.begun,
                "unseen": list(self.unseen),
                "chunk": self.chunk and _chunk_json(self.chunk),
            }
        return offset

    @classmethod
    def from_json(cls, offset: Json) -> Progress:
        snapshot: dict[str, Any] = offset.get("snapshot") or {}
        chunk = snapshot.get("chunk")
        return cls(
            offset["lsn"],
            offset.get("index", 0),
            offset.get("lsn_commit"),
            tuple(snapshot.get("remaining", ())),
            _texts(snapshot.get("upto")),
            chunk and _chunk(chunk),
            tuple(snapshot.get("unseen", ())),
            snapshot.get("begun", False),
        )


def _chunk_json(chunk: Chunk) -> Json:
    return {
        "table": chunk.table,
        "after": _listed(chunk.after),
        "upto": _listed(chunk.upto),
        "visible": str(chunk.visible),
        "until_lsn": chunk.until_lsn,
    }


def _chunk(json: Json) -> Chunk:
    visible = Visible.parse(json["visible"])
    return Chunk(json["table"], _texts(json["after"]), _texts(json["upto"]), visible, json["until_lsn"])


def _listed(key: KeyTexts | None) -> list[str] | None:
    return None if key is None else list(key)


def _texts(key: list[str] | None) -> KeyTexts | None:
    return None if key is None else tuple(key)
