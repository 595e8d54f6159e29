"""How far a capture has come: the place in the binary log, and how much of the tables the snapshot has read.

A snapshot is read in chunks of the key's order, while changes go on. The server says for each chunk at which place of
the log it was taken: the chunk holds all changes before that place and none behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ottla.connect import snapshots
from ottla.connect.errors import ConfigError
from ottla.connect.snapshots import KeyTexts, SnapshotProgress, key_texts, snapshot_fields
from ottla.connect.spi import Json


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
class Chunk(snapshots.Chunk):
    """Rows as they were at `place`."""

    place: Place

    def to_json(self) -> Json:
        return {**self.keys_json(), "file": self.place.file, "pos": self.place.pos}


@dataclass(frozen=True, slots=True)
class Progress(SnapshotProgress[Chunk]):
    """The source offset. Transactions before `place` are done, and `events` events of rows of the next one."""

    place: Place
    server_id: int
    events: int = 0

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

    def to_json(self) -> Json:
        offset: Json = {"file": self.place.file, "pos": self.place.pos, "server_id": self.server_id}
        if self.events:
            offset["events"] = self.events
        return {**offset, **self.snapshot_json(self.chunk.to_json() if self.chunk else None)}

    @classmethod
    def from_json(cls, offset: Json) -> Progress:
        if "server_id" not in offset or "ts_sec" in offset:
            raise ConfigError(
                "the offset was not written by this connector (Debezium counts events in another way); remove the"
                " connector's offsets to take a new snapshot"
            )
        document: dict[str, Any] = offset.get("snapshot") or {}
        chunk = document.get("chunk")
        return cls(
            Place.at(offset["file"], offset["pos"]),
            offset["server_id"],
            offset.get("events", 0),
            chunk=chunk and _chunk(chunk),
            **snapshot_fields(document),
        )


def _chunk(document: Json) -> Chunk:
    keys = key_texts(document["after"]), key_texts(document["upto"])
    return Chunk(document["table"], *keys, Place.at(document["file"], document["pos"]))
