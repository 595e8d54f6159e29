"""Taking records out of a log: from its end when the leader has others, from its start by retention."""

from collections.abc import Sequence

from ottla import errors
from ottla.storage.log_state import LogState
from ottla.storage.producers import Producers
from ottla.storage.retention import Expiry
from ottla.storage.retention import expired as expired_of
from ottla.storage.rolling import guarded_roll
from ottla.storage.segment import Segment
from ottla.storage.snapshots import load_producers

# From the end.


def truncate_to(log: LogState, offset: int) -> None:
    """Forget everything from `offset` on (the whole batch, if it is inside of one)."""
    if offset >= log.end_offset:
        _drop_empty_epoch(log, offset)
    elif offset < log.segments[0].base_offset:
        restart_at(log, offset)
    else:
        _cut(log, offset)


def restart_at(log: LogState, offset: int) -> None:
    """Drop all records and start at `offset`: the leader has none of the records here."""
    with log.writing():
        log.chain.restart(offset)
        log.producers = Producers()
        _moved_back_to(log, offset)
        log.log_start_offset = log.high_watermark = offset
        log.durability.point = offset
        log.epochs.clear()
        log.pending.save_epochs()


def _drop_empty_epoch(log: LogState, offset: int) -> None:
    """An epoch that began here without a record is not the next leader's."""
    log.epochs.truncate_from_end(offset)
    with log.writing():
        log.pending.save_epochs()


def _cut(log: LogState, offset: int) -> None:
    with log.writing():
        offset = log.chain.cut(offset)
        _moved_back_to(log, offset)
        log.producers = load_producers(
            log.disk, log.folder, log.segments, offset, at_most=offset, report=lambda _: None
        )
        # The high watermark may be here already, and not move before the next record is committed.
        log.producers.on_high_watermark(log.high_watermark)
        log.epochs.truncate_from_end(offset)
        log.pending.save_epochs()


def _moved_back_to(log: LogState, offset: int) -> None:
    if offset < max(log.recovery_point, log.high_watermark):
        log.pending.on_moved_back(offset)
    if log.chain.has_doomed:
        log.pending.on_renamed()
    log.end_offset = offset
    log.high_watermark = min(log.high_watermark, offset)
    log.durability.on_truncated(offset)


# From the start.


def delete_records_before(log: LogState, offset: int) -> int:
    """DeleteRecords: the log starts here now; retention removes the files. The new start."""
    if offset > log.high_watermark:
        raise errors.OffsetOutOfRange(
            f"Offset {offset} is above the high watermark {log.high_watermark} of {log.folder}"
        )
    _start_at(log, offset)
    return log.log_start_offset


def expired(log: LogState, now_ms: int) -> Expiry:
    """The segments that retention would delete now."""
    return expired_of(
        log.segments,
        log.config,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        end_offset=log.end_offset,
        now_ms=now_ms,
    )


def expire(log: LogState, now_ms: int) -> Expiry:
    """Delete segments that are too old or too much, and forget producers that were silent for long."""
    log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
    expiry = expired(log, now_ms)
    if expiry.doomed:
        if expiry.roll_first:
            guarded_roll(log, log.end_offset, now_ms)
        bases = {segment.base_offset for segment in expiry.doomed}
        delete_segments(log, [segment for segment in log.segments if segment.base_offset in bases])
        _start_at(log, expiry.log_start_offset)
    return expiry


def delete_segments(log: LogState, segments: Sequence[Segment]) -> None:
    """Out of the log at once, by renaming; see `take_doomed`. Never the active one."""
    with log.writing():
        log.chain.delete(segments)
        log.durability.on_names_changed()
    _start_at(log, max(log.log_start_offset, log.segments[0].base_offset))


def take_doomed(log: LogState) -> list[str]:
    """Renamed files, to be unlinked in a thread after file.delete.delay.ms."""
    return log.chain.take_doomed()


def _start_at(log: LogState, offset: int) -> None:
    if offset <= log.log_start_offset:
        return
    log.log_start_offset = offset
    log.producers.on_log_start_offset(offset)
    log.epochs.truncate_from_start(offset)
    with log.writing():
        log.pending.save_epochs()
