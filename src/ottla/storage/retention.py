"""Which segments a log may let go: what lies before its start, what is too much, what is too old."""

from collections.abc import Sequence
from typing import Protocol

from ottla.config.log import LogConfig
from ottla.frozen import frozen


class SegmentAge(Protocol):
    """What retention wants to know about a segment. `largest_timestamp` is the newest record's, or the
    time the file was last modified when no record carries one, as in Kafka."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...


@frozen
class Doomed:
    """A segment to delete, and why: one line for the log."""

    base_offset: int
    next_offset: int
    reason: str


@frozen
class Expiry:
    """What to delete, oldest first. `roll_first` when that is all there is: a log has an active segment."""

    doomed: tuple[Doomed, ...] = ()
    log_start_offset: int = 0
    roll_first: bool = False


def expired(
    segments: Sequence[SegmentAge],
    config: LogConfig,
    *,
    log_start_offset: int,
    high_watermark: int,
    end_offset: int,
    now_ms: int,
) -> Expiry:
    """Segments in order, the active one last. Nothing at or above the high watermark ever goes.

    The active segment goes as well once all of it is due: a silent topic empties itself.
    """
    bases = [segment.base_offset for segment in segments]
    ends = [*bases[1:], end_offset]
    reasons = _before_log_start(ends, log_start_offset)
    if config.delete:
        reasons += _too_much(segments[len(reasons) :], config.retention_bytes)
        reasons += _too_old(segments[len(reasons) :], config.retention_ms, now_ms)
    deletable = _below_high_watermark(segments, ends, high_watermark)
    doomed = tuple(
        Doomed(base, end, reason) for base, end, reason in zip(bases[:deletable], ends, reasons, strict=False)
    )
    if not doomed:
        return Expiry(log_start_offset=log_start_offset)
    return Expiry(
        doomed, max(log_start_offset, doomed[-1].next_offset), roll_first=len(doomed) == len(segments)
    )


def _before_log_start(ends: Sequence[int], log_start_offset: int) -> list[str]:
    reasons = []
    for end in ends[:-1]:  # the active segment stays, whatever was deleted of it
        if end > log_start_offset:
            break
        reasons.append(f"it ends before the log start offset {log_start_offset}")
    return reasons


def _too_much(segments: Sequence[SegmentAge], retention_bytes: int) -> list[str]:
    """Delete while what stays is still at least `retention.bytes`."""
    total = sum(segment.size_bytes for segment in segments)
    reasons: list[str] = []
    if retention_bytes < 0:
        return reasons
    surplus = total - retention_bytes
    for segment in segments:
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        reasons.append(f"the log has {total} bytes, retention.bytes is {retention_bytes}")
    return reasons


def _too_old(segments: Sequence[SegmentAge], retention_ms: int, now_ms: int) -> list[str]:
    reasons: list[str] = []
    if retention_ms < 0:
        return reasons
    for segment in segments:
        age_ms = now_ms - segment.largest_timestamp
        if age_ms <= retention_ms:
            break
        reasons.append(f"its newest record is {age_ms} ms old, retention.ms is {retention_ms}")
    return reasons


def _below_high_watermark(segments: Sequence[SegmentAge], ends: Sequence[int], high_watermark: int) -> int:
    """How many segments from the start may go at all. An empty active segment is kept: nothing is gained."""
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        if end > high_watermark or (count == len(segments) - 1 and segment.size_bytes == 0):
            break
        count += 1
    return count
