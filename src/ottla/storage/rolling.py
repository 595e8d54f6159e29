"""Closing a log's active segment and starting the next one."""

from ottla.storage.files import SEGMENT_KINDS
from ottla.storage.log_state import LogState
from ottla.storage.segment import Segment, segment_ms
from ottla.storage.snapshots import write_snapshot


def roll_if_due(log: LogState, now_ms: int) -> bool:
    """A segment that nobody appends to any more is closed too, so that compaction gets at it."""
    segment = log.chain.active
    if segment.size_bytes and now_ms - segment.created_ms > segment_ms(log.config, segment.base_offset):
        guarded_roll(log, log.end_offset, now_ms)
        return True
    return False


def guarded_roll(log: LogState, base_offset: int, now_ms: int) -> None:
    with log.reading():  # a roll that fails on a full disk leaves the log as it was
        roll(log, base_offset, now_ms)


def roll(log: LogState, base_offset: int, now_ms: int) -> Segment:
    """Close the active segment, with a snapshot of the producers at the start of the next one."""
    active = log.chain.active
    if not active.size_bytes and active.base_offset == base_offset:
        return active
    log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
    snapshot = write_snapshot(log.disk, log.folder, base_offset, log.producers)
    closed = log.chain.roll(base_offset, now_ms)
    log.durability.on_written([snapshot, *(closed.path(kind) for kind in SEGMENT_KINDS)])
    return log.chain.active
