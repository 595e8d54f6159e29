"""What a leader asks of a batch before it takes it, and what it changes in it."""

import struct
from collections.abc import Callable
from typing import NamedTuple

from ottla import errors
from ottla.config.log import LogConfig
from ottla.ports import Buffer
from ottla.wire import compression, kernel
from ottla.wire.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    BadRecord,
    BatchHeader,
    CorruptBatch,
    Walked,
    assemble,
    read_header,
    restamp,
    validate,
)
from ottla.wire.compression import Scratch
from ottla.wire.corruption import WrongMagic

NO_TIMESTAMP = -1
MAGIC = 2
RECORD_ERRORS_MAX = 100  # listed in the answer for one batch
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_LENGTH = struct.Struct(">i")
_LENGTH_AT, _MAGIC_AT, _ATTRIBUTES_AT, _COUNT_AT = 8, 16, 22, 57
_CODECS = {"uncompressed": compression.NONE, **{name: at for at, name in enumerate(compression.NAMES)}}


Check = Callable[[Buffer, int], None]
"""More that is asked of the records of a batch, uncompressed, and their count. Raises RejectedRecords."""


class RecordError(NamedTuple):
    batch_index: int
    message: str


class RejectedRecords(errors.InvalidRecord):
    """Some records are refused, so the whole batch is; the response names them."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class RejectedTimestamps(errors.InvalidTimestamp):
    """Some records are too old or too far ahead of the broker's clock."""

    def __init__(self, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class Accepted(NamedTuple):
    """A client's batch, checked and made what the topic wants."""

    header: BatchHeader
    batch: Buffer
    now_ms: int  # the time it was checked against and may be stamped with
    unpacked_bytes: int  # of compressed records: what they took


def accept(
    batch: Buffer,
    config: LogConfig,
    now_ms: int,
    *,
    limit: int | None = None,
    scratch: Scratch | None = None,
    check: Check | None = None,
) -> Accepted:
    """Check the batch, and change what the topic wants changed. `limit` is for compressed records."""
    size = len(batch)
    if size > config.max_message_bytes or size > config.segment_bytes:
        _check_size(batch, config)
    try:
        header, walked, records = validate(
            batch, limit=unpacked_bytes_max(config) if limit is None else limit, scratch=scratch
        )
    except BadRecord as error:
        raise RejectedRecords(error.message, (RecordError(error.index, error.reason),)) from error
    except errors.CorruptMessage as error:
        raise _as_kafka_says(batch, error) from None
    if header.size != size:
        batch = _without_trailing_bytes(batch, header.size)
    _check_header(header)
    if config.compact and walked.first_null_key >= 0:
        _reject(records, header, "invalid records", null_keys=True)
    if not config.log_append_time:
        _check_timestamps(records, header, walked, config, now_ms)
    if check is not None:
        check(records, header.count)
    unpacked_bytes = len(records) if header.codec != compression.NONE else 0
    header, batch = _adapt(batch, records, header, walked, config, now_ms)
    return Accepted(header, batch, now_ms, unpacked_bytes)


def is_compressed(batch: Buffer) -> bool:
    """As its header says; it is not checked."""
    return len(batch) >= HEADER_BYTES and bool(batch[_ATTRIBUTES_AT] & CODEC_MASK)


def is_recompressed(batch: Buffer, config: LogConfig) -> bool:
    """Whether the topic wants the records compressed otherwise, by a header that is not checked."""
    if config.compression_type in ("producer", "uncompressed") or len(batch) < HEADER_BYTES:
        return False
    return batch[_ATTRIBUTES_AT] & CODEC_MASK != _CODECS[config.compression_type]


def unpacked_bytes_max(config: LogConfig) -> int:
    """What the compressed records of one batch may take."""
    return max(config.uncompressed_bytes_max, config.max_message_bytes)


class NotOneBatch(errors.InvalidRecord):
    """A partition takes exactly one whole record batch in a request."""


def _without_trailing_bytes(batch: Buffer, size: int) -> Buffer:
    """A second batch is an error; bytes that are none are dropped, as Kafka does."""
    rest = memoryview(batch)[size:]
    if len(rest) >= HEADER_BYTES and len(rest) >= _size_claimed(rest):
        raise NotOneBatch()
    return memoryview(batch)[:size]


def _as_kafka_says(batch: Buffer, error: errors.ProtocolError) -> errors.ProtocolError:
    """Half a batch, or none, is an invalid request to Kafka; so is a batch that counts no records."""
    size = len(batch)
    if size < HEADER_BYTES or size < _size_claimed(batch):
        return NotOneBatch()
    if isinstance(error, WrongMagic) and batch[_MAGIC_AT] > MAGIC:
        return CorruptBatch(f"Magic {batch[_MAGIC_AT]} is not known")
    (count,) = _LENGTH.unpack_from(batch, _COUNT_AT)
    if count <= 0:
        return errors.InvalidRecord("The record batch counts no records")
    return error


def _size_claimed(batch: Buffer) -> int:
    (length,) = _LENGTH.unpack_from(batch, _LENGTH_AT)
    return int(length) + _LENGTH_AT + _LENGTH.size


def _check_size(batch: Buffer, config: LogConfig) -> None:
    size = read_header(batch).size
    if size > config.max_message_bytes:
        raise errors.MessageTooLarge(
            f"The record batch size is {size} bytes which exceeds the maximum configured value of "
            f"{config.max_message_bytes}"
        )
    if size > config.segment_bytes:
        raise errors.RecordListTooLarge(
            f"The record batch size is {size} bytes which exceeds the maximum segment size of "
            f"{config.segment_bytes}"
        )


def _check_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise errors.InvalidRecord(
            f"The baseOffset of the record batch in the append should be 0, but it is {header.base_offset}"
        )
    if header.is_control:
        raise errors.InvalidRecord("Clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise errors.InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId "
            f"{header.producer_id}"
        )


def _check_timestamps(
    records: Buffer, header: BatchHeader, walked: Walked, config: LogConfig, now_ms: int
) -> None:
    """CreateTime only."""
    if header.log_append_time:
        raise errors.InvalidTimestamp("Producer should not set timestamp type to LogAppendTime")
    oldest = header.base_timestamp + walked.min_timestamp_delta
    newest = header.base_timestamp + walked.max_timestamp_delta
    oldest_allowed = max(now_ms - config.timestamp_before_max_ms, _INT64_MIN)
    newest_allowed = min(now_ms + config.timestamp_after_max_ms, _INT64_MAX)
    if oldest < oldest_allowed or newest > newest_allowed:
        _reject(records, header, "invalid timestamp", oldest=oldest_allowed, newest=newest_allowed)


def _reject(
    records: Buffer,
    header: BatchHeader,
    problem: str,
    *,
    null_keys: bool = False,
    oldest: int = 0,
    newest: int = 0,
) -> None:
    """Names the records that are at fault, the first ones of many; none if those are without a timestamp."""
    base = header.base_timestamp
    total, outliers = kernel.outliers(
        records,
        header.count,
        RECORD_ERRORS_MAX,
        low=_as_int64(oldest - base),
        high=_as_int64(newest - base),
        exempt=_as_int64(NO_TIMESTAMP - base),
        null_keys=null_keys,
    )
    if not total:
        return
    if null_keys:
        reason = "Compacted topic cannot accept message without key"
        record_errors = tuple(RecordError(at, reason) for at, _ in outliers)
        raise RejectedRecords(summary(problem, total, record_errors), record_errors)
    record_errors = tuple(
        RecordError(at, f"Timestamp {base + delta} is out of range [{oldest}, {newest}]")
        for at, delta in outliers
    )
    raise RejectedTimestamps(summary(problem, total, record_errors), record_errors)


def _as_int64(value: int) -> int:
    return max(_INT64_MIN, min(value, _INT64_MAX))


def _adapt(
    batch: Buffer, records: Buffer, header: BatchHeader, walked: Walked, config: LogConfig, now_ms: int
) -> tuple[BatchHeader, Buffer]:
    """Compression and timestamps as the topic has them; untouched where they are so already."""
    codec = header.codec if config.compression_type == "producer" else _CODECS[config.compression_type]
    max_timestamp = now_ms if config.log_append_time else header.base_timestamp + walked.max_timestamp_delta
    if codec != header.codec:
        header.attributes = header.attributes & ~CODEC_MASK | codec
        batch = assemble(header, compression.compress(codec, records, compression_level(config, codec)))
        _check_size(batch, config)  # it may have grown
        header = read_header(batch)
    if max_timestamp != header.max_timestamp or header.log_append_time != config.log_append_time:
        batch = bytearray(batch)
        restamp(batch, max_timestamp=max_timestamp, log_append_time=config.log_append_time)
        header = read_header(batch)
    return header, batch


def compression_level(config: LogConfig, codec: int) -> int | None:
    levels = {
        compression.GZIP: config.compression_gzip_level,
        compression.LZ4: config.compression_lz4_level,
        compression.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec)


def summary(reason: str, total: int, shown: tuple[RecordError, ...]) -> str:
    first = "; ".join(f"record {error.batch_index}: {error.message}" for error in shown[:3])
    return f"One or more records have been rejected due to {reason}, {total} in total; the first: {first}"
