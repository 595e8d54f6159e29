"""Control records that end a transaction: Kafka's bytes for commit and abort."""

import struct
from typing import NamedTuple

from ottla.ports import Buffer
from ottla.wire.batch import build
from ottla.wire.records import Record, read

_KEY = struct.Struct(">hh")  # version, type
_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_VERSION = 0
_ABORT, _COMMIT = 0, 1
# Our own kind, which Kafka's clients and tools pass over as unknown: from here on no producer is known.
RESET = 0x6D72


class Marker(NamedTuple):
    committed: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, committed: bool, coordinator_epoch: int, now_ms: int
) -> bytes:
    record = Record(
        0,
        now_ms,
        _KEY.pack(_VERSION, _COMMIT if committed else _ABORT),
        _VALUE.pack(_VERSION, coordinator_epoch),
    )
    return build(
        [record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True
    )


def build_reset(now_ms: int) -> bytes:
    """What a promoted mirror leaves in the log, so that replicas and restarts forget the source's producers too."""
    record = Record(0, now_ms, _KEY.pack(_VERSION, RESET), _VALUE.pack(_VERSION, 0))
    return build([record], control=True)


def is_reset(batch: Buffer) -> bool:
    return any(
        record.key is not None and len(record.key) >= 4 and _KEY.unpack_from(record.key)[1] == RESET
        for record in read(batch)
    )


def read_marker(batch: Buffer) -> Marker | None:
    """None for control records of another kind (and for a batch that compaction emptied)."""
    for record in read(batch):
        if record.key is None or record.value is None or len(record.key) < 4 or len(record.value) < 6:
            continue
        _, kind = _KEY.unpack_from(record.key)
        if kind in (_ABORT, _COMMIT):
            return Marker(kind == _COMMIT, _VALUE.unpack_from(record.value)[1])
    return None
