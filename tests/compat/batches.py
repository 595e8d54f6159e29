"""Record batches by hand, independent of the code under test, so that they can be wrong on purpose."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import crc32c

_BATCH = struct.Struct(">qiibIhiqqqhii")
_UNDER_CRC = 21  # the first byte that the checksum covers
NO_TIME = -1
# Of today, or retention and the expiry of producers would get at what a scenario wrote.
NOW_MS = int(time.time()) * 1000


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = NOW_MS


class Batch(NamedTuple):
    """What a reader sees of a batch's header."""

    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)


def batch(
    records: Iterable[Record | bytes],
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    attributes: int = 0,
    magic: int = 2,
    base_offset: int = 0,
    count: int | None = None,
    last_offset_delta: int | None = None,
    gzipped: bool = False,
) -> bytes:
    """One batch; the keyword arguments lie where a scenario wants a lie told."""
    rows = [each if isinstance(each, Record) else Record(each) for each in records]
    first = rows[0].timestamp if rows else NO_TIME
    payload = b"".join(_record(row, i, row.timestamp - first) for i, row in enumerate(rows))
    if gzipped:
        payload, attributes = gzip.compress(payload), attributes | 1
    size = _BATCH.size - 12 + len(payload)
    fields = (
        attributes,
        len(rows) - 1 if last_offset_delta is None else last_offset_delta,
        first,
        max((row.timestamp for row in rows), default=NO_TIME),
        producer_id,
        producer_epoch,
        base_sequence,
        len(rows) if count is None else count,
    )
    head = _BATCH.pack(base_offset, size, -1, magic, 0, *fields)
    checksum = crc32c.crc32c(head[_UNDER_CRC:] + payload)
    return _BATCH.pack(base_offset, size, -1, magic, checksum, *fields) + payload


def read(data: bytes | None) -> list[Batch]:
    """The headers of all whole batches; their checksums must be right."""
    batches, at = [], 0
    data = data or b""
    while at + _BATCH.size <= len(data):
        base, size, epoch, magic, crc, *rest = _BATCH.unpack_from(data, at)
        end = at + 12 + size
        if end > len(data):
            break
        if crc32c.crc32c(data[at + _UNDER_CRC : end]) != crc:
            raise AssertionError(f"wrong checksum of the batch at offset {base}")
        batches.append(Batch(base, 12 + size, epoch, magic, *rest))
        at = end
    return batches


def _record(row: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    body = b"\0" + _varint(timestamp_delta) + _varint(offset_delta) + _bytes(row.key) + _bytes(row.value)
    body += _varint(len(row.headers))
    for name, value in row.headers:
        body += _bytes(name.encode()) + _bytes(value)
    return _varint(len(body)) + body


def _bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
