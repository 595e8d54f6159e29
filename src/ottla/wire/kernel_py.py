"""The kernel in plain Python: runs where the C extension is not built, and is what that is tested against.

Every byte here comes from the network or a disk, so nothing is read before its bounds are checked, and both
kernels refuse the same input with the same words.
"""

import functools
import struct
from array import array
from collections.abc import Iterable
from typing import Any

from ottla.ports import Buffer
from ottla.wire.corruption import BadRecord, CorruptBatch, WrongMagic
from ottla.wire.layout import HEADER_BYTES

Header = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
Walked = tuple[int, int, int, int, int]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_PREFIX = 12  # base offset and length: what the batch's length does not count
_CRC_START = 21  # the CRC covers everything from the attributes on
_RECORD_BYTES_MIN = 7  # a length, attributes, two deltas, null key, null value, no headers
_MAGIC_AT = 16
_MAGIC = 2
_CODEC_MASK = 0x07
_INT32_MAX = 0x7FFF_FFFF
_INT64_MAX = 0x7FFF_FFFF_FFFF_FFFF
_UINT32 = 0xFFFF_FFFF
OUTLIERS_MAX = 1000
_MURMUR_M = 0x5BD1E995


def crc32c(data: Buffer, crc: int = 0) -> int:
    """CRC-32C (Castagnoli) of the data, going on from `crc`."""
    low, high = _crc_tables()
    view = memoryview(data).cast("B")
    crc = ~crc & 0xFFFFFFFF
    words = len(view) >> 2
    for start in range(0, words, 16384):
        for word in struct.unpack_from(f"<{min(16384, words - start)}I", view, start << 2):
            crc ^= word
            crc = low[crc & 0xFFFF] ^ high[crc >> 16]
    for byte in view[words << 2 :]:
        crc = (crc >> 8) ^ high[((crc ^ byte) & 0xFF) << 8]
    return crc ^ 0xFFFFFFFF


def walk(payload: Buffer, count: int, *, consecutive: bool) -> Walked:
    """Check all records: (max timestamp delta, offset delta of it, last offset delta, first null key or -1,
    min timestamp delta).

    `consecutive` demands the offset deltas 0..count-1 of a producer, otherwise they only have to rise.
    """
    view = _view(payload, count)
    end = len(view)
    position = 0
    max_timestamp, offset_of_max, last, null_key, min_timestamp = 0, -1, -1, -1, 0
    for number in range(count):
        offset, timestamp, key_start, _, _, _, _, position = _record(view, position, end, number)
        if consecutive:
            if offset != number:
                raise BadRecord(number, "offset delta is not consecutive")
        elif offset <= last:
            raise BadRecord(number, "offset delta does not rise")
        last = offset
        if timestamp > max_timestamp or number == 0:
            max_timestamp, offset_of_max = timestamp, offset
        if timestamp < min_timestamp or number == 0:
            min_timestamp = timestamp
        if key_start < 0 and null_key < 0:
            null_key = number
    _all_consumed(position, end)
    return max_timestamp, offset_of_max, last, null_key, min_timestamp


def index(payload: Buffer, count: int) -> bytes:
    """Native int64, nine a record: offset delta, timestamp delta, key start and end (-1, -1 for null), value
    start and end, start of the headers, start and end of the record."""
    view = _view(payload, count)
    end = len(view)
    position = 0
    rows = array("q")
    for number in range(count):
        *fields, record_end = _record(view, position, end, number)
        rows.extend((*fields, position, record_end))
        position = record_end
    _all_consumed(position, end)
    return rows.tobytes()


def find_record(
    payload: Buffer, count: int, base_timestamp: int, target: int, from_delta: int = 0
) -> tuple[int, int] | None:
    """The first record at or after `target`: (offset delta, timestamp). Sums wrap, as Java's longs do. Offset deltas
    before `from_delta` do not count."""
    view = _view(payload, count)
    end = len(view)
    position = 0
    for number in range(count):
        offset, delta, _, _, _, _, _, position = _record(view, position, end, number)
        timestamp = signed64(base_timestamp + delta)
        if timestamp >= target and offset >= from_delta:
            return offset, timestamp
    _all_consumed(position, end)
    return None


def outliers(
    payload: Buffer,
    count: int,
    limit: int,
    low: int = 0,
    high: int = 0,
    exempt: int = 0,
    null_keys: bool = False,
) -> tuple[int, list[tuple[int, int]]]:
    """How many records have a timestamp delta outside of low..high (`exempt` is fine), or else a null key;
    and (index, timestamp delta) of the first `limit`, never more than a thousand."""
    view = _view(payload, count)
    end = len(view)
    position = total = 0
    shown: list[tuple[int, int]] = []
    for number in range(count):
        _, delta, key_start, _, _, _, _, position = _record(view, position, end, number)
        if key_start < 0 if null_keys else delta != exempt and not low <= delta <= high:
            total += 1
            if len(shown) < min(limit, OUTLIERS_MAX):
                shown.append((number, delta))
    _all_consumed(position, end)
    return total, shown


def read_header(buffer: Buffer, position: int = 0) -> Header:
    """A batch header's fields in BatchHeader's order. Sizes and magic are plausible, the CRC is unchecked."""
    left = len(buffer) - _from(position)
    # Batches of an old format may be smaller than our header, so the magic comes first.
    if left > _MAGIC_AT and memoryview(buffer)[position + _MAGIC_AT] != _MAGIC:
        raise WrongMagic("The batch's magic is not 2")
    if left < HEADER_BYTES:
        raise CorruptBatch("The buffer ends within a batch header")
    base_offset, length, *fields, count = _HEADER.unpack_from(buffer, position)
    if length < HEADER_BYTES - _LENGTH_PREFIX:
        raise CorruptBatch("The batch is smaller than its header")
    if count < 0 or fields[4] < 0:
        raise CorruptBatch("The batch's record count or last offset delta is negative")
    return (base_offset, length + _LENGTH_PREFIX, *fields, count)


def scan(buffer: Buffer, position: int = 0, limit: int = 1024) -> list[tuple[int, Header]]:
    """Positions and headers of up to `limit` whole batches; stops at a partial one.

    An implausible header is only an error when it comes first: what is good before it is told first.
    """
    headers: list[tuple[int, Header]] = []
    end = len(buffer)
    position = _from(position)
    while len(headers) < limit and position <= end - HEADER_BYTES:
        try:
            header = read_header(buffer, position)
        except CorruptBatch:
            if headers:
                break
            raise
        if header[1] > end - position:
            break
        headers.append((position, header))
        position += header[1]
    return headers


def check(buffer: Buffer, position: int = 0) -> Header:
    """read_header, and the whole batch is there with the CRC it claims."""
    header = read_header(buffer, position)
    if header[1] > len(buffer) - position:
        raise CorruptBatch("The buffer ends within the batch")
    if crc32c(memoryview(buffer)[position + _CRC_START : position + header[1]]) != header[4]:
        raise CorruptBatch("The batch's CRC does not match")
    return header


def validate(buffer: Buffer, position: int = 0, *, consecutive: bool = True) -> tuple[Header, Walked | None]:
    """check and, unless the records are compressed, walk, in one call."""
    header = check(buffer, position)
    if header[5] & _CODEC_MASK:
        return header, None
    payload = memoryview(buffer)[position + HEADER_BYTES : position + header[1]]
    return header, walk(payload, header[12], consecutive=consecutive)


def encode(
    records: Iterable[tuple[Any, ...]], base_offset: int = 0, base_timestamp: int = 0
) -> tuple[bytes, int, int, int]:
    """(payload, count, last offset delta, max timestamp) of tuples (offset, timestamp, key, value, headers).

    Offset -1 is the one after the record before. Of no records: (b"", 0, -1, -1).
    """
    payload = bytearray()
    count, last, max_timestamp = 0, -1, -1
    for count, (offset, timestamp, key, value, headers) in enumerate(tuple(records), 1):
        if not ~_INT64_MAX <= timestamp <= _INT64_MAX:
            raise ValueError("a timestamp does not fit in 64 bits")
        delta = last + 1 if offset == -1 else offset - base_offset
        if not last < delta <= _INT32_MAX or offset > _INT64_MAX:
            raise ValueError("offsets of a batch rise, and span no more than 31 bits")
        last = delta
        body = bytearray(1)  # attributes: none are defined
        body += _varint(signed64(timestamp - base_timestamp))
        body += _varint(delta)
        _put_field(body, key)
        _put_field(body, value)
        pairs = tuple(headers)
        body += _varint(len(pairs))
        for name, content in pairs:
            _put_field(body, str.encode(name))
            _put_field(body, content)
        if len(body) > _INT32_MAX:
            raise ValueError("a record is larger than 2 GiB")
        payload += _varint(len(body))
        payload += body
        max_timestamp = timestamp if count == 1 else max(max_timestamp, timestamp)
    return bytes(payload), count, last, max_timestamp


def murmur2(key: Buffer) -> int:
    """The hash of Java's default partitioner, signed as a Java int."""
    data = bytes(key)
    length = len(data)
    h = 0x9747B28C ^ (length & _UINT32)
    for (k,) in struct.iter_unpack("<I", data[: length & ~3]):
        k = k * _MURMUR_M & _UINT32
        k ^= k >> 24
        h = (h * _MURMUR_M & _UINT32) ^ (k * _MURMUR_M & _UINT32)
    if length & 3:
        h ^= int.from_bytes(data[length & ~3 :], "little")
        h = h * _MURMUR_M & _UINT32
    h ^= h >> 13
    h = h * _MURMUR_M & _UINT32
    h ^= h >> 15
    return h - (1 << 32) if h > _INT32_MAX else h


# One record and its parts. A position that comes back was checked against the end.


def _record(
    view: memoryview, position: int, end: int, number: int
) -> tuple[int, int, int, int, int, int, int, int]:
    """(offset delta, timestamp delta, key start, key end, value start, value end, headers start, end)."""
    try:
        length, position = read_varint(view, position, end, 32)
        if not 0 <= length <= end - position:
            raise _Fault("length is out of bounds")
        end = position + length
        if not length:
            raise _Fault("truncated")
        timestamp, position = read_varint(view, position + 1, end, 64)
        offset, position = read_varint(view, position, end, 32)
        key_start, key_end, position = read_field(view, position, end, "key is out of bounds")
        value_start, value_end, position = read_field(view, position, end, "value is out of bounds")
        if _skip_headers(view, position, end) != end:
            raise _Fault("fields end before the record does")
    except _Fault as fault:
        raise BadRecord(number, str(fault)) from None
    return offset, timestamp, key_start, key_end, value_start, value_end, position, end


def read_varint(view: memoryview, position: int, end: int, bits: int) -> tuple[int, int]:
    """A zigzag varint of at most `bits` bits. Longer forms than needed are fine, as to Java."""
    raw = shift = 0
    while position < end:
        byte = view[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if raw >> bits:
            raise _Fault("varint is too long")
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
        if shift >= bits:
            raise _Fault("varint is too long")
    raise _Fault("truncated")


def read_field(view: memoryview, position: int, end: int, fault: str) -> tuple[int, int, int]:
    """Start and end of a length-prefixed field, and what follows. Any negative length is null, as to Java."""
    length, position = read_varint(view, position, end, 32)
    if length < 0:
        return -1, -1, position
    if length > end - position:
        raise _Fault(fault)
    return position, position + length, position + length


def _skip_headers(view: memoryview, position: int, end: int) -> int:
    count, position = read_varint(view, position, end, 32)
    if count < 0:
        raise _Fault("header count is negative")
    if count > end - position:
        raise _Fault("more headers than bytes")
    for _ in range(count):
        key_start, _, position = read_field(view, position, end, "header key is out of bounds")
        if key_start < 0:
            raise _Fault("header key is null")
        _, _, position = read_field(view, position, end, "header value is out of bounds")
    return position


class _Fault(Exception):
    """The reason of a BadRecord whose number is not known yet."""


def _view(payload: Buffer, count: int) -> memoryview:
    view = memoryview(payload).cast("B")
    if count < 0:
        raise BadRecord(-1, "count is negative")
    if count > len(view) // _RECORD_BYTES_MIN:
        raise BadRecord(-1, "more records than bytes")
    return view


def _all_consumed(position: int, end: int) -> None:
    if position != end:
        raise BadRecord(-1, "bytes after the last record")


def _from(position: int) -> int:
    if position < 0:
        raise ValueError("negative position")
    return position


def _put_field(body: bytearray, content: Buffer | None) -> None:
    if content is None:
        body += b"\x01"  # -1
    else:
        view = memoryview(content)
        body += _varint(view.nbytes)
        body += view


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def signed64(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


@functools.cache
def _crc_tables() -> tuple["array[int]", "array[int]"]:
    """What 16 bits do to the CRC: the lower half of a word (four bytes go by), the upper half (two go by)."""

    def shifted(value: int, bits: int) -> int:
        for _ in range(bits):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        return value

    byte = [shifted(value, 8) for value in range(256)]
    high = array(
        "I",
        (byte[(byte[v & 0xFF] ^ (v >> 8)) & 0xFF] ^ (byte[v & 0xFF] ^ (v >> 8)) >> 8 for v in range(1 << 16)),
    )
    low = array("I", (high[v & 0xFFFF] ^ v >> 16 for v in high))
    return low, high
