"""Finding offsets by timestamp: time index, then headers, then the records of one batch.

A search goes in short steps: each looks at a bounded number of headers, starts at an offset and says at which one
the next step starts. The log may change between two steps.
"""

from collections.abc import Generator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from ottla.ports import Buffer
from ottla.storage.segment import Segment
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader, check, payload
from ottla.wire.compression import OverLimit, Scratch
from ottla.wire.records import DECOMPRESSED_BYTES_MAX


class Found(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class Bounds(NamedTuple):
    """Only offsets from `start` on and before `end` count."""

    start: int
    end: int


class Candidate(NamedTuple):
    """A batch with a record that is new enough, unless the log starts behind that record."""

    batch: Buffer
    header: BatchHeader


class Step(NamedTuple):
    """What one step came to: a batch to look into, or where to go on, or (neither) the end."""

    candidate: Candidate | None = None
    next_offset: int | None = None
    headers: int = 0  # looked at


class Looks(Protocol):
    """Looks into a batch, which may take long if it is compressed to very little."""

    def __call__(self, *, limit: int = ..., scratch: Scratch | None = None) -> Found | None: ...


class Searched(Protocol):
    """The log, as it is at each step."""

    @property
    def segments(self) -> Sequence[Segment]: ...

    @property
    def log_start_offset(self) -> int: ...


Search = Generator[int | Looks, Found | None, Found | None]
"""Yields how many headers a step has looked at, or a look to take, whose result is sent back."""

HEADERS_PER_STEP = 1_000
SEGMENT_HEADERS = 20  # what a segment counts for: its indexes may have to be loaded
_CHUNK_BYTES = 64 << 10  # read at a time: of large batches only the header is wanted
_LONG_AGO = -(1 << 63)
_HALVINGS_MAX = 64  # of what a timestamp can be


def first_at_or_after(log: Searched, timestamp: int, end_offset: int) -> Search:
    """The first record with this timestamp or a later one, before `end_offset`."""
    next_offset: int | None = log.log_start_offset
    while next_offset is not None:
        bounds = Bounds(log.log_start_offset, end_offset)
        step = _next_candidate(log.segments, timestamp, bounds, next_offset, HEADERS_PER_STEP)
        yield step.headers
        if step.candidate is not None:
            record = yield partial(_look_into, step.candidate, timestamp, bounds)
            if record is not None:
                return record
        next_offset = step.next_offset
    return None


def newest(log: Searched, end_offset: int) -> Search:
    """The first record of the largest timestamp, before `end_offset`."""
    bounds = Bounds(log.log_start_offset, end_offset)
    best_segment = yield from _told_by_segments(log, bounds)
    if best_segment is not None:
        record = yield from _look_at(log, best_segment, bounds)
        if record is not None:
            return record
    # It lies outside of the bounds: look at every header. The log may start inside of the first batch.
    first = yield from _first_with_records(log, bounds)
    if first is None:
        return None
    in_first = yield partial(_newest_in, first, bounds)
    best = unbeaten = _Best(-1, -1) if in_first is None else _Best(in_first.offset, in_first.timestamp)
    next_offset: int | None = first.header.next_offset
    while next_offset is not None:
        best, step = _walk(log.segments, bounds, best, next_offset)
        yield step.headers
        next_offset = step.next_offset
    if best is unbeaten:
        return in_first
    record = yield from _look_at(log, best, bounds)
    return record


def run(search: Search) -> Found | None:
    """All steps at once: for tools and tests."""
    record: Found | None = None
    try:
        step = next(search)
        while True:
            record = None if isinstance(step, int) else step()
            step = search.send(record)
    except StopIteration as stop:
        result: Found | None = stop.value
        return result


class _Best(NamedTuple):
    """The newest batch so far: an offset in it, and its timestamp."""

    offset: int
    timestamp: int


def _first_with_records(log: Searched, bounds: Bounds) -> Generator[int, Found | None, Candidate | None]:
    """Any number of batches that compaction has emptied may come before it."""
    next_offset: int | None = bounds.start
    while next_offset is not None:
        step = _next_candidate(log.segments, _LONG_AGO, bounds, next_offset, HEADERS_PER_STEP)
        if step.candidate is not None:
            return step.candidate
        yield step.headers
        next_offset = step.next_offset
    return None


def _look_at(log: Searched, best: _Best, bounds: Bounds) -> Search:
    candidate = _next_candidate(log.segments, best.timestamp, bounds, best.offset, 1).candidate
    if candidate is None:
        return None
    record = yield partial(_look_into, candidate, best.timestamp, bounds)
    return record


def _told_by_segments(log: Searched, bounds: Bounds) -> Generator[int, Found | None, _Best | None]:
    """The newest batch by what each segment notes of its own."""
    best, next_offset = _Best(-1, -1), bounds.start
    while True:
        within = (
            segment
            for segment in log.segments
            if segment.next_offset > next_offset and segment.base_offset < bounds.end
        )
        part = list(islice(within, HEADERS_PER_STEP // SEGMENT_HEADERS))
        if not part:
            break
        for segment in part:
            if segment.max_timestamp > best.timestamp:
                best = _Best(segment.max_timestamp_offset, segment.max_timestamp)
        next_offset = part[-1].next_offset
        yield len(part) * SEGMENT_HEADERS
    return best if best.timestamp >= 0 and bounds.start <= best.offset < bounds.end else None


def _next_candidate(
    segments: Sequence[Segment], timestamp: int, bounds: Bounds, from_offset: int, headers_max: int
) -> Step:
    """The first batch from an offset on whose newest record has this timestamp or a later one."""
    from_offset = max(from_offset, bounds.start)
    looked_at = 0
    for segment in segments:
        if segment.next_offset <= from_offset:
            continue
        if segment.max_timestamp < timestamp:
            looked_at += SEGMENT_HEADERS
            if looked_at >= headers_max:
                return Step(None, segment.next_offset, looked_at)
            continue
        start = max(segment.base_offset + segment.indexes.time.lookup(timestamp), from_offset)
        for position, header in segment.headers_from(start, _CHUNK_BYTES):
            looked_at += 1
            if header.base_offset >= bounds.end:
                return Step(headers=looked_at)
            if header.max_timestamp >= timestamp and header.count:
                batch = segment.read_at(position, header.size)
                return Step(Candidate(batch, header), header.next_offset, looked_at)
            if looked_at >= headers_max:
                return Step(None, header.next_offset, looked_at)
    return Step(headers=looked_at)


def _look_into(
    candidate: Candidate,
    timestamp: int,
    bounds: Bounds,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    scratch: Scratch | None = None,
) -> Found | None:
    """The first record of the batch with this timestamp or a later one. What was deleted of it does not count."""
    header = candidate.header
    if header.log_append_time:  # all of them have the batch's
        offset = max(header.base_offset, bounds.start)
        return Found(offset, header.max_timestamp, header.leader_epoch) if offset < bounds.end else None
    return _first_in(_records_of(candidate, limit, scratch), header, timestamp, bounds)


def _records_of(candidate: Candidate, limit: int, scratch: Scratch | None) -> Buffer:
    batch, header = candidate
    check(batch)
    return payload(batch, 0, header, limit=limit, scratch=scratch)


def _first_in(records: Buffer, header: BatchHeader, timestamp: int, bounds: Bounds) -> Found | None:
    inside = kernel.find_record(
        records, header.count, header.base_timestamp, timestamp, bounds.start - header.base_offset
    )
    if inside is None:
        return None
    offset, record_timestamp = header.base_offset + inside[0], inside[1]
    return Found(offset, record_timestamp, header.leader_epoch) if offset < bounds.end else None


def _walk(segments: Sequence[Segment], bounds: Bounds, best: _Best, from_offset: int) -> tuple[_Best, Step]:
    """One step over all headers."""
    looked_at = 0
    for segment in segments:
        if segment.next_offset <= from_offset or segment.base_offset >= bounds.end:
            continue
        for _, header in segment.headers_from(max(from_offset, segment.base_offset), _CHUNK_BYTES):
            looked_at += 1
            if header.base_offset >= bounds.end:
                break
            if header.count and header.max_timestamp > best.timestamp:
                best = _Best(header.base_offset, header.max_timestamp)
            if looked_at >= HEADERS_PER_STEP:
                return best, Step(None, header.next_offset, looked_at)
    return best, Step(headers=looked_at)


def _newest_in(
    candidate: Candidate,
    bounds: Bounds,
    *,
    limit: int = DECOMPRESSED_BYTES_MAX,
    scratch: Scratch | None = None,
) -> Found | None:
    """The newest record of a batch whose own maximum may have been deleted: halving what it can be. Raises OverLimit,
    too, where walking the records so many times takes longer than unpacking `limit` bytes once."""
    header = candidate.header
    if header.log_append_time:
        return _look_into(candidate, _LONG_AGO, bounds)
    records = _records_of(candidate, limit, scratch)
    if limit < DECOMPRESSED_BYTES_MAX and len(records) > limit // _HALVINGS_MAX:
        raise OverLimit(f"{len(records)} bytes of records are too much to be walked {_HALVINGS_MAX} times")
    high = header.max_timestamp
    newest = _first_in(records, header, _LONG_AGO, bounds)
    while newest is not None and newest.timestamp < high:
        middle = (newest.timestamp + high + 1) // 2
        newer = _first_in(records, header, middle, bounds)
        if newer is None:
            high = middle - 1
        else:
            newest = newer
    if newest is None or newest.timestamp < 0:
        return None
    return _first_in(records, header, newest.timestamp, bounds)
