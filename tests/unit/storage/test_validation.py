"""What a leader refuses, and what it changes in a batch."""

import struct
from typing import Any

import pytest

from ottla import errors
from ottla.config.log import LogConfig
from ottla.storage.validation import RejectedRecords, RejectedTimestamps, accept
from ottla.wire import compression
from ottla.wire.batch import build, check
from ottla.wire.kernel import crc32c
from ottla.wire.records import Record, read

NOW = 10_000_000


def records(*timestamps: int, key: bytes | None = b"k") -> list[Record]:
    return [Record(at, timestamp, key, b"value") for at, timestamp in enumerate(timestamps)]


def patched(batch: bytes, position: int, layout: str, value: int) -> bytes:
    """With another value in the header, and a CRC that fits."""
    changed = bytearray(batch)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


def refused(batch: bytes, **settings: Any) -> errors.ProtocolError:
    with pytest.raises(errors.ProtocolError) as caught:
        accept(batch, LogConfig(**settings), NOW)
    return caught.value


def test_a_good_batch_is_taken_without_a_copy():
    batch = memoryview(build(records(NOW, NOW)))
    header, accepted, *_ = accept(batch, LogConfig(), NOW)
    assert accepted is batch
    assert header.count == 2


def test_exactly_one_whole_batch_is_taken():
    batch = build(records(NOW))
    assert refused(b"").code == errors.InvalidRecord.code
    assert refused(batch + batch).code == errors.InvalidRecord.code
    assert refused(batch[:-1]).code == errors.InvalidRecord.code
    assert refused(batch[:30]).code == errors.InvalidRecord.code


def test_bytes_behind_the_batch_that_are_none_are_dropped():
    batch = build(records(NOW))
    header, taken, *_ = accept(batch + b"abc", LogConfig(), NOW)
    assert (header.size, bytes(taken)) == (len(batch), bytes(batch))


def test_a_wrong_crc_is_corrupt_and_an_old_magic_invalid():
    batch = bytearray(build(records(NOW)))
    batch[-1] ^= 1
    assert refused(bytes(batch)).code == errors.CorruptMessage.code
    batch[16] = 1
    assert refused(bytes(batch)).code == errors.InvalidRecord.code


def test_the_size_of_a_batch_is_bounded_by_topic_and_segment():
    batch = build(records(NOW))
    assert refused(batch, max_message_bytes=len(batch) - 1).code == errors.MessageTooLarge.code
    assert refused(batch, segment_bytes=len(batch) - 1).code == errors.RecordListTooLarge.code
    accept(batch, LogConfig(max_message_bytes=len(batch), segment_bytes=len(batch)), NOW)


def test_a_count_that_does_not_fit_the_offsets_or_the_records_is_refused():
    batch = build(records(NOW, NOW))
    assert refused(patched(batch, 57, ">i", 3)).code == errors.InvalidRecord.code
    assert refused(patched(batch, 23, ">i", 2)).code == errors.InvalidRecord.code
    assert refused(patched(batch, 57, ">i", -1)).code in (
        errors.InvalidRecord.code,
        errors.CorruptMessage.code,
    )


def test_clients_write_neither_control_batches_nor_offsets_nor_batches_without_a_sequence():
    assert refused(build(records(NOW), control=True)).code == errors.InvalidRecord.code
    assert refused(patched(build(records(NOW)), 0, ">q", 5)).code == errors.InvalidRecord.code
    unsequenced = build(records(NOW), producer_id=1, producer_epoch=0)
    assert refused(unsequenced).code == errors.InvalidRecord.code


def test_a_broken_record_is_named():
    batch = bytearray(build(records(NOW, NOW, NOW)))
    batch[-1] = 0x7F  # the last record claims headers that are not there
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    error = refused(bytes(batch))
    assert isinstance(error, RejectedRecords)
    assert [each.batch_index for each in error.record_errors] == [2]


@pytest.mark.parametrize("codec", range(5))
def test_a_compacted_topic_wants_keys_and_names_every_record_without_one(codec):
    mixed = [Record(at, NOW, b"k" if at % 2 else None, b"v") for at in range(5)]
    error = refused(build(mixed, codec=codec), compact=True)
    assert isinstance(error, RejectedRecords)
    assert [each.batch_index for each in error.record_errors] == [0, 2, 4]


def test_timestamps_out_of_range_are_named_and_none_at_all_is_fine():
    batch = build(records(NOW, NOW + 101, NOW - 51, -1, NOW - 50, NOW + 100))
    error = refused(batch, timestamp_after_max_ms=100, timestamp_before_max_ms=50)
    assert isinstance(error, RejectedTimestamps)
    assert error.code == errors.InvalidTimestamp.code
    assert [each.batch_index for each in error.record_errors] == [1, 2]
    error = refused(batch, timestamp_after_max_ms=100)
    assert [each.batch_index for each in error.record_errors] == [1]  # type: ignore[attr-defined]
    accept(batch, LogConfig(), NOW)


def test_producers_do_not_claim_log_append_time():
    assert refused(build(records(NOW), log_append_time_ms=NOW)).code == errors.InvalidTimestamp.code


def test_the_broker_stamps_its_time_where_the_topic_says_so():
    batch = build(records(5, 6), codec=compression.ZSTD)
    header, accepted, *_ = accept(batch, LogConfig(log_append_time=True), NOW)
    assert check(accepted).log_append_time
    assert header.log_append_time
    assert [each.timestamp for each in read(accepted)] == [NOW, NOW]
    assert header.max_timestamp == check(accepted).max_timestamp == NOW


def test_a_max_timestamp_that_lies_is_put_right():
    batch = patched(build(records(NOW, NOW - 5)), 35, ">q", NOW + 77)
    header, accepted, *_ = accept(batch, LogConfig(), NOW)
    assert header.max_timestamp == check(accepted).max_timestamp == NOW


@pytest.mark.parametrize("of_producer", range(5))
@pytest.mark.parametrize("of_topic", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topics_compression_wins(of_producer, of_topic):
    batch = build(records(*[NOW] * 20), codec=of_producer, producer_id=3, producer_epoch=1, base_sequence=9)
    header, accepted, *_ = accept(batch, LogConfig(compression_type=of_topic), NOW)
    wanted = {"producer": of_producer, "uncompressed": 0}.get(of_topic)
    if wanted is None:
        wanted = compression.NAMES.index(of_topic)
    assert check(accepted) == header
    assert header.codec == wanted
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (3, 1, 9)
    assert read(accepted) == read(batch)


def test_a_batch_that_outgrows_the_limit_when_it_is_recompressed_is_refused():
    batch = build([Record(0, NOW, b"k", bytes(10_000))], codec=compression.ZSTD)
    assert refused(batch, compression_type="uncompressed", max_message_bytes=5000).code == 10


def test_a_decompression_bomb_is_refused():
    bomb = build([Record(0, NOW, b"k", bytes(100 << 20))], codec=compression.ZSTD)
    assert len(bomb) < 1_000_000
    assert refused(bomb).code == errors.CorruptMessage.code
