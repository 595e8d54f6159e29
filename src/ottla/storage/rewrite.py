"""One batch in, what compaction leaves of it out: untouched, with fewer records, emptied, or not at all."""

from array import array
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from ottla.frozen import frozen
from ottla.ports import Buffer
from ottla.storage.key_map import KeyMap
from ottla.wire import compression, kernel
from ottla.wire.batch import CODEC_MASK, DELETE_HORIZON, NO_TIMESTAMP, BatchHeader, assemble
from ottla.wire.batch import payload as payload_of

# How many records are looked at before the event loop gets a turn.
RECORDS_PER_STEP = 1024
# Larger batches are unpacked and packed in a thread.
INLINE_BYTES_MAX = 64 * 1024

_FIELDS = kernel.INDEX_FIELDS
_TIMESTAMP, _VALUE_START, _START, _END = 1, 4, 7, 8
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1

T = TypeVar("T")
# A step: nothing (the event loop may take a turn), or work for a thread, after which the generator goes on.
Job = Callable[[], None]
Steps = Generator[Job | None, None, T]


@frozen
class Fate:
    """What is decided for a batch as a whole, before its records are looked at."""

    discard: bool = False  # no record stays
    keep_empty: bool = False  # the header stays even so
    horizon_ms: int | None = None  # the horizon to set when there is none and something will need it
    is_spent_marker: bool = False  # a marker whose transaction is gone: it needs a horizon as tombstones do


def rewrite(
    batch: memoryview, header: BatchHeader, fate: Fate, keys: KeyMap, *, now_ms: int, bytes_max: int
) -> Steps[Buffer | None]:
    """What stays of a batch, or None; `batch` itself when that is all of it."""
    if fate.discard and not fate.keep_empty:
        return None
    if fate.discard or header.count == 0:
        return emptied(header) if fate.keep_empty else None
    if is_small(header):
        payload, rows = unpack(batch, header, bytes_max)
    else:
        payload, rows = yield from in_thread(lambda: unpack(batch, header, bytes_max))
    if header.is_control:
        survivors = list(range(header.count))
    else:
        survivors = yield from _survivors(payload, rows, header, keys, now_ms)
    if not survivors:
        return emptied(header) if fate.keep_empty else None
    horizon_ms = _horizon(rows, survivors, header, fate)
    if len(survivors) == header.count and horizon_ms is None:
        return batch
    if is_small(header):
        return _rebuilt(payload, rows, survivors, header, horizon_ms)
    return (yield from in_thread(lambda: _rebuilt(payload, rows, survivors, header, horizon_ms)))


def is_small(header: BatchHeader) -> bool:
    """Is a thread not worth it? Compressed bytes cost more than plain ones."""
    return header.size <= (INLINE_BYTES_MAX if header.codec == compression.NONE else INLINE_BYTES_MAX // 8)


def unpack(batch: memoryview, header: BatchHeader, bytes_max: int) -> tuple[Buffer, "array[int]"]:
    """The records of a batch, decompressed, and the kernel's index of them: nine numbers a record."""
    payload = payload_of(batch, 0, header, limit=bytes_max)
    rows = array("q")
    rows.frombytes(kernel.index(payload, header.count))
    return payload, rows


def in_thread(work: Callable[[], T]) -> Steps[T]:
    results: list[T] = []
    yield lambda: results.append(work())
    return results[0]


def emptied(header: BatchHeader) -> bytes:
    """Only the header of a batch: its offsets, producer and sequence live on."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return bytes(assemble(replace(header, attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0), b""))


def _survivors(
    payload: Buffer, rows: "array[int]", header: BatchHeader, keys: KeyMap, now_ms: int
) -> Steps[list[int]]:
    """The numbers of the records that stay: the newest of their key, and no tombstone past its horizon.

    What lies beyond the map is not known to be old, so it stays. Records without a key go.
    """
    tombstones_stay = not header.has_delete_horizon or now_ms < header.base_timestamp
    survivors: list[int] = []
    for first in range(0, header.count, RECORDS_PER_STEP):
        if first:
            yield None
        part = rows[first * _FIELDS : (first + RECORDS_PER_STEP) * _FIELDS]
        columns = zip(part[0::_FIELDS], part[2::_FIELDS], part[3::_FIELDS], part[4::_FIELDS], strict=True)
        for number, (delta, key_start, key_end, value_start) in enumerate(columns, start=first):
            offset = header.base_offset + delta
            if offset > keys.latest_offset:
                survivors.append(number)
            elif key_start < 0 or (value_start < 0 and not tombstones_stay):
                continue
            elif offset >= keys.offset_of(bytes(payload[key_start:key_end])):
                survivors.append(number)
    return survivors


def _horizon(rows: "array[int]", survivors: Sequence[int], header: BatchHeader, fate: Fate) -> int | None:
    """The delete horizon to set. None if there is one, if nothing needs one, or if a record is so far from it that its
    timestamp would not fit beside it: then its tombstones stay."""
    if fate.horizon_ms is None or header.has_delete_horizon:
        return None
    if not fate.is_spent_marker and not _has_tombstone(rows, survivors, header):
        return None
    horizon_ms = min(fate.horizon_ms, _INT64_MAX)
    shift = header.base_timestamp - horizon_ms
    deltas = [rows[number * _FIELDS + _TIMESTAMP] + shift for number in survivors]
    return horizon_ms if min(deltas) >= _INT64_MIN and max(deltas) <= _INT64_MAX else None


def _has_tombstone(rows: "array[int]", survivors: Sequence[int], header: BatchHeader) -> bool:
    return not header.is_control and any(rows[number * _FIELDS + _VALUE_START] < 0 for number in survivors)


def _rebuilt(
    payload: Buffer, rows: "array[int]", survivors: Sequence[int], header: BatchHeader, horizon_ms: int | None
) -> bytes:
    """The kept records in a batch of the same offsets, sequence and codec.

    A delete horizon takes the place of the base timestamp (KIP-534), so only then are records re-encoded.
    """
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon_ms is None:
        records = b"".join(_runs(payload, rows, survivors))
    else:
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon_ms
        shift = header.base_timestamp - horizon_ms
        records = b"".join(_shifted(payload, rows, number, shift) for number in survivors)
    max_timestamp = header.max_timestamp
    if not header.log_append_time:
        max_timestamp = header.base_timestamp + max(
            rows[number * _FIELDS + _TIMESTAMP] for number in survivors
        )
    if header.codec != compression.NONE:
        records = compression.compress(header.codec, records)
    changed = replace(
        header,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        count=len(survivors),
    )
    return bytes(assemble(changed, records))


def _runs(payload: Buffer, rows: "array[int]", survivors: Sequence[int]) -> list[memoryview]:
    """Neighbours in one slice."""
    view = memoryview(payload)
    runs: list[memoryview] = []
    start, end = rows[survivors[0] * _FIELDS + _START], rows[survivors[0] * _FIELDS + _START]
    for number in survivors:
        record_start, record_end = rows[number * _FIELDS + _START], rows[number * _FIELDS + _END]
        if record_start != end:
            runs.append(view[start:end])
            start = record_start
        end = record_end
    runs.append(view[start:end])
    return runs


def _shifted(payload: Buffer, rows: "array[int]", number: int, shift: int) -> bytes:
    """A record whose timestamp delta is `shift` larger; all else is copied."""
    start, end = rows[number * _FIELDS + _START], rows[number * _FIELDS + _END]
    attributes_at = _after_varint(payload, start)
    delta = _varint(rows[number * _FIELDS + _TIMESTAMP] + shift)
    rest = bytes(payload[_after_varint(payload, attributes_at + 1) : end])
    body = bytes(payload[attributes_at : attributes_at + 1]) + delta + rest
    return _varint(len(body)) + body


def _after_varint(payload: Buffer, position: int) -> int:
    while payload[position] & 0x80:
        position += 1
    return position + 1


def _varint(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
