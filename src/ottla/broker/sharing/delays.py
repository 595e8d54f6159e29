"""Records that say when they may be delivered: the header `ottla-deliver-at`, honoured by share groups only.

Its value is a time in milliseconds since 1970 as decimal text, or in ISO 8601 with its distance from UTC. Anything
else is as no header. Looking for it means to decompress batches, so it has bounds: what is beyond them is looked at
the next time, and a batch that is too large for the loop in a thread.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from ottla.frozen import frozen
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader
from ottla.wire.compression import OverLimit
from ottla.wire.kernel_py import read_varint

DELIVER_AT = "ottla-deliver-at"
UNPACKED_MAX = 16 * 1024 * 1024  # a batch that decompresses to more is not looked into
RECORDS_MAX = 500_000  # nor one with more records: what finds them takes 72 bytes for each
DUES_AT_ONCE = 1_000  # each becomes a run of the window: some milliseconds
_SLICE_BYTES = 1 << 20  # searched at once: a thread holds Python's lock for so long
_HEADERS_AT = 6  # in a row of the index
_NAME = DELIVER_AT.encode()
_IN_BATCH = re.compile(_NAME)
_LAST_MS = 253_402_300_800_000  # the year 10000


@frozen
class Bounds:
    batch_bytes: int  # of one batch, decompressed
    bytes_: int  # of all of them
    apart_bytes: int  # of one batch whose records are looked at one by one
    apart_records: int


ON_THE_LOOP = Bounds(1 << 20, 2 << 20, 256 << 10, 2_000)
IN_A_THREAD = Bounds(UNPACKED_MAX, 4 * UNPACKED_MAX, 1 << 31, RECORDS_MAX)


class TooLarge(Exception):
    """The first batch alone is beyond the bounds of the loop."""


@frozen
class Dues:
    times_ms: dict[int, int]  # by offset, in order: records whose time is still to come
    end_offset: int  # from here on nothing was looked at
    bytes_: int = 0  # that were looked at, decompressed


def dues_in(data: Buffer, from_offset: int, wall_ms: int, bounds: Bounds = IN_A_THREAD) -> Dues:
    """Offsets from this one on whose time is still to come, and that time."""
    times_ms: dict[int, int] = {}
    spent, end_offset = 0, from_offset
    for position, header in batches.headers(data):
        if header.last_offset >= from_offset and not header.is_control:
            try:
                payload, unpacked_bytes = _looked_into(data, position, header, bounds)
            except TooLarge:
                if spent:
                    break
                raise
            spent += unpacked_bytes
            for offset, due_ms in _dues_of(payload, header, from_offset, wall_ms):
                times_ms[offset] = due_ms
                if len(times_ms) >= DUES_AT_ONCE:
                    return Dues(times_ms, offset + 1, spent)
        end_offset = max(end_offset, header.next_offset)
        if spent >= bounds.bytes_:
            break
    return Dues(times_ms, end_offset, spent)


def _looked_into(data: Buffer, position: int, header: BatchHeader, bounds: Bounds) -> tuple[Buffer, int]:
    """The batch's records if one of them may have the header, nothing if none has: most are not taken apart. And how
    many bytes were looked at."""
    try:
        payload = batches.payload(data, position, header, limit=bounds.batch_bytes)
    except OverLimit:
        return _beyond(bounds), bounds.batch_bytes
    unpacked_bytes = max(len(payload), header.size)
    if unpacked_bytes > bounds.batch_bytes:
        _beyond(bounds)
    if not _has_name(payload):
        return b"", unpacked_bytes
    if header.count > bounds.apart_records or len(payload) > bounds.apart_bytes:
        return _beyond(bounds), unpacked_bytes
    return payload, unpacked_bytes


def _beyond(bounds: Bounds) -> bytes:
    """What is too large for a thread too is as if it had no header."""
    if bounds is ON_THE_LOOP:
        raise TooLarge
    return b""


def _has_name(payload: Buffer) -> bool:
    overlap = len(_NAME) - 1
    return any(
        _IN_BATCH.search(payload, at, at + _SLICE_BYTES + overlap)
        for at in range(0, len(payload), _SLICE_BYTES)
    )


def _dues_of(
    payload: Buffer, header: BatchHeader, from_offset: int, wall_ms: int
) -> Iterator[tuple[int, int]]:
    if not payload:
        return
    rows = memoryview(kernel.index(payload, header.count)).cast("q")
    view = memoryview(payload)
    for at in range(0, len(rows), kernel.INDEX_FIELDS):
        offset = header.base_offset + rows[at]
        if offset >= from_offset and (due_ms := _due_ms(view, rows[at + _HEADERS_AT])) > wall_ms:
            yield offset, due_ms


def _due_ms(payload: memoryview, position: int) -> int:
    """The latest time in the record's headers. They are not kept: a record may have millions of them."""
    end, due_ms = len(payload), 0
    count, position = read_varint(payload, position, end, 32)
    for _ in range(count):
        length, position = read_varint(payload, position, end, 32)
        is_due = length == len(_NAME) and payload[position : position + length] == _NAME
        length, position = read_varint(payload, position + length, end, 32)
        if is_due and length > 0:
            due_ms = max(due_ms, _time_ms(bytes(payload[position : position + min(length, 100)])))
        position += max(length, 0)
    return due_ms


def _time_ms(value: bytes) -> int:
    text = value.decode("ascii", "replace").strip()
    if text.isdecimal():
        return min(int(text[:20]), _LAST_MS)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return 0
    return 0 if time.tzinfo is None else int(time.timestamp() * 1000)
