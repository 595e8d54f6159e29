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


def read_marker(batch: Buffer) -> Marker | None:
    """None for control records of another kind (and for a batch that compaction emptied)."""
    for record in read(batch):
        if record.key is None or record.value is None or len(record.key) < 4 or len(record.value) < 6:
            continue
        _, kind = _KEY.unpack_from(record.key)
        if kind in (_ABORT, _COMMIT):
            return Marker(kind == _COMMIT, _VALUE.unpack_from(record.value)[1])
    return None
