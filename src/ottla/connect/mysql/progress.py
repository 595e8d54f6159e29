"""How far a capture has come: the place in the binary log, and how much of the tables the snapshot has read.

A snapshot is read in chunks of the key's order, while changes go on. The server says for each chunk at which place of
the log it was taken: the chunk holds all changes before that place and none behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.connect.errors import ConfigError
from ottla.connect.spi import Json

KeyTexts = tuple[str, ...]


class Place(NamedTuple):
    """In the log: the number of a file, and bytes. Places are in the order of the log."""

    file_number: int
    pos: int
    file: str

    @classmethod
    def at(cls, file: str, pos: int) -> Place:
        return cls(int(file.rpartition(".")[2]), pos, file)

    def is_behind(self, other: Place) -> bool:
        """`self` comes after `other`, or is the same."""
        return self[:2] >= other[:2]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows behind key `after` up to key `upto` (None: from the first, to the last), as they were at `place`."""

    table: str
    after: KeyTexts | None
    upto: KeyTexts | None
    place: Place


@dataclass(frozen=True, slots=True)
class Progress:
    """The source offset. Transactions before `place` are done, and `events` events of rows of the next one."""

    place: Place
    server_id: int
    events: int = 0
    remaining: tuple[str, ...] = ()  # tables whose snapshot is not complete, the current one first
    upto: KeyTexts | None = None  # of the current table's keys, these are read
    chunk: Chunk | None = None  # the last one, while the log has not passed it
    begun: bool = False  # the snapshot's first row is written

    def passed(self, place: Place) -> Progress:
        """The log has been read up to here: a chunk that it has overtaken needs no more care."""
        if self.chunk is not None and place.is_behind(self.chunk.place):
            return replace(self, chunk=None)
        return self

    def can_read(self, place: Place) -> bool:
        """Whether a chunk taken here holds every change that was left to it. Chunks are never taken inside of a
        transaction: behind its beginning is behind its end."""
        return place[:2] > self.place[:2] if self.events else place.is_behind(self.place)

    def with_chunk(self, upto: KeyTexts | None, place: Place) -> Progress:
        """The rows behind the last chunk are read up to key `upto` (None: to the table's end)."""
        name = self.remaining[0]
        after = self.without(name) if upto is None else replace(self, upto=upto)
        chunked = replace(after, chunk=Chunk(name, self.upto, upto, place), begun=True)
        return chunked if self.events else chunked.passed(self.place)

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
        offset: Json = {"file": self.place.file, "pos": self.place.pos, "server_id": self.server_id}
        if self.events:
            offset["events"] = self.events
        if self.remaining or self.chunk:
            offset["snapshot"] = {
                "remaining": list(self.remaining),
                "upto": _listed(self.upto),
                "begun": self.begun,
                "chunk": self.chunk and _chunk_json(self.chunk),
            }
        return offset

    @classmethod
    def from_json(cls, offset: Json) -> Progress:
        if "server_id" not in offset or "ts_sec" in offset:
            raise ConfigError(
                "the offset was not written by this connector (Debezium counts events in another way); remove the"
                " connector's offsets to take a new snapshot"
            )
        snapshot: dict[str, Any] = offset.get("snapshot") or {}
        chunk = snapshot.get("chunk")
        return cls(
            Place.at(offset["file"], offset["pos"]),
            offset["server_id"],
            offset.get("events", 0),
            tuple(snapshot.get("remaining", ())),
            _texts(snapshot.get("upto")),
            chunk and _chunk(chunk),
            snapshot.get("begun", False),
        )


def _chunk_json(chunk: Chunk) -> Json:
    return {
        "table": chunk.table,
        "after": _listed(chunk.after),
        "upto": _listed(chunk.upto),
        "file": chunk.place.file,
        "pos": chunk.place.pos,
    }


def _chunk(json: Json) -> Chunk:
    place = Place.at(json["file"], json["pos"])
    return Chunk(json["table"], _texts(json["after"]), _texts(json["upto"]), place)


def _listed(key: KeyTexts | None) -> list[str] | None:
    return None if key is None else list(key)


def _texts(key: list[str] | None) -> KeyTexts | None:
    return None if key is None else tuple(key)
