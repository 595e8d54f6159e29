"""Each promise of the kernel, on both of them."""

import pickle
import struct

import pytest

from ottla.wire import kernel, kernel_py
from ottla.wire.corruption import BadRecord
from ottla.wire.records import Record

KERNELS = [kernel_py]
if kernel.COMPILED:
    from ottla.wire import _kernel

    KERNELS.append(_kernel)


@pytest.fixture(params=KERNELS, ids=lambda each: each.__name__.rsplit(".")[-1])
def subject(request):
    return request.param


def varint(value):
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes(out) + bytes([raw])


def a_record(offset=0, timestamp=0, key=b"\1", value=b"\1", headers=b"\0"):
    body = b"\0" + varint(timestamp) + varint(offset) + key + value + headers
    return varint(len(body)) + body


def reason(subject, payload, count=1, consecutive=True):
    with pytest.raises(BadRecord) as caught:
        subject.walk(payload, count, consecutive=consecutive)
    assert subject is kernel_py or caught.value.args[0].startswith("Record")
    return caught.value.index, caught.value.reason


@pytest.mark.parametrize(
    ("data", "crc"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_the_checksum_is_castagnolis(subject, data, crc):
    """The figures are those of RFC 3720, B.4."""
    assert subject.crc32c(data) == crc
    assert subject.crc32c(data[5:], subject.crc32c(data[:5])) == crc


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_by_javas_partitioner(subject, key, expected):
    """The figures are those of Kafka's own test."""
    assert subject.murmur2(key) == expected
    assert subject.murmur2(memoryview(key)) == expected


def test_a_walk_tells_what_validation_needs(subject):
    records = [
        Record(0, 10, b"k", b"v"),
        Record(1, 30, b"k", None),
        Record(2, 30, None, b"v"),
        Record(3, 20, None, b"v", (("h", b"x"),)),
    ]
    payload, count, last, max_timestamp = subject.encode(records, 0, 5)
    assert (count, last, max_timestamp) == (4, 3, 30)
    assert subject.walk(payload, 4, consecutive=True) == (25, 1, 3, 2, 5)


def test_timestamps_may_all_be_before_the_base(subject):
    payload, *_ = subject.encode([Record(0, 10, b"", b""), Record(1, 12, b"", b"")], 0, 100)
    assert subject.walk(payload, 2, consecutive=True) == (-88, 1, 1, -1, -90)


def test_no_records_are_fine_and_have_no_timestamp(subject):
    assert subject.encode([]) == (b"", 0, -1, -1)
    assert subject.walk(b"", 0, consecutive=True) == (0, -1, -1, -1, 0)
    assert subject.index(b"", 0) == b""
    assert subject.find_record(b"", 0, 0, 0) is None


def test_gaps_are_for_compacted_logs_only(subject):
    gap = a_record(0) + a_record(2)
    assert subject.walk(gap, 2, consecutive=False) == (0, 0, 2, 0, 0)
    assert reason(subject, gap, 2) == (1, "offset delta is not consecutive")
    assert reason(subject, a_record(1)) == (0, "offset delta is not consecutive")
    assert reason(subject, a_record(2) * 2, 2, consecutive=False) == (1, "offset delta does not rise")
    assert reason(subject, a_record(-1), consecutive=False) == (0, "offset delta does not rise")


def test_the_records_fill_the_payload_exactly(subject):
    assert reason(subject, a_record(0) + a_record(1), 1) == (-1, "bytes after the last record")
    assert reason(subject, a_record(0, key=varint(3) + b"abc"), 0) == (-1, "bytes after the last record")
    assert reason(subject, a_record(0, value=varint(9) + b"x" * 9), 2) == (1, "truncated")
    assert reason(subject, a_record(0), 2) == (-1, "more records than bytes")
    assert reason(subject, a_record(0), 2**31 - 1) == (-1, "more records than bytes")
    assert reason(subject, a_record(0), -1) == (-1, "count is negative")


PAD = b"\0" * 7  # so that the count of records is not what is refused


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (varint(-1) + PAD, "length is out of bounds"),
        (varint(2**31 - 1) + PAD, "length is out of bounds"),
        (varint(0) + PAD, "truncated"),
        (b"\x80" * 5 + PAD, "varint is too long"),
        (b"\xff\xff\xff\xff\x10" + PAD, "varint is too long"),
        (b"\x80" * 4, "more records than bytes"),
        (b"\x02\0" + PAD, "truncated"),
        (varint(12) + b"\0" + b"\x80" * 10 + PAD, "varint is too long"),
        (varint(12) + b"\0" + b"\x80" * 9 + b"\2" + PAD, "varint is too long"),
        (a_record(key=varint(1), value=b"", headers=b"") + PAD, "key is out of bounds"),
        (a_record(key=varint(2**31 - 1)), "key is out of bounds"),
        (a_record(value=varint(2)), "value is out of bounds"),
        (a_record(headers=varint(-1)), "header count is negative"),
        (a_record(headers=varint(1)), "more headers than bytes"),
        (a_record(headers=varint(2) + varint(0) * 2), "truncated"),
        (a_record(headers=varint(1) + varint(-1) + varint(0)), "header key is null"),
        (a_record(headers=varint(1) + varint(2) + b"a"), "header key is out of bounds"),
        (a_record(headers=varint(1) + varint(0) + varint(1)), "header value is out of bounds"),
        (a_record(headers=varint(0) + b"!"), "fields end before the record does"),
    ],
)
def test_a_bad_record_is_refused(subject, payload, expected):
    assert reason(subject, payload)[1] == expected
    with pytest.raises(BadRecord, match=expected):
        subject.index(payload, 1)
    with pytest.raises(BadRecord, match=expected):
        subject.find_record(payload, 1, 0, 2**62)


def test_what_java_lets_pass_passes(subject):
    """Any negative length is null, and a varint may be longer than it needs to be."""
    record = a_record(key=varint(-7), value=varint(-(2**31)), headers=b"\x80\x80\0")
    assert subject.walk(record, 1, consecutive=True) == (0, 0, 0, 0, 0)


def test_the_index_points_at_everything(subject):
    records = [Record(0, 7, b"key", b"value", (("h", b"x"),)), Record(4, 9, None, b"")]
    payload, *_ = subject.encode(records, 0, 0)
    rows = [*struct.iter_unpack("9q", subject.index(payload, 2))]
    offset, timestamp, key, key_end, value, value_end, headers, start, end = rows[0]
    assert (offset, timestamp, start) == (0, 7, 0)
    assert payload[key:key_end] == b"key"
    assert payload[value:value_end] == b"value"
    assert payload[headers:end] == b"\x02\x02h\x02x"
    offset, timestamp, key, key_end, value, value_end, headers, start, last = rows[1]
    assert (offset, timestamp, key, key_end, start) == (4, 9, -1, -1, end)
    assert (value_end - value, payload[headers:last], last) == (0, b"\0", len(payload))


def test_a_time_finds_the_first_record_at_or_after_it(subject):
    payload, *_ = subject.encode([Record(i, ts, None, b"") for i, ts in enumerate((10, 30, 20, 40))], 0, 10)
    assert [subject.find_record(payload, 4, 10, target) for target in (-5, 10, 11, 30, 31, 41)] == [
        (0, 10),
        (0, 10),
        (1, 30),
        (1, 30),
        (3, 40),
        None,
    ]


def test_offsets_to_encode_rise_within_31_bits(subject):
    def last(*offsets, base=0):
        return subject.encode([Record(offset, 0, None, None) for offset in offsets], base)[2]

    assert last(-1, -1, 7, -1) == 8
    assert last(100, 105, base=100) == 5
    assert last(2**31 - 1) == 2**31 - 1
    for wrong in ((0, 0), (1, 0), (2**31,), (2**31 - 1, -1), (-2,)):
        with pytest.raises(ValueError, match="offsets of a batch rise"):
            last(*wrong)


def test_a_bad_record_survives_a_trip_to_another_process(subject):
    with pytest.raises(BadRecord) as caught:
        subject.walk(bytes(7), 1, consecutive=True)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.index, copy.reason, str(copy)) == (0, "truncated", "Record 0 of the batch: truncated")


def test_outliers_are_counted_and_only_the_first_are_told(subject):
    records = [Record(at, at, None if at % 2 else b"k", b"v") for at in range(5_000)]
    payload, count, *_ = subject.encode(records, 0, 0)
    assert subject.outliers(payload, count, 3, 2, 4_000, -1) == (1_001, [(0, 0), (1, 1), (4_001, 4_001)])
    assert subject.outliers(payload, count, 3, 2, 4_000, 1) == (
        1_000,
        [(0, 0), (4_001, 4_001), (4_002, 4_002)],
    )
    assert subject.outliers(payload, count, 2, null_keys=True) == (2_500, [(1, 1), (3, 3)])
    total, shown = subject.outliers(payload, count, 10_000, 6_000, 7_000)
    assert (total, len(shown)) == (4_999, 1_000)
