"""Fetched batches to one Arrow record batch, and Arrow arrays to batches. Needs the extra `arrow`.

No record becomes a Python object on the way: the kernel writes straight into Arrow's buffers.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla import errors
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader
from ottla.wire.compression import NONE, compress
from ottla.wire.records import DECOMPRESSED_BYTES_MAX, Record

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS))

BATCH_BYTES = 900_000  # below the default max.message.bytes, whatever the headers take
_COLUMN_BYTES_MAX = 0x7FFF_FFFF  # Arrow's binary arrays have 32-bit offsets
_KEPT_ROWS_MAX = 65_536
_DELTA_END = 1 << 31  # after any offset delta
_OFFSET_MAX = (1 << 63) - 1
_NEVER: Callable[["Part", BatchHeader], bool] = lambda _part, _header: False  # noqa: E731


class Part(NamedTuple):
    """What a fetch brought of one partition; wanted are the offsets in [from_offset, up_to)."""

    topic: str
    partition: int
    data: Buffer
    from_offset: int = 0
    up_to: int = _OFFSET_MAX


class Encoded(NamedTuple):
    """A batch ready to be produced, and the rows that are in it: [first_row, end_row)."""

    batch: bytearray
    first_row: int
    end_row: int


def decode(
    parts: Iterable[Part],
    *,
    headers: bool = False,
    check_crc: bool = True,
    skip: Callable[[Part, BatchHeader], bool] = _NEVER,
    limit: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """All records of the parts, in order. `skip` tells which batches to leave out (aborted transactions);
    control batches always are. Each compressed batch may grow to `limit` bytes."""
    pieces = [piece for part in parts for piece in _pieces(part, check_crc, skip, limit)]
    rows = sum(piece.measured[0] for piece in pieces)
    columns = _Columns(rows, pieces)
    row = 0
    for piece in pieces:
        row = columns.fill(piece, row)
    arrays = [
        *columns.arrays(),
        _runs(pa.string(), [(piece.part.topic, piece.measured[0]) for piece in pieces]),
        _runs(pa.int32(), [(piece.part.partition, piece.measured[0]) for piece in pieces]),
        *columns.numbers(),
        _runs(pa.int32(), [(int(piece.header.log_append_time), piece.measured[0]) for piece in pieces]),
    ]
    if not headers:
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    return pa.RecordBatch.from_arrays([*arrays, _header_lists(rows, pieces)], schema=SCHEMA_WITH_HEADERS)


def encode(
    rows: pa.RecordBatch,
    *,
    now_ms: int,
    batch_bytes: int = BATCH_BYTES,
    codec: int = NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    transactional: bool = False,
) -> Iterator[Encoded]:
    """Batches of up to `batch_bytes` before compression, at least one row each.

    Columns that may be there: `key` and `value` (binary or string), `timestamp` (of any unit, or int64
    milliseconds; null is `now_ms`), `headers`. Others are ignored.

    Sequences are given when a batch is sent, so they are not set here.
    """
    first = 0
    take = _headed_rows(rows, now_ms) if _has_headers(rows) else _plain_rows(rows, now_ms)
    while first < rows.num_rows:
        payload, end, base_timestamp, max_timestamp = take(first, batch_bytes)
        header = BatchHeader(
            base_offset=0,
            size=0,
            leader_epoch=-1,
            magic=2,
            crc=0,
            attributes=codec | (batches.TRANSACTIONAL if transactional else 0),
            last_offset_delta=end - first - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=-1,
            count=end - first,
        )
        yield Encoded(batches.assemble(header, compress(codec, payload, level)), first, end)
        first = end


# Decoding: measure every batch, make room, fill.


class _Piece(NamedTuple):
    """The wanted records of one batch: those with offset deltas in [first, end)."""

    part: Part
    header: BatchHeader
    payload: Buffer
    first: int
    end: int
    measured: tuple[int, ...]


def _pieces(
    part: Part, check_crc: bool, skip: Callable[[Part, BatchHeader], bool], limit: int
) -> Iterator[_Piece]:
    for position, header in batches.headers(part.data):
        if header.next_offset <= part.from_offset or header.is_control or skip(part, header):
            continue
        if header.base_offset >= part.up_to:
            return
        if check_crc:
            kernel.check(part.data, position)
        payload = batches.payload(part.data, position, header, limit=limit)
        first = max(part.from_offset - header.base_offset, 0)
        end = min(part.up_to - header.base_offset, _DELTA_END)
        yield _Piece(
            part, header, payload, first, end, kernel.measure_columns(payload, header.count, first, end)
        )


class _Cells:
    """The buffers of one binary array that is being filled."""

    def __init__(self, rows: int, size: int, nulls: int) -> None:
        if size > _COLUMN_BYTES_MAX:
            raise errors.RecordListTooLarge("A column of 2 GiB or more: decode fewer batches at a time")
        self.rows, self.nulls = rows, nulls
        self.offsets = _buffer(4 * (rows + 1))
        self.data = _buffer(size)
        self.validity = _buffer((rows + 7) // 8)
        memoryview(self.offsets)[:4] = memoryview(bytes(4)).cast("b")

    @property
    def buffers(self) -> tuple[Any, Any, Any]:
        return self.offsets, self.data, self.validity

    def array(self) -> pa.Array:
        validity = self.validity if self.nulls else None
        return pa.Array.from_buffers(pa.binary(), self.rows, [validity, self.offsets, self.data], self.nulls)


class _Columns:
    def __init__(self, rows: int, pieces: list[_Piece]) -> None:
        self._rows = rows
        _, key_bytes, value_bytes, null_keys, null_values, *_ = _total(pieces)
        self._key = _Cells(rows, key_bytes, null_keys)
        self._value = _Cells(rows, value_bytes, null_values)
        self._offsets, self._timestamps = _buffer(8 * rows), _buffer(8 * rows)

    def fill(self, piece: _Piece, row: int) -> int:
        header = piece.header
        return kernel.fill_columns(
            piece.payload,
            header.count,
            piece.first,
            piece.end,
            row,
            header.base_offset,
            header.max_timestamp if header.log_append_time else header.base_timestamp,
            header.log_append_time,
            self._key.buffers,
            self._value.buffers,
            self._offsets,
            self._timestamps,
        )

    def arrays(self) -> tuple[pa.Array, pa.Array]:
        return self._key.array(), self._value.array()

    def numbers(self) -> tuple[pa.Array, pa.Array]:
        return (
            pa.Array.from_buffers(pa.int64(), self._rows, [None, self._offsets], 0),
            pa.Array.from_buffers(TIMESTAMP, self._rows, [None, self._timestamps], 0),
        )


def no_headers(rows: int) -> pa.Array:
    """The column `headers` of records that have none."""
    none = pa.nulls(0, HEADERS.value_type)
    return pa.Array.from_buffers(
        HEADERS, rows, [None, pa.py_buffer(bytes(4 * (rows + 1)))], 0, children=[none]
    )


def _header_lists(rows: int, pieces: list[_Piece]) -> pa.Array:
    *_, count, key_bytes, value_bytes = _total(pieces)
    if not count:  # nearly always: to walk over all records for nothing takes as long as to fill a column
        return no_headers(rows)
    lists = _buffer(4 * (rows + 1))
    memoryview(lists)[:4] = memoryview(bytes(4)).cast("b")
    # How many values are null is not measured: -1 lets Arrow count when it is asked.
    key, value = _Cells(count, key_bytes, 0), _Cells(count, value_bytes, -1)
    row = 0
    for piece in pieces:
        row = kernel.fill_headers(
            piece.payload,
            piece.header.count,
            piece.first,
            piece.end,
            row,
            lists,
            key.buffers[:2],
            value.buffers,
        )
    pairs = pa.StructArray.from_arrays([_text(key.array()), value.array()], fields=list(HEADERS.value_type))
    return pa.Array.from_buffers(HEADERS, rows, [None, lists], 0, children=[pairs])


def _text(keys: pa.Array) -> pa.Array:
    """Header keys as text. Those that are no UTF-8 are mended, as Java does."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def _total(pieces: list[_Piece]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*(piece.measured for piece in pieces), strict=True))) or (0,) * 8


def _buffer(size: int) -> pa.Buffer:
    return pa.allocate_buffer(size)


def _runs(kind: pa.DataType, runs: list[tuple[Any, int]]) -> pa.Array:
    """An array of each value as often as it says."""
    merged: list[tuple[Any, int]] = []
    for value, count in runs:
        if merged and merged[-1][0] == value:
            count += merged.pop()[1]
        merged.append((value, count))
    arrays = [_repeated(kind, value, count) for value, count in merged]
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def _repeated(kind: pa.DataType, value: Any, count: int) -> pa.Array:
    """A part of an array that is kept: to repeat a text a million times takes as long as to decode its records."""
    if count > _KEPT_ROWS_MAX:
        return pa.repeat(pa.scalar(value, kind), count)
    return _kept(kind, value, 1 << (count - 1).bit_length()).slice(0, count)


@lru_cache(maxsize=64)
def _kept(kind: pa.DataType, value: Any, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


# Encoding: a function that takes (first row, bytes) and gives (payload, end row, base and max timestamp).

_Take = Callable[[int, int], tuple[bytes, int, int, int]]


def _plain_rows(rows: pa.RecordBatch, now_ms: int) -> _Take:
    key, value = binary_buffers(rows, "key"), binary_buffers(rows, "value")
    times = _times(rows, now_ms)
    timestamps = None if times is None else times.buffers()[1]

    def take(first: int, batch_bytes: int) -> tuple[bytes, int, int, int]:
        return kernel.encode_columns(first, rows.num_rows, batch_bytes, key, value, timestamps, now_ms)

    return take


def binary_buffers(rows: pa.RecordBatch, name: str) -> tuple[Any, Any, Any] | None:
    """A column's offsets, data and validity; None when it is missing or nothing but nulls."""
    if name not in rows.schema.names:
        return None
    array = rows.column(name)
    if array.null_count == len(array):
        return None
    if array.null_count:
        array = _compact(array)  # bits of validity cannot begin within a byte
    array = array.cast(pa.binary())
    validity, offsets, data = array.buffers()
    # Offsets count from the begin of the data, so a slice needs no copy of them or of the data.
    return (
        offsets.slice(4 * array.offset),
        b"" if data is None else data,
        validity if array.null_count else None,
    )


def _times(rows: pa.RecordBatch, now_ms: int) -> pa.Array | None:
    if "timestamp" not in rows.schema.names:
        return None
    times = rows.column("timestamp")
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", tz=times.type.tz), safe=False)
    return _compact(times.cast(pa.int64()).fill_null(now_ms))


def _compact(array: pa.Array) -> pa.Array:
    """The array with buffers that start at its first row."""
    return pa.concat_arrays([array]) if array.offset else array


def _has_headers(rows: pa.RecordBatch) -> bool:
    return "headers" in rows.schema.names and rows.column("headers").null_count < rows.num_rows


def _headed_rows(rows: pa.RecordBatch, now_ms: int) -> _Take:
    """Rows with headers are rare, so they go the plain way, as objects."""
    columns = [
        rows.column(name).to_pylist() if name in rows.schema.names else None for name in ("key", "value")
    ]
    keys, values = [column or [None] * rows.num_rows for column in columns]
    times = _times(rows, now_ms)
    moments = [now_ms] * rows.num_rows if times is None else times.to_pylist()
    headers = [
        tuple((pair["key"], pair["value"]) for pair in pairs or ())
        for pairs in rows.column("headers").to_pylist()
    ]

    def take(first: int, batch_bytes: int) -> tuple[bytes, int, int, int]:
        payload = bytearray()
        end = first
        while end < rows.num_rows:
            record = Record(end - first, moments[end], _bytes(keys[end]), _bytes(values[end]), headers[end])
            encoded = kernel.encode([record], 0, moments[first])[0]
            if end > first and len(payload) + len(encoded) > batch_bytes:
                break
            payload += encoded
            end += 1
        return bytes(payload), end, moments[first], max(moments[first:end])

    return take


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
