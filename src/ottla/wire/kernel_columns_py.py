"""Records to and from the buffers of Arrow arrays, in plain Python; _kernel_columns.c is the same in C.

The caller brings the buffers: offsets are native int32, one more than rows; validity is a bit a row, lowest
first; offsets and timestamps of records are native int64. A buffer is anything that can be written to.
"""

from array import array
from collections.abc import Iterator
from typing import Any

from ottla.ports import Buffer
from ottla.wire import kernel_py
from ottla.wire.layout import INDEX_FIELDS

Measured = tuple[int, int, int, int, int, int, int, int]
Column = tuple[Any, Any, Any]  # offsets, data, validity (None where nothing is null)

_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_TOO_SMALL = "the columns are too small"


def measure_columns(payload: Buffer, count: int, first: int, end: int) -> Measured:
    """Of records with offset deltas in [first, end): rows, bytes of keys, bytes of values, null keys, null
    values, headers, bytes of header keys, bytes of header values."""
    rows = key_bytes = value_bytes = null_keys = null_values = headers = header_keys = header_values = 0
    data = bytes(payload)
    for _, _, key, key_end, value, value_end, at, _, _ in _wanted(data, count, first, end):
        rows += 1
        key_bytes += key_end - key
        value_bytes += value_end - value
        null_keys += key < 0
        null_values += value < 0
        for name, name_end, content, content_end in _headers(data, at):
            headers += 1
            header_keys += name_end - name
            header_values += content_end - content
    return rows, key_bytes, value_bytes, null_keys, null_values, headers, header_keys, header_values


def fill_columns(
    payload: Buffer,
    count: int,
    first: int,
    end: int,
    row: int,
    base_offset: int,
    base_timestamp: int,
    same_time: bool,
    key: Column,
    value: Column,
    offsets: Any,
    timestamps: Any,
) -> int:
    """Write the records from `row` on; the row after the last. Times become microseconds that fit."""
    data = bytes(payload)
    _not_negative(row)
    offset_cells = memoryview(offsets).cast("B").cast("q")
    time_cells = memoryview(timestamps).cast("B").cast("q")
    try:
        for delta, time_delta, start, stop, value_start, value_stop, *_ in _wanted(data, count, first, end):
            timestamp = kernel_py.signed64(base_timestamp + (0 if same_time else time_delta))
            _put_cell(key, row, data, start, stop)
            _put_cell(value, row, data, value_start, value_stop)
            offset_cells[row] = kernel_py.signed64(base_offset + delta)
            time_cells[row] = max(~_INT64_MAX, min(timestamp * 1000, _INT64_MAX))
            row += 1
    except IndexError:
        raise ValueError(_TOO_SMALL) from None
    return row


def fill_headers(
    payload: Buffer,
    count: int,
    first: int,
    end: int,
    row: int,
    lists: Any,
    key: tuple[Any, Any],
    value: Column,
) -> int:
    """Write the records' headers: where each row's list ends, and the keys and values of all lists."""
    data = bytes(payload)
    _not_negative(row)
    ends = memoryview(lists).cast("B").cast("i")
    try:
        for *_, at, _, _ in _wanted(data, count, first, end):
            element = ends[row]
            for name, name_end, content, content_end in _headers(data, at):
                _put_cell((*key, None), element, data, name, name_end)
                _put_cell(value, element, data, content, content_end)
                element += 1
            ends[row + 1] = element
            row += 1
    except IndexError:
        raise ValueError(_TOO_SMALL) from None
    return row


def encode_columns(
    first: int,
    end: int,
    max_bytes: int,
    key: Column | None,
    value: Column | None,
    timestamps: Any,
    timestamp: int = -1,
) -> tuple[bytes, int, int, int]:
    """(payload, row after the last, base timestamp, max timestamp): rows from `first` up to `max_bytes` of
    records, but at least one. No column is all null; no timestamps are all `timestamp`."""
    times = None if timestamps is None else memoryview(timestamps).cast("B").cast("q")
    _not_negative(first)
    payload = bytearray()
    base = latest = timestamp
    row = first
    try:
        while row < end:
            now = timestamp if times is None else times[row]
            if row == first:
                base = latest = now
            record = (row - first, now, _cell(key, row), _cell(value, row), ())
            encoded = kernel_py.encode([record], 0, base)[0]
            if row > first and len(payload) + len(encoded) > max_bytes:
                break
            payload += encoded
            latest = max(latest, now)
            row += 1
    except IndexError:
        raise ValueError(_TOO_SMALL) from None
    return bytes(payload), row, base, latest


def partition_column(rows: int, key: Column | None, partitions: int) -> bytes:
    """The partition of each row's key as Java's default partitioner has it, as native int32; -1 for null."""
    if not 0 <= rows <= 0x7FFF_FFFF or partitions < 1:
        raise ValueError(_TOO_SMALL)
    chosen = array("i", bytes(4 * rows))
    try:
        for row in range(rows):
            content = _cell(key, row)
            chosen[row] = -1 if content is None else (kernel_py.murmur2(content) & 0x7FFF_FFFF) % partitions
    except IndexError:
        raise ValueError(_TOO_SMALL) from None
    return chosen.tobytes()


def _not_negative(row: int) -> None:
    if row < 0:
        raise ValueError(_TOO_SMALL)


def _wanted(payload: bytes, count: int, first: int, end: int) -> Iterator[tuple[int, ...]]:
    rows = memoryview(kernel_py.index(payload, count)).cast("q")
    for at in range(0, len(rows), INDEX_FIELDS):
        if first <= rows[at] < end:
            yield tuple(rows[at : at + INDEX_FIELDS])


def _headers(payload: bytes, position: int) -> Iterator[tuple[int, int, int, int]]:
    """Start and end of each header's key and value, (-1, -1) for a null; the records were read before."""
    end = len(payload)
    view = memoryview(payload)
    count, position = kernel_py.read_varint(view, position, end, 32)
    for _ in range(count):
        key, key_end, position = kernel_py.read_field(view, position, end, "")
        value, value_end, position = kernel_py.read_field(view, position, end, "")
        yield key, key_end, value, value_end


def _put_cell(column: Column, row: int, payload: bytes, start: int, end: int) -> None:
    offsets, data, validity = column
    cells, out = memoryview(offsets).cast("B").cast("i"), memoryview(data).cast("B")
    at = cells[row]
    if not 0 <= at <= len(out) - (end - start):
        raise IndexError
    cells[row + 1] = at + end - start
    if end > start:
        out[at : at + end - start] = payload[start:end]
    if validity is not None:
        bits = memoryview(validity).cast("B")
        bit = (start >= 0) << (row & 7)
        bits[row >> 3] = bits[row >> 3] | bit if row & 7 else bit


def _cell(column: Column | None, row: int) -> bytes | None:
    if column is None:
        return None
    offsets, data, validity = column
    cells = memoryview(offsets).cast("B").cast("i")
    start, end = cells[row], cells[row + 1]
    if validity is not None and not memoryview(validity).cast("B")[row >> 3] >> (row & 7) & 1:
        return None
    if not 0 <= start <= end <= memoryview(data).nbytes:
        raise IndexError
    return bytes(memoryview(data).cast("B")[start:end])
