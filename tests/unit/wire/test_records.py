"""Records out of batches: ours and everyone else's."""

import io

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecordsBuilder as KafkaPythonBuilder
from kio.records.readers import read_batch as kio_read_batch
from kio.records.writers import write_batch as kio_write_batch

from ottla.wire import batch, kernel
from ottla.wire.compression import NAMES, SNAPPY, OverLimit
from ottla.wire.corruption import BadRecord, CorruptBatch
from ottla.wire.records import Record, iterate, read

TEXT = st.text(max_size=8)
FIELD = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(TEXT, FIELD), max_size=3).map(tuple)
TIMES = st.integers(-1, 2**62)
ROWS = st.lists(st.tuples(TIMES, FIELD, FIELD, HEADERS), min_size=1, max_size=30)

MANY = [
    Record(
        i,
        1_000 + i * i,
        b"key %d" % i if i % 3 else None,
        None if i == 7 else b"value" * i,
        (("h", b"x"),) * (i % 3),
    )
    for i in range(500)
]


@given(rows=ROWS, base_offset=st.integers(0, 2**60), codec=st.integers(0, 4))
def test_what_is_built_is_read(rows, base_offset, codec):
    built = [Record(base_offset + i, *row) for i, row in enumerate(rows)]
    data = batch.build(built, base_offset=base_offset, codec=codec)
    assert read(data) == built
    assert read(b"..." + data + b"...", 3) == built


def test_a_batch_is_checked_before_it_is_read():
    data = bytearray(batch.build(MANY))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        read(data)
    data[-1] ^= 1
    assert read(memoryview(data)) == MANY


def test_a_batch_may_not_grow_beyond_the_limit():
    with pytest.raises(OverLimit):
        read(batch.build([Record(0, 0, None, bytes(10_000))], codec=SNAPPY), limit=10_000)


def test_records_of_a_header_at_hand_are_not_checked_again():
    data = bytearray(batch.build(MANY))
    data[17] ^= 1
    assert list(iterate(data, 0, batch.read_header(data))) == MANY


def test_a_record_that_lies_about_its_size_is_refused():
    data = batch.build([Record(0, 0, None, b"value")])
    header = batch.read_header(data)
    broken = batch.assemble(header, data[batch.HEADER_BYTES :] + b"!")
    with pytest.raises(BadRecord):
        read(broken)


def test_a_header_key_that_is_no_utf8_is_mended_as_by_java():
    payload, *_ = kernel.encode([Record(0, 0, None, None, (("\x7f", b""),))], 0, 0)
    data = batch.build([Record(0, 0, None, None)])
    header = batch.read_header(data)
    read_back = read(batch.assemble(header, payload.replace(b"\x7f", b"\xff")))
    assert read_back[0].headers == (("\ufffd", b""),)


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_batches_of_kafka_python_are_read(codec):
    builder = KafkaPythonBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
    for each in MANY:
        builder.append(each.timestamp, each.key, each.value, list(each.headers))
    builder.close()
    assert read(builder.buffer()) == MANY
    assert batch.validate(builder.buffer(), limit=1 << 24)[0].count == len(MANY)


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_batches_of_aiokafka_are_read(codec):
    builder = AiokafkaBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for each in MANY:
        builder.append(each.offset, each.timestamp, each.key, each.value, list(each.headers))
    data = bytes(builder.build())
    assert read(data) == MANY
    assert batch.validate(data, limit=1 << 24)[0].count == len(MANY)


def test_batches_of_kio_are_read_and_ours_are_the_same_bytes():
    many = [
        each._replace(timestamp=1_000) for each in MANY
    ]  # kio writes times through floats, a millisecond off here and there
    ours = batch.build(many)
    written = io.BytesIO()
    kio_write_batch(written, kio_read_batch(ours, 0)[0])
    assert written.getvalue() == ours
    assert read(written.getvalue()) == many
