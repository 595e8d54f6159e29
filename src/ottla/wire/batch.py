"""Record batches of magic 2: the header, checks, and the few fields a broker rewrites."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ottla import errors
from ottla.ports import Buffer
from ottla.wire import compression, kernel
from ottla.wire.compression import NONE, Scratch
from ottla.wire.corruption import BadRecord, CorruptBatch, WrongMagic

if TYPE_CHECKING:
    from ottla.wire.records import Record

__all__ = [
    "HEADER_BYTES",
    "NONE",
    "BadRecord",
    "BatchHeader",
    "CorruptBatch",
    "Walked",
    "WrongMagic",
    "assemble",
    "build",
    "check",
    "headers",
    "payload",
    "read_header",
    "restamp",
    "stamp",
    "stamp_producer",
    "validate",
]

HEADER_BYTES = kernel.HEADER_BYTES
NO_TIMESTAMP = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_MAGIC = 2
_LENGTH_PREFIX = 12
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_PRODUCER = struct.Struct(">qhi")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_SEQUENCE_MASK = 0x7FFF_FFFF


@dataclass(slots=True)
class BatchHeader:
    base_offset: int
    size: int  # the whole batch in bytes: 12 more than the length it carries
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap to 0 after the largest int32."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)


class Walked(NamedTuple):
    """What a walk over the records found; deltas are to the header's base timestamp and offset."""

    max_timestamp_delta: int
    max_timestamp_offset_delta: int
    last_offset_delta: int
    first_null_key: int  # its index, -1 when every record has a key
    min_timestamp_delta: int


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position. Length and magic are plausible; neither the CRC nor the rest is looked at."""
    return BatchHeader(*kernel.read_header(buffer, position))


def headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; stops at a partial one."""
    while scanned := kernel.scan(buffer, position):
        for at, fields in scanned:
            yield at, BatchHeader(*fields)
        position = at + fields[1]


def check(buffer: Buffer, position: int = 0) -> BatchHeader:
    """read_header, and the whole batch is there with the CRC it claims."""
    return BatchHeader(*kernel.check(buffer, position))


def validate(
    buffer: Buffer,
    position: int = 0,
    *,
    limit: int,
    consecutive: bool = True,
    scratch: Scratch | None = None,
) -> tuple[BatchHeader, Walked, Buffer]:
    """check, then walk the records: what a produced batch needs. Compressed ones may take `limit` bytes.

    The records come back too, as a view of the batch or of the scratch memory.
    """
    fields, walked = kernel.validate(buffer, position, consecutive=consecutive)
    header = BatchHeader(*fields)
    if consecutive and not header.count == header.last_offset_delta + 1 > 0:
        raise errors.InvalidRecord("The batch's record count does not match its last offset delta")
    records = payload(buffer, position, header, limit=limit, scratch=scratch)
    if walked is None:
        walked = kernel.walk(records, header.count, consecutive=consecutive)
    return header, Walked(*walked), records


def payload(
    buffer: Buffer, position: int, header: BatchHeader, *, limit: int, scratch: Scratch | None = None
) -> Buffer:
    """The records of a whole batch: a slice or, where they are compressed, at most `limit` bytes elsewhere."""
    records = memoryview(buffer)[position + HEADER_BYTES : position + header.size]
    if header.codec == NONE:
        return records
    return compression.unpack(header.codec, records, limit=limit, scratch=scratch)


def stamp(batch: bytearray | memoryview, position: int = 0, *, base_offset: int, leader_epoch: int) -> None:
    """What the leader assigns; the CRC does not cover it."""
    _BASE_OFFSET.pack_into(batch, position, base_offset)
    _LEADER_EPOCH.pack_into(batch, position + _LEADER_EPOCH_AT, leader_epoch)


def restamp(
    batch: bytearray | memoryview, position: int = 0, *, max_timestamp: int, log_append_time: bool
) -> None:
    """Rewrite the timestamp type and the max timestamp, and the CRC over them. The batch has been checked."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, position + _ATTRIBUTES_AT)
    attributes = attributes | LOG_APPEND_TIME if log_append_time else attributes & ~LOG_APPEND_TIME
    _ATTRIBUTES.pack_into(batch, position + _ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(batch, position + _MAX_TIMESTAMP_AT, max_timestamp)
    (length,) = _LENGTH.unpack_from(batch, position + _LENGTH_AT)
    _seal(batch, position, length + _LENGTH_PREFIX)


def stamp_producer(
    batch: bytearray | memoryview,
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    transactional: bool | None = None,
) -> None:
    """Who sends it, under which sequence and (unless None) whether in a transaction; and the CRC over that."""
    if transactional is not None:
        (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
        attributes = attributes | TRANSACTIONAL if transactional else attributes & ~TRANSACTIONAL
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _seal(batch, 0, len(batch))


_FIELDS_OF = attrgetter(*BatchHeader.__slots__)


def assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """A batch of this header and payload (compressed as the header says), with its true size and CRC."""
    batch = bytearray(HEADER_BYTES)
    batch += payload
    fields = list(_FIELDS_OF(header))
    fields[1], fields[3], fields[4] = len(batch) - _LENGTH_PREFIX, _MAGIC, 0
    _HEADER.pack_into(batch, 0, *fields)
    _seal(batch, 0, len(batch))
    return batch


def build(
    records: Iterable["Record"],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """A batch of records. Their offsets count from `base_offset` and rise; -1 is the one after the last."""
    rows = records if isinstance(records, Sequence) else tuple(records)
    base_timestamp = rows[0][1] if rows else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    encoded, count, last_offset_delta, max_timestamp = kernel.encode(rows, base_offset, base_timestamp)
    attributes = (
        codec
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (LOG_APPEND_TIME if log_append_time_ms is not None else 0)
        | (DELETE_HORIZON if delete_horizon_ms is not None else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        size=0,
        leader_epoch=leader_epoch,
        magic=_MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(last_offset_delta, 0),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if log_append_time_ms is None else log_append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=count,
    )
    return bytes(assemble(header, compression.compress(codec, encoded, level)))


def _seal(batch: bytearray | memoryview, position: int, size: int) -> None:
    with memoryview(batch) as view:
        crc = kernel.crc32c(view[position + _ATTRIBUTES_AT : position + size])
    _CRC.pack_into(batch, position + _CRC_AT, crc)
