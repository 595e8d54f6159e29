"""Records on their way out and back in, in plain Python; _kernel_rows.c is the same in C.

A send encodes its record at once, into the batch that the partition is filling. In C that is one step that nobody
interrupts; callers of this module that have several threads hold a lock meanwhile, as `client.core.accumulator` does.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ottla.ports import Buffer
from ottla.wire.kernel_py import encode, index, murmur2, read_varint, signed64
from ottla.wire.layout import INDEX_FIELDS

B = TypeVar("B")
T = TypeVar("T", bound=tuple[Any, ...])
_ROWS = struct.Struct(f"{INDEX_FIELDS}q")
REFUSED = -1
Headers = Iterable[tuple[str, bytes | None]]


class Room:
    """Bytes that all batches share. What is larger than everything may go alone."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.used = 0

    def fits(self, size: int) -> bool:
        return not self.used or size <= self._bytes_max - self.used

    def take(self, size: int) -> bool:
        fits = self.fits(size)
        if fits:
            self.used += size
        return fits

    def give(self, size: int) -> None:
        self.used -= size


class Rows:
    """The records of one batch: encoded, until they are released, and their timestamps."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._payload = bytearray()
        self._timestamps: list[int] = []
        self._closed = False
        self.size = 0

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def max_timestamp(self) -> int:
        return max(self._timestamps, default=-1)

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """The record's index; -1: this batch is closed or full."""
        return self._append(timestamp, key, value, tuple(headers or ()), None)

    def close(self) -> None:
        self._closed = True

    def payload(self) -> bytes:
        return bytes(self._payload)

    def release(self) -> None:
        """The records were acknowledged or given up."""
        self._closed = True
        self._payload = bytearray()

    def timestamp(self, index: int) -> int:
        if not 0 <= index < len(self._timestamps):
            raise IndexError("there is no such record")
        return self._timestamps[index]

    def _append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
        room: Room | None,
    ) -> int:
        for field in (key, value):
            if field is not None and not isinstance(field, bytes):
                raise TypeError("keys and values are bytes or None")
        index = len(self._timestamps)
        base = self._timestamps[0] if index else timestamp
        row = (index, timestamp, key, value, headers)
        record = encode([row], 0, base)[0]
        full = index and len(record) > self._bytes_max - self.size
        if self._closed or full or (room is not None and not room.take(len(record))):
            return REFUSED
        self._payload += record
        self.size += len(record)
        self._timestamps.append(timestamp)
        return index


class Gate(Generic[B]):
    """The batch that a partition is filling."""

    filling: B | None
    rows: Rows | None

    def __new__(cls, *_: Any) -> "Gate[B]":
        self = super().__new__(cls)
        self.filling = self.rows = None
        return self

    def open(self, batch: B, rows: Rows) -> None:
        if not isinstance(rows, Rows):
            raise TypeError("a gate opens to Rows")
        self.filling, self.rows = batch, rows

    def shut(self) -> None:
        if self.rows is not None:
            self.rows.close()
        self.filling = self.rows = None


class Receipt(Generic[B]):
    """Which record of which batch."""

    def __init__(self, batch: B, index: int) -> None:
        self.batch = batch
        self.index = index


class Lane:
    """A topic's gates, and which of them a record goes through: keys by their hash, others where it sticks."""

    def __init__(
        self,
        room: Room,
        gates: Iterable[Gate[Any]],
        receipt: type[Receipt[Any]],
        until_ms: int,
        hashes: bool,
        clock: Callable[[], float],
    ) -> None:
        self._room, self._gates, self._receipt = room, tuple(gates), receipt
        self._until_ms, self._hashes, self._clock = until_ms, hashes, clock
        self.sticky = (-1, 0)  # the partition, and how many bytes may still go there

    def send(
        self, value: Any, key: Any, partition: int | None, headers: Headers | None, timestamp: int | None
    ) -> Any:
        """A receipt; None where somebody has something to do first: serialize, look up, choose, make room."""
        now_ms = int(self._clock() * 1000)
        plain = type(value) in (bytes, type(None)) and type(key) in (bytes, type(None))
        if not plain or now_ms > self._until_ms:
            return None
        chosen = self._choose(key) if partition is None else partition
        if not 0 <= chosen < len(self._gates):
            return None
        rows, batch = self._gates[chosen].rows, self._gates[chosen].filling
        if rows is None:
            return None
        before = rows.size
        stamp = now_ms if timestamp is None else timestamp
        index = rows._append(stamp, key, value, tuple(headers or ()), self._room)
        if index == REFUSED:
            return None
        if partition is None and key is None:
            self.stick(chosen, self.sticky[1] - (rows.size - before))
        return self._receipt(batch, index)

    def stick(self, partition: int, size: int) -> None:
        self.sticky = (partition, 0 if partition < 0 else size)

    def _choose(self, key: bytes | None) -> int:
        if not self._hashes:
            return -1
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % len(self._gates) if self._gates else -1
        return self.sticky[0] if self.sticky[1] > 0 else -1


def tuples(
    kind: type[T],
    payload: Buffer,
    count: int,
    first_offset: int,
    base_offset: int,
    base_timestamp: int,
    same_timestamp: int | None,
    topic: str,
    partition: int,
    timestamp_type: int,
    leader_epoch: int,
) -> list[T]:
    """The records from `first_offset` on as tuples of this kind: topic, partition, offset, timestamp, key, value,
    headers, timestamp type, leader epoch."""
    data = bytes(payload)
    make = tuple.__new__  # what a named tuple's own constructor does, without its detour
    return [
        make(
            kind,
            (
                topic,
                partition,
                signed64(base_offset + offset),
                signed64(base_timestamp + delta) if same_timestamp is None else same_timestamp,
                None if key < 0 else data[key:key_end],
                None if value < 0 else data[value:value_end],
                () if end - headers == 1 else headers_at(data, headers),
                timestamp_type,
                leader_epoch,
            ),
        )
        for offset, delta, key, key_end, value, value_end, headers, _, end in _ROWS.iter_unpack(
            index(data, count)
        )
        if base_offset + offset >= first_offset
    ]


def headers_at(payload: bytes, position: int) -> tuple[tuple[str, bytes | None], ...]:
    """The kernel has checked their bounds. Keys that are no UTF-8 are mended, as Java does."""
    view, end = memoryview(payload), len(payload)
    count, position = read_varint(view, position, end, 32)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(view, position, end, 32)
        key = payload[position : position + length].decode(errors="replace")
        length, position = read_varint(view, position + length, end, 32)
        headers.append((key, None if length < 0 else payload[position : position + length]))
        position += max(length, 0)
    return tuple(headers)
