"""Single records: for control batches, coordinators, tests and plain clients; not for produce or fetch."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import kernel

__all__ = ["DECOMPRESSED_BYTES_MAX", "Header", "Record", "between", "iterate", "read"]
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def read(batch: Buffer, position: int = 0, *, limit: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """The records of the batch at a position, after all checks; compressed ones may grow to `limit` bytes."""
    header = batches.check(batch, position)
    return list(iterate(batch, position, header, limit=limit))


def iterate(
    batch: Buffer, position: int, header: batches.BatchHeader, *, limit: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """The records of a batch whose header was read and whose CRC was checked already, or is not in doubt."""
    payload = batches.payload(batch, position, header, limit=limit)
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    rows = memoryview(kernel.index(payload, header.count)).cast("q")
    payload = bytes(payload)
    for at in range(0, len(rows), kernel.INDEX_FIELDS):
        offset, delta, key_start, key_end, value_start, value_end, headers_start, _, end = rows[at : at + 9]
        yield Record(
            base_offset + offset,
            header.max_timestamp if header.log_append_time else base_timestamp + delta,
            None if key_start < 0 else payload[key_start:key_end],
            None if value_start < 0 else payload[value_start:value_end],
            () if end - headers_start == 1 else _headers_at(payload, headers_start),
        )


def between(
    batch: Buffer, position: int, header: batches.BatchHeader, first: int, last: int, *, limit: int
) -> list[Record]:
    """Those of a batch with these offsets, both included; no others are made."""
    payload = batches.payload(batch, position, header, limit=limit)
    rows = memoryview(kernel.index(payload, header.count)).cast("q")
    deltas, width = rows[:: kernel.INDEX_FIELDS], kernel.INDEX_FIELDS
    low = bisect_left(deltas, first - header.base_offset)
    high = bisect_right(deltas, last - header.base_offset)
    payload = bytes(payload)
    return [_record(payload, header, rows[at : at + width]) for at in range(low * width, high * width, width)]


def _record(payload: bytes, header: batches.BatchHeader, row: memoryview) -> Record:
    offset, delta, key_start, key_end, value_start, value_end, headers_start, _, end = row
    return Record(
        header.base_offset + offset,
        header.max_timestamp if header.log_append_time else header.base_timestamp + delta,
        None if key_start < 0 else payload[key_start:key_end],
        None if value_start < 0 else payload[value_start:value_end],
        () if end - headers_start == 1 else _headers_at(payload, headers_start),
    )


def _headers_at(payload: bytes, position: int) -> tuple[Header, ...]:
    from ottla.wire.kernel_rows_py import headers_at  # what a broker writes by itself has no headers

    return headers_at(payload, position)
