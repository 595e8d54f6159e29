"""How dirty a log is, and which log is due for compaction next."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ottla.config.log import LogConfig
from ottla.frozen import frozen
from ottla.ports import Disk
from ottla.storage.files import LOG, file_name
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.producers import ProducerEntry
from ottla.storage.swap import Swap
from ottla.wire import batch as batches


class ClosedSegment(Protocol):
    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...


class CompactableLog(Protocol):
    """What compaction asks of a log."""

    @property
    def disk(self) -> Disk: ...
    @property
    def folder(self) -> str: ...
    @property
    def config(self) -> LogConfig: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int:
        """Never above the high watermark."""
        ...

    @property
    def producer_entries(self) -> Mapping[int, ProducerEntry]: ...

    def closed_segments(self) -> Sequence[ClosedSegment]:
        """In order; the active one is not among them."""
        ...

    @property
    def active_base_offset(self) -> int: ...

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]: ...

    def swap_in(self, swap: Swap, size_bytes: Mapping[int, int]) -> bool:
        """Let go of the old segments' files, `swap.switch()`, take up the new segment. False, with nothing
        done, when one of the old segments is gone or is not of the size given."""
        ...


@frozen
class Cleanable:
    """How dirty a log is, and between which offsets."""

    log: CompactableLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        if self.is_overdue and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


def assess(log: CompactableLog, last_clean_offset: int | None, now_ms: int) -> Cleanable:
    """`last_clean_offset` comes from the cleaner's checkpoint; one outside of the log counts for nothing."""
    dirty = log.log_start_offset if last_clean_offset is None else last_clean_offset
    if not log.log_start_offset <= dirty <= log.end_offset:
        dirty = log.log_start_offset
    segments = log.closed_segments()
    bound = min(log.last_stable_offset, log.active_base_offset)
    if log.config.min_compaction_lag_ms > 0:  # looking at timestamps may load indexes
        young = _first_within_lag(segments, dirty, now_ms - log.config.min_compaction_lag_ms)
        bound = bound if young is None else min(bound, young)
    uncleanable = _segment_start(segments, max(bound, dirty), log.active_base_offset)
    dirty_from = _segment_start(segments, min(dirty, uncleanable), log.active_base_offset)
    sizes = [(segment.base_offset, segment.size_bytes) for segment in segments]
    return Cleanable(
        log,
        dirty,
        uncleanable,
        sum(size for base, size in sizes if base < dirty),
        sum(size for base, size in sizes if dirty_from <= base < uncleanable),
        _is_overdue(log, segments, dirty, now_ms),
    )


def filthiest(candidates: Iterable[Cleanable]) -> Cleanable | None:
    """The log to clean next."""
    due = [candidate for candidate in candidates if candidate.log.config.compact and candidate.is_due]
    return max(due, key=lambda candidate: candidate.ratio, default=None)


def _first_within_lag(segments: Sequence[ClosedSegment], dirty: int, before_ms: int) -> int | None:
    """The start of the first dirty segment with a record that is too young."""
    start = _segment_start(segments, dirty, dirty + 1)
    for segment in segments:
        if segment.base_offset >= start and segment.largest_timestamp > before_ms:
            return segment.base_offset
    return None


def _segment_start(segments: Sequence[ClosedSegment], offset: int, active_base_offset: int) -> int:
    """The base offset of the segment that holds the offset; cleaning takes whole segments."""
    if offset >= active_base_offset:
        return active_base_offset
    first = segments[0].base_offset if segments else active_base_offset
    return max((segment.base_offset for segment in segments if segment.base_offset <= offset), default=first)


def _is_overdue(log: CompactableLog, segments: Sequence[ClosedSegment], dirty: int, now_ms: int) -> bool:
    """Does a dirty segment start with a record older than `max.compaction.lag.ms`?"""
    limit = now_ms - max(log.config.max_compaction_lag_ms, 0)
    if limit <= 0:
        return False
    start = _segment_start(segments, dirty, log.active_base_offset)
    firsts = [_first_timestamp(log, segment) for segment in segments if segment.base_offset >= start]
    return any(0 < first < limit for first in firsts)


def _first_timestamp(log: CompactableLog, segment: ClosedSegment) -> int:
    if not segment.size_bytes:
        return -1
    file = log.disk.open(f"{log.folder}/{file_name(segment.base_offset, LOG)}")
    try:
        return batches.read_header(file.read(0, batches.HEADER_BYTES)).max_timestamp
    finally:
        file.close()
