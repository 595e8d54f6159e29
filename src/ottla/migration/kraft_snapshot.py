"""Writes snapshots that Apache Kafka reads: header, what the quorum is, the metadata, footer."""

from collections.abc import Iterable

from ottla.migration import kraft_codec
from ottla.migration.kraft_schema import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    KraftRecord,
    KraftVersion,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
)
from ottla.wire import batch as batches
from ottla.wire.records import Record

BATCH_RECORDS = 500
DYNAMIC_QUORUM = 1


def snapshot(
    records: Iterable[tuple[KraftRecord, int]], *, epoch: int, now_ms: int, voters: Voters | None = None
) -> bytes:
    """`records` come with the version to write. Without `voters` it is a bootstrap file."""
    header = SnapshotHeader(last_contained_log_timestamp=now_ms if voters is not None else 0)
    controls: list[tuple[int, KraftRecord]] = [(SNAPSHOT_HEADER, header)]
    if voters is not None:
        controls += [
            (KRAFT_VERSION, KraftVersion(kraft_version=DYNAMIC_QUORUM)),
            (KRAFT_VOTERS, voters),
        ]
    out, offset = bytearray(), 0
    out += _control(controls, offset, epoch, now_ms)
    offset += len(controls)
    pending: list[bytes] = []
    for record, version in records:
        pending.append(kraft_codec.encode(record, version))
        if len(pending) == BATCH_RECORDS:
            out += _metadata(pending, offset, epoch, now_ms)
            offset += len(pending)
            pending = []
    if pending:
        out += _metadata(pending, offset, epoch, now_ms)
        offset += len(pending)
    out += _control([(SNAPSHOT_FOOTER, SnapshotFooter())], offset, epoch, now_ms)
    return bytes(out)


def _control(records: list[tuple[int, KraftRecord]], offset: int, epoch: int, now_ms: int) -> bytes:
    rows = [
        Record(offset + at, now_ms, kraft_codec.control_key(number), kraft_codec.write_control(record))
        for at, (number, record) in enumerate(records)
    ]
    return batches.build(rows, base_offset=offset, leader_epoch=epoch, control=True)


def _metadata(values: list[bytes], offset: int, epoch: int, now_ms: int) -> bytes:
    rows = [Record(offset + at, now_ms, None, value) for at, value in enumerate(values)]
    return batches.build(rows, base_offset=offset, leader_epoch=epoch)
