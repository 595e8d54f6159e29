"""A partition that mirrors another one: takes the source's batches as they are, under the source's offsets.

Compare and append: the sender says where it believes the log ends, and that its batches are all that the source has
from there on. What the log has already is dropped; a log that ends earlier refuses, or the records between would be
missing for ever. Only the leader epoch of a batch is changed: the CRC does not cover it, and it counts this cluster's
leaders.
"""

from ottla import errors
from ottla.ports import Buffer
from ottla.storage.appending import Origin, append, append_replicated
from ottla.storage.log_state import LogState
from ottla.storage.markers import build_marker, build_reset
from ottla.wire import mirror_frame
from ottla.wire.batch import BatchHeader, check, headers, payload, stamp
from ottla.wire.compression import Scratch
from ottla.wire.kernel import walk
from ottla.wire.mirror_frame import MirrorFrame

_ABORTED_BY_PROMOTE = -1  # the coordinator epoch of its markers: any coordinator's is newer


class NotTheMirror(errors.PolicyViolation):
    """Only its link may write to a mirrored topic, and only to such a topic may a link write."""


def check_sender(log: LogState, topic: str, frame: MirrorFrame | None) -> None:
    """Whether what comes next may be written: a link's frame to its own mirror, anything else to any other topic."""
    link, epoch = log.config.mirror_source, log.config.mirror_link_epoch
    if frame is None:
        if link:
            raise NotTheMirror(
                f"{topic} mirrors {link} and takes no other records; ottla mirror promote ends that"
            )
        return
    if not link:
        raise NotTheMirror(f"{topic} mirrors nothing: mirror.source is not set, or it was promoted")
    if frame.link != link:
        raise NotTheMirror(f"{topic} mirrors {link}, not {frame.link}")
    if frame.link_epoch < epoch:
        raise errors.InvalidProducerEpoch(f"{topic}: link epoch {frame.link_epoch} is over, {epoch} counts")
    if frame.link_epoch > epoch:
        raise errors.UnknownLeaderEpoch(f"{topic}: link epoch {frame.link_epoch} is not known here yet")


def validate_batches(batches: Buffer, *, limit: int, scratch: Scratch | None = None) -> None:
    """Every batch is whole and its records can be read; nothing behind them. May take long."""
    end = 0
    for position, header in headers(batches):
        check(batches, position)
        if header.count < 0 or header.last_offset_delta < 0:
            raise errors.InvalidRecord(f"the batch at offset {header.base_offset} counts nothing")
        if header.count:
            records = payload(batches, position, header, limit=limit, scratch=scratch)
            walk(records, header.count, consecutive=False)
        end = position + header.size
    if end != len(batches):
        raise errors.InvalidRecord(f"{len(batches) - end} bytes behind the last batch are not one")


def append_mirrored(log: LogState, frame: MirrorFrame, *, leader_epoch: int, now_ms: int) -> int:
    """Takes what is new of the frame's batches; where the log ends now. Nothing changes if it raises."""
    if frame.action == mirror_frame.PROMOTE:
        return promote(log, leader_epoch=leader_epoch, now_ms=now_ms)
    end = log.end_offset
    if frame.expected_end > end:
        raise errors.OutOfOrderSequenceNumber(
            f"{log.folder}: the mirror expects the log to end at {frame.expected_end}, it ends at {end}: records "
            "between would be missing"
        )
    data = bytearray(frame.batches)
    begin: int | None = None
    for position, header in headers(data):
        if header.next_offset <= end:
            continue
        if begin is None:
            begin = position
            _refuse_straddling(log, header)
        if header.size > log.config.segment_bytes:
            raise errors.RecordListTooLarge
        stamp(data, position, base_offset=header.base_offset, leader_epoch=leader_epoch)
    if begin is not None:
        append_replicated(log, memoryview(data)[begin:], now_ms=now_ms)
    return log.end_offset


def promote(log: LogState, *, leader_epoch: int, now_ms: int) -> int:
    """Ends what the mirror left: aborts open transactions, forgets the source's producers. May be repeated.

    Producer ids are given out by each cluster for itself. A producer of this cluster that has the id, the epoch and
    the next sequence of a mirrored one would be told "duplicate", and its record would be lost.
    """
    producers = log.producers
    for producer_id in list(producers.open_transactions):
        entry = producers.entries[producer_id]
        marker = build_marker(
            producer_id,
            entry.epoch,
            committed=False,
            coordinator_epoch=max(entry.coordinator_epoch, _ABORTED_BY_PROMOTE),
            now_ms=now_ms,
        )
        append(log, marker, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
    if producers.entries:
        append(log, build_reset(now_ms), leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)
    return log.end_offset


def _refuse_straddling(log: LogState, header: BatchHeader) -> None:
    if header.base_offset < log.end_offset:
        raise errors.InvalidRecord(
            f"{log.folder}: the source has a batch from {header.base_offset} to {header.last_offset}, but the log ends "
            f"at {log.end_offset} within it: both sides have diverged"
        )
