"""Batches to Arrow and back; record by record the same as the plain reader."""

import pytest

from ottla.errors import RecordListTooLarge
from ottla.wire import batch
from ottla.wire.compression import NAMES
from ottla.wire.corruption import BadRecord, CorruptBatch
from ottla.wire.records import Record, read

pa = pytest.importorskip("pyarrow")
columns = pytest.importorskip("ottla.wire.columns")

SOME = [
    Record(0, 1_000, b"a", b"1"),
    Record(1, 3_000, b"", None, (("trace", b"\0\1"), ("none", None), ("", b""))),
    Record(2, 2_000, None, b"3" * 200),
    Record(3, -1, None, b""),
]


def some(base_offset=0, count=4):
    return [each._replace(offset=base_offset + each.offset) for each in SOME[:count]]


def a_batch(base_offset=0, **named):
    return batch.build(some(base_offset), base_offset=base_offset, **named)


def as_records(table, headers=True):
    table.validate(full=True)
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    lists = table.column("headers").to_pylist() if headers else [()] * table.num_rows
    return [
        Record(offset, time // 1000, key, value, tuple((pair["key"], pair["value"]) for pair in pairs))
        for offset, time, key, value, pairs in zip(
            table.column("offset").to_pylist(),
            times,
            table.column("key").to_pylist(),
            table.column("value").to_pylist(),
            lists,
            strict=True,
        )
    ]


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
def test_batches_become_columns(codec):
    data = a_batch(codec=codec) + a_batch(10, codec=codec)
    table = columns.decode([columns.Part("events", 3, data)], headers=True)
    assert table.schema == columns.SCHEMA_WITH_HEADERS
    assert as_records(table) == some() + some(10)
    assert set(table.column("topic").to_pylist()) == {"events"}
    assert set(table.column("partition").to_pylist()) == {3}
    assert set(table.column("timestampType").to_pylist()) == {0}


def test_parts_come_one_after_the_other():
    parts = [
        columns.Part("a", 0, a_batch()),
        columns.Part("a", 1, a_batch()),
        columns.Part("b", 1, a_batch(7)),
    ]
    table = columns.decode(parts)
    assert table.schema == columns.SCHEMA
    assert table.column("topic").to_pylist() == ["a"] * 8 + ["b"] * 4
    assert table.column("partition").to_pylist() == [0] * 4 + [1] * 8
    assert table.column("offset").to_pylist() == [0, 1, 2, 3, 0, 1, 2, 3, 7, 8, 9, 10]


def test_nothing_is_a_table_of_no_rows():
    for parts in ([], [columns.Part("a", 0, b"")], [columns.Part("a", 0, a_batch()[:-1])]):
        table = columns.decode(parts, headers=True)
        table.validate(full=True)
        assert table.num_rows == 0
        assert table.schema == columns.SCHEMA_WITH_HEADERS


@pytest.mark.parametrize(
    ("first", "up_to"), [(0, 20), (1, 20), (2, 12), (4, 20), (11, 13), (13, 20), (20, 30), (3, 3)]
)
def test_only_the_offsets_asked_for_come(first, up_to):
    part = columns.Part("a", 0, a_batch() + a_batch(10), first, up_to)
    assert as_records(columns.decode([part], headers=True)) == [
        each for each in some() + some(10) if first <= each.offset < up_to
    ]


def test_log_append_time_is_every_records_time():
    table = columns.decode([columns.Part("a", 0, a_batch(log_append_time_ms=9_000) + a_batch(10))])
    assert [each.timestamp for each in as_records(table, headers=False)] == [9_000] * 4 + [
        1_000,
        3_000,
        2_000,
        -1,
    ]
    assert table.column("timestampType").to_pylist() == [1] * 4 + [0] * 4


def test_control_batches_and_those_to_skip_do_not_come():
    data = a_batch(0, producer_id=5) + a_batch(4, control=True) + a_batch(8, producer_id=6)
    table = columns.decode(
        [columns.Part("a", 0, data)], skip=lambda part, header: part.topic == "a" and header.producer_id == 5
    )
    assert table.column("offset").to_pylist() == [8, 9, 10, 11]


def test_a_damaged_batch_is_found():
    data = bytearray(a_batch())
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        columns.decode([columns.Part("a", 0, data)])
    with pytest.raises(BadRecord):
        columns.decode([columns.Part("a", 0, data)], check_crc=False)


def test_a_time_that_arrow_cannot_hold_becomes_the_furthest_it_can():
    data = batch.build([Record(0, 2**63 - 1, None, None), Record(1, -(2**63), None, None)])
    times = columns.decode([columns.Part("a", 0, data)]).column("timestamp").cast(pa.int64()).to_pylist()
    assert times == [2**63 - 1, -(2**63)]


def test_a_header_key_that_is_no_utf8_is_mended():
    data = batch.build([Record(0, 0, None, None, (("\x7f", b"1"), ("ok", None)))])
    broken = batch.assemble(batch.read_header(data), data[batch.HEADER_BYTES :].replace(b"\x7f", b"\xff"))
    table = columns.decode([columns.Part("a", 0, broken)], headers=True)
    assert as_records(table)[0].headers == (("\ufffd", b"1"), ("ok", None))


def test_a_column_that_arrow_cannot_address_is_refused(monkeypatch):
    monkeypatch.setattr(columns, "_COLUMN_BYTES_MAX", 300)
    columns.decode([columns.Part("a", 0, a_batch())])
    with pytest.raises(RecordListTooLarge):
        columns.decode([columns.Part("a", 0, a_batch() + a_batch(4))])


def all_records(encoded):
    """As one list, with the offsets of the rows."""
    found = []
    for each in encoded:
        header, _, _ = batch.validate(each.batch, limit=1 << 24)
        assert header.count == each.end_row - each.first_row
        rows = read(each.batch)
        assert header.max_timestamp == max(row.timestamp for row in rows)
        found += [row._replace(offset=each.first_row + row.offset) for row in rows]
    return found


@pytest.mark.parametrize("codec", range(5), ids=NAMES)
@pytest.mark.parametrize("headers", [False, True], ids=["plain", "headers"])
@pytest.mark.parametrize("batch_bytes", [1, 250, 900_000])
def test_columns_become_batches(codec, headers, batch_bytes):
    table = columns.decode([columns.Part("a", 0, a_batch() + a_batch(4))], headers=headers)
    encoded = list(columns.encode(table, now_ms=0, codec=codec, batch_bytes=batch_bytes))
    expected = some() + some(4)
    assert all_records(encoded) == [each if headers else each._replace(headers=()) for each in expected]
    assert len(encoded) == {1: 8, 250: 2, 900_000: 1}[batch_bytes] + (headers and batch_bytes == 250)


def test_a_batch_carries_its_producer():
    table = columns.decode([columns.Part("a", 0, a_batch())])
    (encoded,) = columns.encode(table, now_ms=0, producer_id=7, producer_epoch=1, transactional=True)
    header = batch.check(encoded.batch)
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (7, 1, True)


def test_missing_columns_are_null_and_now():
    rows = pa.RecordBatch.from_pydict({"value": pa.array(["one", None, ""], pa.string())})
    assert all_records(columns.encode(rows, now_ms=77)) == [
        Record(0, 77, None, b"one"),
        Record(1, 77, None, None),
        Record(2, 77, None, b""),
    ]


def test_a_slice_is_encoded_from_where_it_starts():
    table = columns.decode([columns.Part("a", 0, a_batch() + a_batch(4))])
    for first in range(8):
        expected = [
            each._replace(offset=each.offset - first, headers=()) for each in (some() + some(4))[first:]
        ]
        assert all_records(columns.encode(table.slice(first), now_ms=0)) == expected


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string()])
def test_a_slice_without_nulls_is_encoded_where_it_lies(kind):
    rows = pa.record_batch({"value": pa.array(["a", "bc", "", "def", "g"], kind)})
    for first in range(5):
        for count in range(1, 6 - first):
            values = [each.value for each in all_records(columns.encode(rows.slice(first, count), now_ms=0))]
            assert values == [b"a", b"bc", b"", b"def", b"g"][first : first + count]
    offsets, data, _ = columns.binary_buffers(rows.slice(2), "value")
    whole = columns.binary_buffers(rows, "value")
    if kind != pa.large_string():
        assert data.address == whole[1].address and offsets.address == whole[0].address + 8  # not copied


@pytest.mark.parametrize("kind", ["s", "ms", "us", "ns"])
def test_times_of_any_unit_are_taken(kind):
    time = pa.array([1_000, None], pa.timestamp("ms")).cast(pa.timestamp(kind))
    rows = pa.RecordBatch.from_pydict({"key": pa.array([b"k", b"k"], pa.large_binary()), "timestamp": time})
    assert [each.timestamp for each in all_records(columns.encode(rows, now_ms=5))] == [1_000, 5]


def test_empty_values_alone_are_not_null():
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"", b""], pa.binary())})
    assert [each.value for each in all_records(columns.encode(rows, now_ms=5))] == [b"", b""]
    assert list(columns.encode(rows.slice(0, 0), now_ms=5)) == []
