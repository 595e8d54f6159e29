"""Reading whole batches from a segment: sparse index, then headers; one bounded read where that is enough.

And where batches stand, for callers that only want to know how many bytes there are.
"""

import struct
from typing import NamedTuple

from ottla.ports import Buffer
from ottla.storage.segment import Segment
from ottla.wire.batch import HEADER_BYTES, CorruptBatch

# Base offset, length, then (behind epoch, magic, CRC and attributes) the last offset delta.
_EXTENT = struct.Struct(">qi11xi")
_LENGTH_STARTS_AT = 12
_LENGTH_MIN = HEADER_BYTES - _LENGTH_STARTS_AT
_SEARCH_BYTES = 8 << 10  # read besides what is asked for, as the index leads only near to the first batch
_WALK_BYTES = 64 << 10


class Slice(NamedTuple):
    """Whole batches. `next_offset` is where to read on."""

    data: Buffer
    next_offset: int


class Place(NamedTuple):
    """Where a batch starts, or where the next one will."""

    segment: Segment
    position: int


class _Buffered(NamedTuple):
    """A batch in a buffer, and where in the file that buffer was read."""

    buffer: Buffer
    position: int
    start: int


def read_batches(
    segment: Segment, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool
) -> Slice | None:
    """From the batch that holds `offset`, or the next one, on; below `up_to`. None when there is none."""
    place = _find(segment, offset, max_bytes)
    if place is None:
        return None
    base_offset, length, delta = _EXTENT.unpack_from(place.buffer, place.start)
    first_bytes = length + _LENGTH_STARTS_AT
    if base_offset >= up_to or (first_bytes > max_bytes and not at_least_one):
        return Slice(b"", offset)
    max_bytes = max(max_bytes, first_bytes)
    buffer, position, start = place
    if start + max_bytes > len(buffer) and position + len(buffer) < segment.size_bytes:
        buffer, position, start = segment.read_records(position + start, max_bytes), position + start, 0
    end, next_offset = _cut(segment, _Buffered(buffer, position, start), max_bytes, up_to)
    if end == start:  # the first one alone, which the walk found too large
        end, next_offset = start + first_bytes, base_offset + delta + 1
    segment.hint = (next_offset, position + end)
    if start == 0 and end == len(buffer):
        return Slice(buffer, next_offset)
    return Slice(memoryview(buffer)[start:end], next_offset)


def position_of(segment: Segment, offset: int) -> int:
    """Where the batch that holds `offset`, or the next one, starts; the end of the file behind the last one.

    Reads at most a few headers, and none at either end of the segment or where it was asked last."""
    if offset >= segment.next_offset:
        return segment.size_bytes
    if offset <= segment.base_offset:
        return 0
    for known_offset, position in (segment.mark, segment.hint):
        if known_offset == offset:
            return position
    place = _find(segment, offset, 0)
    position = place.position + place.start if place is not None else segment.size_bytes
    segment.mark = (offset, position)
    return position


def _find(segment: Segment, offset: int, max_bytes: int) -> _Buffered | None:
    """The first batch that ends at or behind `offset`."""
    known_offset, position = segment.hint
    if known_offset != offset:
        position = segment.indexes.offset.lookup(offset - segment.base_offset)
        max_bytes += _SEARCH_BYTES
    buffer = segment.read_records(position, min(max_bytes, segment.size_bytes - position))
    at, unpack = 0, _EXTENT.unpack_from
    while True:
        if at + HEADER_BYTES > len(buffer):
            position += at
            if position + HEADER_BYTES > segment.size_bytes:
                return None
            buffer, at = segment.read_at(position, _WALK_BYTES), 0
            if len(buffer) < HEADER_BYTES:
                return None
        base_offset, length, delta = unpack(buffer, at)
        if length < _LENGTH_MIN:
            raise CorruptBatch(f"The batch at position {position + at} is smaller than its header")
        if base_offset + delta >= offset:
            return _Buffered(buffer, position, at)
        at += length + _LENGTH_STARTS_AT


def _cut(segment: Segment, place: _Buffered, max_bytes: int, up_to: int) -> tuple[int, int]:
    """Where in the buffer the last whole batch within the bounds ends, and the offset behind it."""
    buffer, position, start = place
    limit = min(start + max_bytes, len(buffer))
    if position + limit == segment.size_bytes and up_to >= segment.next_offset:
        return limit, segment.next_offset
    # The index knows a start of a batch that is surely within the bounds; from there it is a short walk.
    index = segment.indexes.offset
    known = index.position_at_most(position + limit)
    if up_to < segment.next_offset:
        known = min(known, index.lookup(up_to - 1 - segment.base_offset))
    at, next_offset = max(start, known - position), -1
    while at + HEADER_BYTES <= limit:
        base_offset, length, delta = _EXTENT.unpack_from(buffer, at)
        if length < _LENGTH_MIN:
            break  # damaged: what stands before it is given, and reading on from there says so
        if at + length + _LENGTH_STARTS_AT > limit or base_offset >= up_to:
            next_offset = base_offset
            break
        at += length + _LENGTH_STARTS_AT
        next_offset = base_offset + delta + 1
    if next_offset < 0 and at != start:
        (next_offset, _, _) = _EXTENT.unpack_from(segment.read_at(position + at, HEADER_BYTES))
    return at, next_offset
