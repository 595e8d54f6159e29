"""The column functions of both kernels agree on every input, also on columns that are too small."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import kernel_columns_py, kernel_py
from ottla.wire.records import Record

_kernel = pytest.importorskip("ottla.wire._kernel")

INT64 = st.integers(-(2**63), 2**63 - 1)
FIELD = st.none() | st.binary(max_size=20)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(-1),
        INT64,
        FIELD,
        FIELD,
        st.lists(st.tuples(st.text(max_size=3), FIELD), max_size=2).map(tuple),
    ),
    max_size=12,
)
SPAN = st.tuples(st.integers(-1, 12), st.integers(-1, 13) | st.just(2**31))
SHORT = st.tuples(*[st.integers(0, 3)] * 3)
CHANGE = st.none() | st.tuples(st.integers(0, 10**6), st.integers(0, 255))


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def cells(rows, size, short=(0, 0, 0)):
    """Offsets, data, validity; each cut by some bytes (offsets by whole ones)."""
    sizes = (4 * (rows + 1 - min(short[0], rows)), size - short[1], (rows + 7) // 8 - short[2])
    return tuple(bytearray(max(each, 0)) for each in sizes)


def changed(payload, change):
    data = bytearray(payload)
    if change and data:
        data[change[0] % len(data)] = change[1]
    return bytes(data)


@given(RECORDS, SPAN, CHANGE, INT64, INT64, st.booleans(), SHORT, st.integers(0, 3), st.integers(-1, 3))
@settings(max_examples=300)
def test_filling(records, span, change, base_offset, base_timestamp, same_time, short, fewer, row):
    payload, count, _, _ = kernel_py.encode(records)
    payload = changed(payload, change)
    compiled = outcome(_kernel.measure_columns, payload, count, *span)
    assert compiled == outcome(kernel_columns_py.measure_columns, payload, count, *span)
    refused = isinstance(compiled[0], type)
    if refused:
        compiled = (3,) * 8
    rows, key_bytes, value_bytes, _, _, headers, header_keys, header_values = compiled
    rows += max(row, 0)

    def filled(module):
        key, value = cells(rows, key_bytes, short), cells(rows, value_bytes, short[::-1])
        offsets, timestamps = bytearray(8 * max(rows - fewer, 0)), bytearray(8 * max(rows - fewer, 0))
        given_columns = (payload, count, *span, row, base_offset, base_timestamp, same_time, key, value)
        result = outcome(module.fill_columns, *given_columns, offsets, timestamps)
        return result, None if isinstance(result, tuple) else (key, value, offsets, timestamps)

    def filled_headers(module):
        lists = bytearray(4 * (rows + 1 - min(fewer, rows)))
        key, value = cells(headers, header_keys, short), cells(headers, header_values, short[::-1])
        result = outcome(module.fill_headers, payload, count, *span, row, lists, key[:2], value)
        return result, None if isinstance(result, tuple) else (lists, key, value)

    if refused:  # nobody fills then; which of two faults is told first does not matter
        assert filled(_kernel)[1] is filled_headers(_kernel)[1] is None
    else:
        assert filled(_kernel) == filled(kernel_columns_py)
        assert filled_headers(_kernel) == filled_headers(kernel_columns_py)


@given(
    st.lists(st.tuples(FIELD, FIELD, INT64), max_size=10),
    st.integers(-1, 10),
    st.integers(0, 3),
    st.integers(0, 200),
    st.booleans(),
    SHORT,
    st.lists(st.integers(-5, 300), max_size=2),
)
@settings(max_examples=300)
def test_encoding(rows, first, beyond, max_bytes, timed, short, wrong):
    def column(values, short):
        ends = [0]
        for value in values:
            ends.append(ends[-1] + len(value or b""))
        for at, end in enumerate(wrong):
            ends[at % len(ends)] = end
        valid = sum((value is not None) << at for at, value in enumerate(values)).to_bytes(
            (len(values) + 7) // 8, "little"
        )
        offsets = struct.pack(f"{len(ends)}i", *ends)[: 4 * (len(ends) - min(short[0], len(values)))]
        data = b"".join(value or b"" for value in values)
        return offsets, data[: max(len(data) - short[1], 0)], None if short[2] else valid

    key, value = column([row[0] for row in rows], short), column([row[1] for row in rows], (0, 0, 0))
    times = struct.pack(f"{len(rows)}q", *(row[2] for row in rows)) if timed else None
    for columns in ((key, value), (None, value), (key, None), (None, None)):
        args = (first, len(rows) + beyond, max_bytes, *columns, times, 7)
        assert outcome(_kernel.encode_columns, *args) == outcome(kernel_columns_py.encode_columns, *args)


@given(st.lists(FIELD, max_size=12), st.integers(-1, 13), st.integers(-1, 9), st.booleans(), SHORT)
def test_partitioning(keys, rows, partitions, without, short):
    data = b"".join(key or b"" for key in keys)
    ends = [0]
    for key in keys:
        ends.append(ends[-1] + len(key or b""))
    bits = bytearray((len(keys) + 7) // 8)
    for row, key in enumerate(keys):
        bits[row >> 3] |= (key is not None) << (row & 7)
    offsets = struct.pack(f"={len(ends)}i", *ends)
    whole = (offsets, data, bytes(bits))
    column = tuple(
        part[: len(part) - cut * size] for part, cut, size in zip(whole, short, (4, 1, 1), strict=True)
    )
    given_column = None if without else column
    compiled = outcome(_kernel.partition_column, rows, given_column, partitions)
    assert compiled == outcome(kernel_columns_py.partition_column, rows, given_column, partitions)
    if compiled.__class__ is bytes and not without and not any(short):
        expected = [
            -1 if k is None else (kernel_py.murmur2(k) & 0x7FFFFFFF) % partitions for k in keys[:rows]
        ]
        assert list(struct.unpack(f"={rows}i", compiled)) == expected
