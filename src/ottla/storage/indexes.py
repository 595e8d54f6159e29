"""A segment's indexes in Kafka's format: offset to position, timestamp to offset, aborted transactions.

The sparse ones are kept in memory as flat arrays and written from some entry on. Offsets in the files are
relative to the segment's base offset. An entry of the offset index names the *last* offset of the batch at
its position, as Apache Kafka writes it.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.ports import Buffer

_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_TRANSACTION_VERSION = 0
RELATIVE_OFFSET_MAX = 2**31 - 1


class BadIndex(ValueError):
    """Not an index, or not of this segment: it has to be rebuilt."""


class OffsetIndex:
    """(relative last offset, position of its batch), both rising."""

    ENTRY_BYTES = 8
    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def lookup(self, relative_offset: int) -> int:
        """A position at or before the batch that holds this offset."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def position_at_most(self, position: int) -> int:
        """The last known start of a batch that is not behind `position`."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def truncate(self, position: int) -> None:
        """Forget batches that start at or behind `position`."""
        at = bisect_left(self.positions, position)
        del self.offsets[at:]
        del self.positions[at:]

    def dump(self, first_entry: int = 0) -> bytes:
        flat = array("i", bytes(self.ENTRY_BYTES * (len(self.offsets) - first_entry)))
        flat[0::2] = self.offsets[first_entry:]
        flat[1::2] = self.positions[first_entry:]
        return _big_endian(flat)

    @classmethod
    def load(cls, data: Buffer) -> "OffsetIndex":
        if len(data) % cls.ENTRY_BYTES:
            raise BadIndex("its length is no multiple of 8")
        flat = _from_big_endian(data)
        index = cls()
        index.offsets = flat[0::2]
        index.positions = flat[1::2]
        if (
            not _rises(index.positions)
            or not _rises(index.offsets)
            or (index.offsets and index.offsets[0] < 0)
        ):
            raise BadIndex("its entries do not rise")
        return index


class TimeIndex:
    """(timestamp, relative offset): no record up to that offset is younger than that timestamp."""

    ENTRY_BYTES = 12
    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")

    def __len__(self) -> int:
        return len(self.offsets)

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Only what is younger than everything so far tells anything."""
        if timestamp >= 0 and (not self.timestamps or timestamp > self.timestamps[-1]):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def lookup(self, timestamp: int) -> int:
        """A relative offset at or before the first record with this timestamp or a later one."""
        at = bisect_right(self.timestamps, timestamp - 1)
        return self.offsets[at - 1] if at else 0

    def truncate(self, relative_offset: int) -> None:
        at = bisect_left(self.offsets, relative_offset)
        del self.timestamps[at:]
        del self.offsets[at:]

    def dump(self, first_entry: int = 0) -> bytes:
        pack = _TIME_ENTRY.pack
        entries = zip(self.timestamps[first_entry:], self.offsets[first_entry:], strict=True)
        return b"".join([pack(timestamp, offset) for timestamp, offset in entries])

    @classmethod
    def load(cls, data: Buffer) -> "TimeIndex":
        if len(data) % cls.ENTRY_BYTES:
            raise BadIndex("its length is no multiple of 12")
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index.timestamps.append(timestamp)
            index.offsets.append(offset)
        if not _rises(index.timestamps) or (index.offsets and index.offsets[0] < 0):
            raise BadIndex("its entries do not rise")
        return index


@dataclass(slots=True)
class Indexes:
    """Both sparse indexes of one segment."""

    offset: OffsetIndex = field(default_factory=OffsetIndex)
    time: TimeIndex = field(default_factory=TimeIndex)

    @property
    def size_bytes(self) -> int:
        return 200 + OffsetIndex.ENTRY_BYTES * len(self.offset) + TimeIndex.ENTRY_BYTES * len(self.time)


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # when its marker was written: nothing aborted before it comes later


def dump_aborted(transactions: list[AbortedTransaction]) -> bytes:
    return b"".join(
        [_TRANSACTION_ENTRY.pack(_TRANSACTION_VERSION, *transaction) for transaction in transactions]
    )


def load_aborted(data: Buffer) -> list[AbortedTransaction]:
    if len(data) % _TRANSACTION_ENTRY.size:
        raise BadIndex("its length is no multiple of 34")
    entries = list(_TRANSACTION_ENTRY.iter_unpack(data))
    if any(version != _TRANSACTION_VERSION for version, *_ in entries):
        raise BadIndex("its version is unknown")
    return [AbortedTransaction(*entry[1:]) for entry in entries]


def _rises(values: "array[int]") -> bool:
    return all(map(int.__lt__, values, values[1:]))


def _big_endian(values: "array[int]") -> bytes:
    if sys.byteorder == "little":
        values.byteswap()
    return values.tobytes()


def _from_big_endian(data: Buffer) -> "array[int]":
    values = array("i")
    values.frombytes(data)
    if sys.byteorder == "little":
        values.byteswap()
    return values
