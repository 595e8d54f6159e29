"""What a leader asks of a batch before it takes it, and what it changes in it."""

import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

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
    payload,
    read_header,
    restamp,
    validate,
)
from ottla.wire.corruption import WrongMagic

NO_TIMESTAMP = -1
MAGIC = 2
_LENGTH = struct.Struct(">i")
_LENGTH_AT, _MAGIC_AT, _COUNT_AT = 8, 16, 57
_CODECS = {"uncompressed": compression.NONE, **{name: at for at, name in enumerate(compression.NAMES)}}


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


def accept(batch: Buffer, config: LogConfig, now_ms: int) -> tuple[BatchHeader, Buffer]:
    """A client's batch, checked and made what the topic wants: header and bytes to append."""
    size = len(batch)
    if size > config.max_message_bytes or size > config.segment_bytes:
        _check_size(batch, config)
    limit = max(config.uncompressed_bytes_max, config.max_message_bytes)
    try:
        header, walked = validate(batch, limit=limit)
    except BadRecord as error:
        raise RejectedRecords(error.message, (RecordError(error.index, error.reason),)) from error
    except errors.CorruptMessage as error:
        raise _as_kafka_says(batch, error) from None
    if header.size != size:
        batch = _without_trailing_bytes(batch, header.size)
    _check_header(header)
    if config.compact and walked.first_null_key >= 0:
        _reject_null_keys(batch, header, limit)
    _check_timestamps(batch, header, walked, config, now_ms, limit)
    return _adapt(batch, header, walked, config, now_ms, limit)


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


def _reject_null_keys(batch: Buffer, header: BatchHeader, limit: int) -> NoReturn:
    message = "Compacted topic cannot accept message without key"
    found = [RecordError(at, message) for at, _, key in _rows(batch, header, limit) if key < 0]
    raise RejectedRecords(_summary("invalid records", found), tuple(found))


def _check_timestamps(
    batch: Buffer, header: BatchHeader, walked: Walked, config: LogConfig, now_ms: int, limit: int
) -> None:
    """CreateTime only. The newest one is at hand; for the oldest the records are looked at again."""
    if config.log_append_time:
        return
    if header.log_append_time:
        raise errors.InvalidTimestamp("Producer should not set timestamp type to LogAppendTime")
    newest = header.base_timestamp + walked.max_timestamp_delta
    too_new = newest - now_ms > config.timestamp_after_max_ms
    if not too_new and now_ms < config.timestamp_before_max_ms:
        return  # no timestamp can be too old
    oldest_allowed = now_ms - config.timestamp_before_max_ms
    newest_allowed = now_ms + config.timestamp_after_max_ms
    found = [
        RecordError(at, f"Timestamp {timestamp} is out of range [{oldest_allowed}, {newest_allowed}]")
        for at, timestamp, _ in _rows(batch, header, limit)
        if timestamp != NO_TIMESTAMP and not oldest_allowed <= timestamp <= newest_allowed
    ]
    if found:
        raise RejectedTimestamps(_summary("invalid timestamp", found), tuple(found))


def _adapt(
    batch: Buffer, header: BatchHeader, walked: Walked, config: LogConfig, now_ms: int, limit: int
) -> tuple[BatchHeader, Buffer]:
    """Compression and timestamps as the topic has them; untouched where they are so already."""
    codec = header.codec if config.compression_type == "producer" else _CODECS[config.compression_type]
    max_timestamp = now_ms if config.log_append_time else header.base_timestamp + walked.max_timestamp_delta
    if codec != header.codec:
        records = payload(batch, 0, header, limit=limit)
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


def _rows(batch: Buffer, header: BatchHeader, limit: int) -> Iterator[tuple[int, int, int]]:
    """(index, timestamp, start of the key or -1) of each record: only on the way to an error."""
    fields = array("q", kernel.index(payload(batch, 0, header, limit=limit), header.count))
    for at in range(header.count):
        row = at * kernel.INDEX_FIELDS
        yield at, header.base_timestamp + fields[row + 1], fields[row + 2]


def _summary(what: str, found: list[RecordError]) -> str:
    shown = "; ".join(f"record {each.batch_index}: {each.message}" for each in found[:3])
    return f"One or more records have been rejected due to {what}, {len(found)} in total; the first: {shown}"
