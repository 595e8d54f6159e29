"""Appending to a log, as the leader of its partition or as a follower."""

import enum
import struct
from typing import NamedTuple, NoReturn

from ottla import errors
from ottla.ports import Buffer
from ottla.storage.log_state import LogState
from ottla.storage.markers import build_marker, read_marker
from ottla.storage.rolling import guarded_roll, roll
from ottla.storage.segment import Segment
from ottla.storage.shortage import is_shortage
from ottla.storage.snapshots import apply_batch, concerns_producers
from ottla.storage.validation import Accepted, accept
from ottla.wire.batch import BatchHeader, CorruptBatch, check

_STAMP = struct.Struct(">qii")  # base offset, length, leader epoch: the bytes before the magic
_STAMP_BYTES = _STAMP.size
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_LENGTH_STARTS_AT = 12
_NO_TIMESTAMP = -1


class Origin(enum.Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"  # may write control batches, and batches without a sequence


class Appended(NamedTuple):
    base_offset: int
    next_offset: int
    log_append_time_ms: int  # -1 unless the topic stamps records
    duplicate: bool


def begin_epoch(log: LogState, leader_epoch: int) -> None:
    """This broker leads from here on: the epoch is known even before it has records. The first record writes it
    to disk: thousands of logs may begin an epoch at the same time."""
    if leader_epoch > log.epochs.latest:
        log.epochs.assign(leader_epoch, log.end_offset)
        log.pending.on_epoch_begun()


# As the leader.


def append(
    log: LogState,
    batch: Buffer | Accepted,
    *,
    leader_epoch: int,
    now_ms: int,
    origin: Origin = Origin.CLIENT,
) -> Appended:
    """As the leader: check, validate, check the sequence, stamp, write. Nothing changes if it raises.

    A client's batch may have been accepted before, at another `now_ms`: that time counts."""
    if isinstance(batch, Accepted):
        return _append_accepted(log, batch, leader_epoch)
    if origin is Origin.CLIENT:
        return _append_accepted(log, accept(batch, log.config, now_ms), leader_epoch)
    header = check(batch)
    _check_own(log, header, batch)
    return _append(log, header, batch, leader_epoch, now_ms)


def append_marker(
    log: LogState,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    coordinator_epoch: int,
    *,
    leader_epoch: int,
    now_ms: int,
    transaction_version: int = 0,
) -> Appended:
    """End a transaction; INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED when too late."""
    log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
    batch = build_marker(
        producer_id, producer_epoch, committed=committed, coordinator_epoch=coordinator_epoch, now_ms=now_ms
    )
    return append(log, batch, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)


def _append_accepted(log: LogState, accepted: Accepted, leader_epoch: int) -> Appended:
    header = accepted.header
    if header.producer_id >= 0:
        earlier = log.producers.check(header)
        if earlier is not None:
            return Appended(earlier.first_offset, earlier.last_offset + 1, earlier.timestamp, True)
    return _append(log, header, accepted.batch, leader_epoch, accepted.now_ms)


def _check_own(log: LogState, header: BatchHeader, batch: Buffer) -> None:
    """A coordinator's batch is well formed, but a newer epoch may have fenced it."""
    if header.size != len(batch):
        raise errors.InvalidRecord("A partition takes exactly one record batch at a time")
    if header.size > log.config.segment_bytes:
        raise errors.RecordListTooLarge
    if header.producer_id < 0:
        return
    marker = read_marker(batch) if header.is_control else None
    if marker is not None:
        log.producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
    else:
        log.producers.check_epoch(header)


def _append(log: LogState, header: BatchHeader, batch: Buffer, leader_epoch: int, now_ms: int) -> Appended:
    if log.failed is not None:
        log.refuse()
    base_offset = log.end_offset
    last_offset = base_offset + header.last_offset_delta
    header.base_offset = base_offset
    size, max_timestamp, config = header.size, header.max_timestamp, log.config
    segment = log.chain.active
    try:
        if log.pending.due:
            log.pending.write(log.topic_id)
        if segment.should_roll(size, last_offset, max_timestamp, config, now_ms):
            segment = roll(log, base_offset, now_ms)
        if leader_epoch != log.epochs.latest:
            _assign_epoch(log, leader_epoch, base_offset)
        stamp = _STAMP.pack(base_offset, size - _LENGTH_STARTS_AT, leader_epoch)
        records = memoryview(batch)[_STAMP_BYTES:]
        segment.append((stamp, records), size, last_offset, max_timestamp, config.index_interval_bytes)
    except OSError as error:
        _on_write_error(log, segment, error)
    if concerns_producers(header):
        log.producers.now_ms = now_ms
        apply_batch(log.producers, segment, header, batch)
    log.end_offset = next_offset = last_offset + 1
    log.durability.on_append(now_ms)
    return Appended(base_offset, next_offset, now_ms if header.log_append_time else _NO_TIMESTAMP, False)


# As a follower.


def append_replicated(log: LogState, data: Buffer, *, now_ms: int) -> int:
    """As a follower: the leader's batches as they are. The new end offset."""
    view = memoryview(data)
    run: list[BatchHeader] = []
    start = position = 0
    next_offset = log.end_offset
    while position + _LENGTH_STARTS_AT <= len(view):
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_AT)
        if position + _LENGTH_STARTS_AT + length > len(view) and run:
            break  # the leader's answer was cut off here
        header = check(view, position)
        if header.base_offset < next_offset:
            raise CorruptBatch(f"Offset {header.base_offset} was fetched where {next_offset} was due")
        if log.chain.active.should_roll(
            position + header.size - start, header.last_offset, header.max_timestamp, log.config, now_ms
        ):
            _append_run(log, view[start:position], run, now_ms)
            run, start = [], position
            guarded_roll(log, header.base_offset, now_ms)
        run.append(header)
        position += header.size
        next_offset = header.next_offset
    _append_run(log, view[start:position], run, now_ms)
    return log.end_offset


def _append_run(log: LogState, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
    """Batches that go into one segment, with one write."""
    if not run:
        return
    if log.failed is not None:
        log.refuse()
    segment = log.chain.active
    try:
        if log.pending.due:
            log.pending.write(log.topic_id)
        for header in run:
            if header.leader_epoch > log.epochs.latest:
                _assign_epoch(log, header.leader_epoch, header.base_offset)
        segment.append_many(data, run, log.config.index_interval_bytes)
    except OSError as error:
        _on_write_error(log, segment, error)
    log.producers.now_ms = now_ms
    _apply_run(log, segment, data, run)
    log.end_offset = run[-1].next_offset
    log.durability.on_append(now_ms)


def _apply_run(log: LogState, segment: Segment, data: memoryview, run: list[BatchHeader]) -> None:
    position = 0
    for header in run:
        if concerns_producers(header):
            batch = data[position : position + header.size] if header.is_control else b""
            apply_batch(log.producers, segment, header, batch)
        position += header.size


# Both.


def _assign_epoch(log: LogState, epoch: int, start_offset: int) -> None:
    log.epochs.assign(epoch, start_offset)
    log.pending.save_epochs()


def _on_write_error(log: LogState, segment: Segment, error: OSError) -> NoReturn:
    """Cut back what was half written. A full disk may have room again; after any other error, or if the cut fails
    too, the log takes no more records."""
    try:
        segment.cut_back()
    except OSError:
        log.fail(error)
    if not is_shortage(error):
        log.fail(error)
    log.refuse(error)
