"""Finding offsets by timestamp: time index, then headers, then the records of one batch."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.storage.segment import Segment
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader, check, payload
from ottla.wire.records import DECOMPRESSED_BYTES_MAX


class Found(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp: int, *, log_start_offset: int, end_offset: int
) -> Found | None:
    """The first record with this timestamp or a later one, between the two offsets."""
    for segment in segments:
        if segment.next_offset <= log_start_offset or segment.max_timestamp < timestamp:
            continue
        start = max(segment.base_offset + segment.indexes.time.lookup(timestamp), log_start_offset)
        for position, header in segment.headers_from(start):
            if header.base_offset >= end_offset:
                return None
            if header.max_timestamp >= timestamp and header.count:
                found = _in_batch(segment, position, header, timestamp, log_start_offset)
                if found is not None:
                    return found if found.offset < end_offset else None
    return None


def newest(segments: Sequence[Segment], *, log_start_offset: int, end_offset: int) -> Found | None:
    """The first record of the largest timestamp."""
    largest = max(
        (each.max_timestamp for each in segments if each.next_offset > log_start_offset), default=-1
    )
    if largest < 0:
        return None
    found = first_at_or_after(segments, largest, log_start_offset=log_start_offset, end_offset=end_offset)
    if found is None:  # it lies outside of the two offsets: look at every batch
        found = _newest_by_walk(segments, log_start_offset, end_offset)
    return found


def _in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, log_start_offset: int
) -> Found | None:
    if header.log_append_time:  # all of them have the batch's
        return Found(max(header.base_offset, log_start_offset), header.max_timestamp, header.leader_epoch)
    batch = segment.read_at(position, header.size)
    check(batch)
    records = payload(batch, 0, header, limit=DECOMPRESSED_BYTES_MAX)
    if header.base_offset < log_start_offset:
        return _behind_log_start(records, header, timestamp, log_start_offset)
    found = kernel.find_timestamp(records, header.count, header.base_timestamp, timestamp)
    if found is None:
        return None
    return Found(header.base_offset + found[0], found[1], header.leader_epoch)


def _behind_log_start(
    records: bytes | bytearray | memoryview, header: BatchHeader, timestamp: int, log_start_offset: int
) -> Found | None:
    """The log starts inside of this batch: what was deleted of it does not count."""
    rows = memoryview(kernel.index(records, header.count)).cast("q")
    for row in range(0, len(rows), kernel.INDEX_FIELDS):
        offset, found = header.base_offset + rows[row], header.base_timestamp + rows[row + 1]
        if offset >= log_start_offset and found >= timestamp:
            return Found(offset, found, header.leader_epoch)
    return None


def _newest_by_walk(segments: Sequence[Segment], log_start_offset: int, end_offset: int) -> Found | None:
    best: Found | None = None
    for segment in segments:
        if segment.next_offset <= log_start_offset or segment.base_offset >= end_offset:
            continue
        for position, header in segment.headers_from(max(log_start_offset, segment.base_offset)):
            if header.base_offset >= end_offset:
                break
            if header.count and (best is None or header.max_timestamp > best.timestamp):
                found = _in_batch(segment, position, header, header.max_timestamp, log_start_offset)
                best = found if found is not None and found.offset < end_offset else best
    return best
