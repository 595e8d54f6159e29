"""Batch headers, checks and stamps; and that other implementations read what we build."""

import dataclasses
import struct

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords
from kio.records.readers import read_batch as kio_read_batch

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.batch import BadRecord, CorruptBatch, WrongMagic, build, check, headers, read_header, validate
from ottla.wire.compression import GZIP, NAMES, NONE, OverLimit
from ottla.wire.records import Record

LIMIT = 1 << 20
SOME = [
    Record(0, 1_000, b"a", b"1"),
    Record(1, 3_000, b"b", None, (("trace", b"\0\1"), ("none", None), ("", b""))),
    Record(2, 2_000, None, b"3" * 200),
]


def a_batch(**named):
    return bytearray(build(SOME, **named))


def changed(batch, at, format, value):
    struct.pack_into(format, batch, at, value)
    return batch


def test_a_header_has_every_field():
    header = read_header(
        build(
            SOME, base_offset=0, leader_epoch=7, producer_id=8, producer_epoch=9, base_sequence=10, codec=GZIP
        )
    )
    assert (header.base_offset, header.leader_epoch, header.magic, header.count) == (0, 7, 2, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 9, 10)
    assert (header.base_timestamp, header.max_timestamp) == (1_000, 3_000)
    assert (header.last_offset_delta, header.last_offset, header.next_offset, header.last_sequence) == (
        2,
        2,
        3,
        12,
    )
    assert header.codec == GZIP


@pytest.mark.parametrize("flag", ["transactional", "control", "log_append_time", "delete_horizon"])
def test_attributes_are_single_bits(flag):
    named = {"log_append_time": {"log_append_time_ms": 5}, "delete_horizon": {"delete_horizon_ms": 5}}
    header = read_header(a_batch(**named.get(flag, {flag: True})))
    found = (header.is_transactional, header.is_control, header.log_append_time, header.has_delete_horizon)
    assert found == tuple(
        each == flag for each in ("transactional", "control", "log_append_time", "delete_horizon")
    )


def test_the_last_sequence_wraps():
    assert read_header(a_batch(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)).last_sequence == 0
    assert read_header(a_batch()).last_sequence == -1


def test_a_batch_keeps_offsets_from_its_base():
    rows = [Record(100, 1, b"", b""), Record(105, 1, b"", b"")]
    data = build(rows, base_offset=100)
    assert records.read(data) == rows
    assert read_header(data).last_offset == 105


def test_a_batch_of_nothing_is_possible():
    header = check(build([], base_offset=5))
    assert (header.count, header.base_timestamp, header.max_timestamp, header.size) == (0, -1, -1, 61)
    assert records.read(build([])) == []


def test_log_append_time_is_every_records_time():
    data = a_batch(log_append_time_ms=9_000)
    assert read_header(data).max_timestamp == 9_000
    assert {each.timestamp for each in records.read(data)} == {9_000}


def test_a_delete_horizon_takes_the_base_timestamps_place_and_changes_no_time():
    data = a_batch(delete_horizon_ms=123_456)
    assert read_header(data).base_timestamp == 123_456
    assert records.read(data) == SOME


def test_headers_come_whole_and_stop_at_a_partial_batch():
    whole = a_batch()
    for rest in (b"", whole[:5], whole[:60], whole[:-1]):
        found = list(headers(whole + whole + rest))
        assert [at for at, _ in found] == [0, len(whole)]
    assert [at for at, _ in headers(whole + whole, len(whole))] == [len(whole)]
    assert list(headers(b"")) == []


def test_headers_of_many_batches_come_in_order():
    small = build([Record(0, 0, None, None)])
    assert [at for at, _ in headers(small * 3_000)] == [len(small) * i for i in range(3_000)]


def test_headers_stop_with_an_error_at_garbage():
    found = headers(a_batch() + changed(a_batch(), 16, ">b", 1))
    next(found)
    with pytest.raises(WrongMagic):
        next(found)


@pytest.mark.parametrize(
    ("at", "format", "value", "error"),
    [
        (8, ">i", 48, CorruptBatch),
        (8, ">i", -1, CorruptBatch),
        (8, ">i", -(2**31), CorruptBatch),
        (16, ">b", 1, WrongMagic),
        (16, ">b", -1, WrongMagic),
        (23, ">i", -1, CorruptBatch),
        (57, ">i", -1, CorruptBatch),
    ],
)
def test_an_implausible_header_is_corrupt(at, format, value, error):
    with pytest.raises(error):
        read_header(changed(a_batch(), at, format, value))


def test_a_producer_hears_of_a_wrong_magic_as_an_invalid_record():
    assert WrongMagic.code == InvalidRecord.code
    assert CorruptBatch.code == CorruptMessage.code
    with pytest.raises(WrongMagic):
        read_header(bytes(16) + b"\1" + bytes(10))  # an old message may be smaller than our header


@pytest.mark.parametrize("position", [0, 10_000])
def test_a_header_that_is_not_there_is_corrupt(position):
    with pytest.raises(CorruptBatch, match="ends within a batch header"):
        read_header(a_batch()[:60], position)


def test_no_position_is_negative():
    with pytest.raises(ValueError, match="negative"):
        read_header(a_batch(), -1)


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_under_the_crc_is_found(at, bit):
    data = a_batch()
    data[17 + at % (len(data) - 17)] ^= 1 << bit
    with pytest.raises(CorruptBatch):
        check(data)


def test_a_batch_that_is_not_all_there_is_corrupt():
    with pytest.raises(CorruptBatch, match="ends within the batch"):
        check(a_batch()[:-1])
    check(a_batch() + b"what follows does not matter")


def test_stamping_leaves_the_crc_as_it_is():
    data = b"before" + a_batch()
    data = bytearray(data)
    batches.stamp(data, 6, base_offset=2**40, leader_epoch=3)
    header = check(data, 6)
    assert (header.base_offset, header.leader_epoch) == (2**40, 3)
    batches.stamp(memoryview(data)[6:], base_offset=1, leader_epoch=0)
    assert check(data, 6).base_offset == 1


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_restamping_renews_the_crc(codec):
    data = a_batch(codec=codec)
    batches.restamp(data, max_timestamp=77_000, log_append_time=True)
    header = check(data)
    assert (header.max_timestamp, header.log_append_time, header.codec) == (77_000, True, codec)
    assert {each.timestamp for each in records.read(data)} == {77_000}
    batches.restamp(data, max_timestamp=3_000, log_append_time=False)
    assert data == a_batch(codec=codec)


def test_assembling_a_batch_from_its_header_and_payload_gives_it_back():
    data = build(
        SOME, base_offset=0, leader_epoch=4, codec=GZIP, producer_id=1, producer_epoch=2, base_sequence=3
    )
    header = read_header(data)
    stale = dataclasses.replace(header, size=0, crc=0)
    assert batches.assemble(stale, data[batches.HEADER_BYTES :]) == data


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_a_produced_batch_is_validated_in_one_call(codec):
    header, walked, _ = validate(b"..." + a_batch(codec=codec), 3, limit=LIMIT)
    assert (header.count, header.codec) == (3, codec)
    assert walked == (2_000, 1, 2, 2, 0)
    assert walked.first_null_key == 2


@pytest.mark.parametrize("codec", [NONE, GZIP], ids=NAMES.__getitem__)
def test_a_produced_batch_has_as_many_records_as_it_says(codec):
    def with_count(count, last_offset_delta):
        data = a_batch(codec=codec)
        header = dataclasses.replace(read_header(data), count=count, last_offset_delta=last_offset_delta)
        return batches.assemble(header, data[batches.HEADER_BYTES :])

    validate(with_count(3, 2), limit=LIMIT)
    for count, last in ((3, 3), (0, 0), (2, 1), (4, 3), (2**31 - 1, 2**31 - 2)):
        with pytest.raises(InvalidRecord):
            validate(with_count(count, last), limit=LIMIT)


def test_only_a_compacted_batch_has_gaps():
    gaps = build([Record(0, 0, b"", b""), Record(9, 0, b"", b"")])
    assert validate(gaps, limit=LIMIT, consecutive=False)[1].last_offset_delta == 9
    with pytest.raises(BadRecord):
        validate(gaps, limit=LIMIT)


@pytest.mark.parametrize("codec", range(1, 5), ids=NAMES[1:])
def test_validation_does_not_inflate_a_batch_beyond_the_limit(codec):
    data = build([Record(0, 0, None, bytes(100_000))], codec=codec)
    validate(data, limit=100_100)
    with pytest.raises(OverLimit):
        validate(data, limit=100_000)


def of_bytes(content):
    return None if content is None else bytes(content)


@pytest.mark.parametrize("library", [KafkaPythonRecords, AiokafkaRecords], ids=["kafka-python", "aiokafka"])
@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_other_clients_read_our_batches(library, codec):
    many = [Record(i, 1_000 + i, b"key %d" % i, b"value " * (i % 50), (("h", b"x"),)) for i in range(2_000)]
    data = build(many, codec=codec, producer_id=5, producer_epoch=6, base_sequence=7, transactional=True)
    foreign = library(data).next_batch()
    assert foreign.validate_crc()
    assert (foreign.producer_id, foreign.producer_epoch, foreign.base_sequence) == (5, 6, 7)
    assert foreign.is_transactional
    found = [
        Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in foreign
    ]
    assert [each._replace(key=of_bytes(each.key), value=of_bytes(each.value)) for each in found] == many


def test_kio_reads_our_batches():
    foreign, size = kio_read_batch(build(SOME, leader_epoch=2), 0)
    assert size == len(build(SOME))
    assert [(each.offset, each.key, each.value) for each in foreign.records] == [
        (each.offset, each.key, each.value) for each in SOME
    ]
    assert [(each.key, each.value) for each in foreign.records[1].headers] == [
        (name.encode(), value) for name, value in SOME[1].headers
    ]
