"""What change captures have in common: a snapshot that is read while changes go on. Free of I/O.

Tables are read one after the other in chunks of the key's order. A change to a row that the snapshot will read later is
left to it; one that the last chunk already holds is dropped; the rest is for the log to tell. What a chunk holds, each
database says in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar

from ottla.connect.errors import RetriableError
from ottla.connect.spi import Json

KeyTexts = tuple[str, ...]


class NotVisibleYet(RetriableError):
    """A commit is in the log, and readers do not see it yet: soon they will."""


class KeyOrder(Protocol):
    """Compares keys as the database does, with its collations."""

    def is_upto(self, table: str, key: KeyTexts, bound: KeyTexts) -> bool: ...


class ComparedOrder:
    """A KeyOrder whose comparisons were made by the database, many at once; integers are compared here."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, KeyTexts, KeyTexts], bool] = {}
        self._integers: set[str] = set()

    def is_upto(self, table: str, key: KeyTexts, bound: KeyTexts) -> bool:
        if table in self._integers:
            return tuple(map(int, key)) <= tuple(map(int, bound))
        return self._known[table, key, bound]


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows behind key `after` up to key `upto` (None: from the first, to the last)."""

    table: str
    after: KeyTexts | None
    upto: KeyTexts | None

    def covers(self, key: KeyTexts, order: KeyOrder) -> bool:
        is_behind = self.after is None or not order.is_upto(self.table, key, self.after)
        return is_behind and (self.upto is None or order.is_upto(self.table, key, self.upto))

    def keys_json(self) -> Json:
        return {"table": self.table, "after": listed(self.after), "upto": listed(self.upto)}


C = TypeVar("C", bound=Chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotProgress(Generic[C]):
    remaining: tuple[str, ...] = ()  # tables whose snapshot is not complete, the current one first
    upto: KeyTexts | None = None  # of the current table's keys, these are read
    chunk: C | None = None  # the last one, while the log has not passed it
    begun: bool = False  # the snapshot's first row is written

    @property
    def is_over(self) -> bool:
        """Every change is for the log to tell."""
        return not self.remaining and self.chunk is None

    def will_read(self, table: str, key: KeyTexts, order: KeyOrder) -> bool:
        """Whether the snapshot comes to the row later."""
        if table not in self.remaining:
            return False
        is_current = self.remaining[0] == table and self.upto is not None
        return not is_current or not order.is_upto(table, key, self.upto or ())

    def is_untouched(self, table: str) -> bool:
        """The snapshot will read all rows of the table, and has read none."""
        return table in self.remaining and not (self.remaining[0] == table and self.upto is not None)

    def bounds(self) -> dict[str, list[KeyTexts]]:
        """The keys that `will_read` and `Chunk.covers` compare others with, by table."""
        bounds: dict[str, list[KeyTexts]] = {}
        if self.remaining and self.upto is not None:
            bounds.setdefault(self.remaining[0], []).append(self.upto)
        if self.chunk is not None:
            limits = (self.chunk.after, self.chunk.upto)
            bounds.setdefault(self.chunk.table, []).extend(key for key in limits if key is not None)
        return bounds

    def place_of(self, index: int, rows: int, *, is_last_chunk: bool) -> str:
        """What Debezium says of the place of a chunk's row."""
        if index == rows - 1 and is_last_chunk:
            return "last" if len(self.remaining) == 1 else "last_in_data_collection"
        if index == 0 and self.upto is None:
            return "first_in_data_collection" if self.begun else "first"
        return "true"

    def without(self, table: str) -> Self:
        """The table is complete, or gone."""
        if self.remaining and self.remaining[0] == table:
            return replace(self, remaining=self.remaining[1:], upto=None)
        return replace(self, remaining=tuple(name for name in self.remaining if name != table))

    def restarted(self, table: str) -> Self:
        """The table was emptied: its rows are read from the beginning."""
        others = tuple(name for name in self.remaining if name != table)
        return replace(self, remaining=(table, *others), upto=None, chunk=None)

    def snapshot_json(self, chunk: Json | None, **more: Any) -> Json:
        """What an offset has under `snapshot`; nothing once the snapshot is over."""
        if self.is_over:
            return {}
        document = {"remaining": list(self.remaining), "upto": listed(self.upto), "begun": self.begun}
        return {"snapshot": {**document, **more, "chunk": chunk}}


def name_parts(name: str, exists: Callable[[str, str], bool]) -> tuple[str, str]:
    """Schema and table of SCHEMA.TABLE. Either may have dots: then that pair is meant which there is."""
    words = name.split(".")
    pairs = [(".".join(words[:i]), ".".join(words[i:])) for i in range(1, len(words))]
    return next((pair for pair in pairs[1:] if exists(*pair)), pairs[0])


def snapshot_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a SnapshotProgress, but the chunk, from what `snapshot_json` wrote."""
    return {
        "remaining": tuple(document.get("remaining", ())),
        "upto": key_texts(document.get("upto")),
        "begun": document.get("begun", False),
    }


def listed(key: KeyTexts | None) -> list[str] | None:
    return None if key is None else list(key)


def key_texts(key: list[str] | None) -> KeyTexts | None:
    return None if key is None else tuple(key)
