"""Both kernels agree on every input: the same result, or the same refusal in the same words."""

import random
from array import array

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.wire import batch, kernel_ids_py, kernel_py
from ottla.wire.records import Record

_kernel = pytest.importorskip("ottla.wire._kernel")

INT64 = st.integers(-(2**63), 2**63 - 1)
FIELD = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(-1),
        st.integers(-(2**40), 2**40) | INT64,
        FIELD,
        FIELD,
        st.lists(st.tuples(st.text(max_size=4), FIELD), max_size=3).map(tuple),
    ),
    max_size=8,
)
# Pieces that varints, lengths and counts are made of, more often than random bytes would give them.
PIECES = st.sampled_from(
    [
        b"\0",
        b"\1",
        b"\2",
        b"\x0e",
        b"\x7f",
        b"\x80",
        b"\x80\0",
        b"\xff\xff\xff\xff\x0f",
        b"\xff" * 5,
        b"\xff" * 9 + b"\1",
        b"\xfe\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x10",
        b"\x80" * 9 + b"\2",
        b"\x80" * 10,
        b"\0" * 7,
        b"\x0c\0\0\0\1\1\0",
    ]
)
NOISE = st.binary(max_size=60) | st.lists(PIECES, max_size=20).map(b"".join)
CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4)
COUNT = st.integers(-2, 12) | st.sampled_from([2**31 - 1, 2**62, -(2**63)])


def outcome(function, *args, **named):
    try:
        return function(*args, **named)
    except Exception as error:
        return type(error), str(error), getattr(error, "index", None)


def both(name, *args, **named):
    compiled = outcome(getattr(_kernel, name), *args, **named)
    assert compiled == outcome(getattr(kernel_py, name), *args, **named)
    return compiled


def mutated(data, changes, cut, noise):
    changed = bytearray(data)
    for at, value in changes:
        if changed:
            changed[at % len(changed)] = value
    return bytes(changed[: len(changed) - cut] if cut else changed) + noise


def compare_payload(payload, count, base_timestamp=0, target=0):
    both("walk", payload, count, consecutive=True)
    both("walk", payload, count, consecutive=False)
    both("index", payload, count)
    both("find_record", payload, count, base_timestamp, target)
    both("outliers", payload, count, 3, min(base_timestamp, target), max(base_timestamp, target), target)
    both("outliers", payload, count, 3, null_keys=True)


def compare_batches(data, position):
    both("read_header", data, position)
    both("check", data, position)
    both("validate", data, position)
    both("validate", data, position, consecutive=False)
    both("scan", data, position)
    both("scan", data, position, 1)


@given(NOISE, COUNT, INT64, INT64)
@example(b"", 0, 0, 0)
def test_noise(payload, count, base_timestamp, target):
    compare_payload(payload, count, base_timestamp, target)


@given(RECORDS, CHANGES, st.integers(0, 5), NOISE | st.just(b""), st.integers(-1, 1), INT64, INT64)
@settings(max_examples=300)
def test_records_with_a_few_bytes_changed(records, changes, cut, noise, more, base_timestamp, target):
    payload, count, _, _ = kernel_py.encode(records, 0, 0)
    compare_payload(payload, count)
    compare_payload(mutated(payload, changes, cut, noise), count + more, base_timestamp, target)


@given(RECORDS, CHANGES, st.integers(0, 70), NOISE | st.just(b""), st.booleans(), st.integers(-1, 200))
@settings(max_examples=300)
def test_batches_with_a_few_bytes_changed(records, changes, cut, noise, crc_mended, position):
    data = bytearray(mutated(batch.build(records) * 2, changes, cut, noise))
    if crc_mended and len(data) >= batch.HEADER_BYTES:  # let the damage through to the walk
        size = int.from_bytes(data[8:12], "big") + 12
        data[17:21] = kernel_py.crc32c(data[21 : max(size, 21)]).to_bytes(4, "big")
    compare_batches(data, 0)
    compare_batches(data, position)


@given(RECORDS, st.lists(st.integers(-2, 2**33) | INT64 | st.just(2**63), max_size=8), INT64, INT64)
@example([Record(0, 0, None, None, ())], [2**63], 2**63 - 1, 0)
@settings(max_examples=300)
def test_encoding(records, offsets, base_offset, base_timestamp):
    both("encode", records, 0, base_timestamp)
    changed = [record._replace(offset=offset) for record, offset in zip(records, offsets, strict=False)]
    both("encode", changed, 0, base_timestamp)
    both("encode", changed, base_offset, base_timestamp)


@pytest.mark.parametrize(
    "record",
    [
        (0, 0, "text", None, ()),
        (0, 0, None, "text", ()),
        (0, 0, None, None, None),
        (0, 0, None, None, [(b"bytes", None)]),
        (0, 0, None, None, [(None, None)]),
        (0, 0, None, None, [("h", "text")]),
        (0, 2**63, None, None, ()),
        (0, -(2**63) - 1, None, None, ()),
        (2**64, 0, None, None, ()),
        (None, 0, None, None, ()),
        (0, "0", None, None, ()),
    ],
)
def test_encoding_refuses_the_same_records(record):
    compiled, plain = outcome(_kernel.encode, [record]), outcome(kernel_py.encode, [record])
    assert compiled[0] is plain[0]
    assert issubclass(compiled[0], TypeError | ValueError)


def test_encoding_takes_every_kind_of_buffer():
    kinds = (b"abc", bytearray(b"abc"), memoryview(b"abc"))
    records = [Record(-1, 5, kind, kind, [["h", kind]]) for kind in kinds]  # type: ignore[arg-type]  # lists are fine as headers, too
    both("encode", records, 0, 0)
    assert _kernel.index(_kernel.encode(records)[0], 3) == kernel_py.index(kernel_py.encode(records)[0], 3)


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_small_checksums_and_hashes(data, crc):
    assert both("crc32c", data, crc) == _kernel.crc32c_portable(data, crc)
    both("murmur2", data)


@pytest.mark.parametrize("size", [767, 768, 769, 12287, 12288, 12288 + 768 + 9, 140_000])
def test_large_checksums(size):
    """Across the sizes at which the compiled one changes its method, at odd addresses."""
    data = random.Random(size).randbytes(size + 3)
    for shift in range(3):
        part = memoryview(data)[shift : shift + size]
        assert both("crc32c", part) == _kernel.crc32c_portable(part)


# Keys and values that name schemas, in their first bytes or in headers, and such as almost do.
NAMED = st.sampled_from(
    [
        b"\0\0\0\0\7payload",
        b"\0\0\0\0\7",
        b"\0\0\0\0\x08",
        b"\0\0\0\7",
        b"\0\xff\xff\xff\xff",
        b"\1\0\0\0\7",
        b"\1" + b"g" * 16,
        b"\1" + b"g" * 16 + b"\2\2",
        b"\1" + b"h" * 16,
        b"\1" + b"g" * 15,
    ]
)
ID_HEADERS = st.lists(
    st.tuples(st.sampled_from(["__value_schema_id", "__key_schema_id", "other"]), st.none() | NAMED),
    max_size=3,
)
NAMING = st.lists(
    st.builds(Record, st.just(-1), st.just(0), FIELD | NAMED, FIELD | NAMED, ID_HEADERS.map(tuple)),
    max_size=8,
)


@given(NAMING, CHANGES, st.integers(0, 2), st.booleans(), st.sets(st.integers(0, 9)), st.integers(-1, 3))
@settings(max_examples=300)
def test_ids_of_schemas(records, changes, cut, is_key, ids, limit):
    payload, count, _, _ = kernel_py.encode(records, 0, 0)
    known = array("i", sorted(ids)).tobytes()
    for data in (payload, mutated(payload, changes, cut, b"")):
        for guids in (b"", b"a" * 16 + b"g" * 16):
            given_to_both = data, count, limit, is_key, known, guids
            compiled = outcome(_kernel.strays, *given_to_both)
            assert compiled == outcome(kernel_ids_py.strays, *given_to_both)
