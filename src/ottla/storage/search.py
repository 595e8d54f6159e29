"""Finding offsets by timestamp: time index, then headers, then the records of one batch.

A search goes in short steps: each looks at a bounded number of headers, starts at an offset and says at which one
the next step starts. The log may change between two steps.
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from ottla.ports import Buffer
from ottla.storage.segment import Segment
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader, check, payload
from ottla.wire.compression import Scratch
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
_CHUNK_BYTES = 64 << 10  # read at a time: of large batches only the header is wanted
_LONG_AGO = -(1 << 63)


def first_at_or_after(log: Searched, timestamp: int, end_offset: int) -> Search:
    """The first record with this timestamp or a later one, before `end_offset`."""
    next_offset: int | None = log.log_start_offset
    while next_offset is not None:
        bounds = Bounds(log.log_start_offset, end_offset)
        step = _next_candidate(log.segments, timestamp, bounds, next_offset, HEADERS_PER_STEP)
        yield step.headers
        if step.candidate is not None:
            found = yield partial(_look_into, step.candidate, timestamp, bounds)
            if found is not None:
                return found
        next_offset = step.next_offset
    return None


def newest(log: Searched, end_offset: int) -> Search:
    """The first record of the largest timestamp, before `end_offset`."""
    bounds = Bounds(log.log_start_offset, end_offset)
    told = _told_by_segments(log.segments, bounds)
    if told is not None:
        found = yield from _look_at(log, told, bounds)
        if found is not None:
            return found
    # It lies outside of the bounds: look at every header. The log may start inside of the first batch.
    first = _next_candidate(log.segments, _LONG_AGO, bounds, bounds.start, HEADERS_PER_STEP).candidate
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
    found = yield from _look_at(log, best, bounds)
    return found


def run(search: Search) -> Found | None:
    """All steps at once: for tools and tests."""
    found: Found | None = None
    try:
        step = next(search)
        while True:
            found = None if isinstance(step, int) else step()
            step = search.send(found)
    except StopIteration as stop:
        result: Found | None = stop.value
        return result


class _Best(NamedTuple):
    """The newest batch so far: an offset in it, and its timestamp."""

    offset: int
    timestamp: int


def _look_at(log: Searched, best: _Best, bounds: Bounds) -> Search:
    candidate = _next_candidate(log.segments, best.timestamp, bounds, best.offset, 1).candidate
    if candidate is None:
        return None
    found = yield partial(_look_into, candidate, best.timestamp, bounds)
    return found


def _told_by_segments(segments: Sequence[Segment], bounds: Bounds) -> _Best | None:
    """Each segment knows its newest batch."""
    newest_segment = max(
        (each for each in segments if each.next_offset > bounds.start and each.base_offset < bounds.end),
        key=lambda each: each.max_timestamp,
        default=None,
    )
    if newest_segment is None or newest_segment.max_timestamp < 0:
        return None
    offset = newest_segment.max_timestamp_offset
    return _Best(offset, newest_segment.max_timestamp) if bounds.start <= offset < bounds.end else None


def _next_candidate(
    segments: Sequence[Segment], timestamp: int, bounds: Bounds, from_offset: int, headers_max: int
) -> Step:
    """The first batch from an offset on whose newest record has this timestamp or a later one."""
    from_offset = max(from_offset, bounds.start)
    looked_at = 0
    for segment in segments:
        if segment.next_offset <= from_offset or segment.max_timestamp < timestamp:
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
    batch, header = candidate
    if header.log_append_time:  # all of them have the batch's
        offset, found = max(header.base_offset, bounds.start), header.max_timestamp
    else:
        check(batch)
        records = payload(batch, 0, header, limit=limit, scratch=scratch)
        inside = kernel.find_record(
            records, header.count, header.base_timestamp, timestamp, bounds.start - header.base_offset
        )
        if inside is None:
            return None
        offset, found = header.base_offset + inside[0], inside[1]
    return Found(offset, found, header.leader_epoch) if offset < bounds.end else None


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
    """The newest record of a batch whose own maximum may have been deleted: halving what it can be."""
    low, high = _LONG_AGO, candidate.header.max_timestamp
    found = _look_into(candidate, low, bounds, limit=limit, scratch=scratch)
    while found is not None and found.timestamp < high:
        middle = (found.timestamp + high + 1) // 2
        newer = _look_into(candidate, middle, bounds, limit=limit, scratch=scratch)
        if newer is None:
            high = middle - 1
        else:
            found = newer
    if found is None or found.timestamp < 0:
        return None
    return _look_into(candidate, found.timestamp, bounds, limit=limit, scratch=scratch)
