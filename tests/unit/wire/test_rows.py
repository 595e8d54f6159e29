"""Both kernels' way of a record into a batch: the same bytes, the same refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import kernel, kernel_rows_py
from ottla.wire.corruption import BadRecord
from ottla.wire.kernel_py import encode, index, murmur2

FOREVER = 1 << 60
blobs = st.none() | st.binary(max_size=200)
rows = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    blobs,
    blobs,
    st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple),
)


@pytest.fixture(params=["this", "python"])
def side(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield kernel if request.param == "this" else kernel_rows_py


def a_lane(
    side: Any, *, gates: int = 3, room: int = 1 << 20, batch: int = 1 << 20, hashes: bool = True
) -> Any:
    opened = [side.Gate() for _ in range(gates)]
    for number, gate in enumerate(opened):
        gate.open(f"batch {number}", side.Rows(batch))
    memory = side.Room(room)
    return side.Lane(memory, opened, side.Receipt, FOREVER, hashes, time.time), opened, memory


@given(st.lists(rows, max_size=20), st.integers(1, 2000))
def test_rows_are_what_encode_makes_of_them_and_both_kernels_agree(
    given_rows: list[Any], bytes_max: int
) -> None:
    ours, theirs = kernel.Rows(bytes_max), kernel_rows_py.Rows(bytes_max)
    taken = []
    for row in given_rows:
        answer = ours.append(*row)
        assert answer == theirs.append(*row)
        if answer >= 0:
            assert answer == len(taken)
            taken.append((-1, *row))
    base = taken[0][1] if taken else 0
    payload, count, _, max_timestamp = encode(taken, 0, base)
    for each in (ours, theirs):
        assert (each.payload(), len(each), each.size) == (payload, count, len(payload))
        assert each.max_timestamp == max_timestamp
        assert [each.timestamp(i) for i in range(count)] == [row[1] for row in taken]


@given(st.lists(st.tuples(blobs, blobs, st.none() | st.integers(-1, 4)), max_size=30), st.booleans())
def test_lanes_of_both_kernels_choose_count_and_refuse_alike(sends: list[Any], hashes: bool) -> None:
    lanes = [a_lane(each, room=2000, batch=700, hashes=hashes) for each in (kernel, kernel_rows_py)]
    for lane, _, _ in lanes:
        lane.stick(1, 300)
    for value, key, partition in sends:
        told = [lane.send(value, key, partition, (), 5) for lane, _, _ in lanes]
        first, second = (each and (each.batch, each.index) for each in told)
        assert first == second
        assert lanes[0][0].sticky == lanes[1][0].sticky
        assert lanes[0][2].used == lanes[1][2].used


def test_a_key_goes_where_java_puts_it(side: Any) -> None:
    lane, _, _ = a_lane(side)
    for key in (b"", b"a", b"kafka", bytes(100)):
        assert lane.send(b"v", key, None, (), None).batch == f"batch {(murmur2(key) & 0x7FFFFFFF) % 3}"


def test_a_record_without_a_key_goes_where_the_lane_sticks_until_so_many_bytes_went_there(side: Any) -> None:
    lane, _, _ = a_lane(side)
    assert lane.send(b"v", None, None, (), None) is None  # nowhere yet
    lane.stick(2, 20)
    told = [lane.send(b"value", None, None, (), None) for _ in range(4)]
    assert [each and each.batch for each in told] == ["batch 2", "batch 2", None, None]


@pytest.mark.parametrize("value, key", [("text", None), (None, "text"), (b"v", 5), (bytearray(b"v"), None)])
def test_what_is_not_bytes_is_for_python_to_serialize(side: Any, value: Any, key: Any) -> None:
    assert a_lane(side)[0].send(value, key, 0, (), None) is None


def test_a_lane_takes_nothing_when_its_time_is_over_its_gate_shut_or_its_batch_closed(side: Any) -> None:
    gate, late = side.Gate(), side.Gate()
    batch = side.Rows(1000)
    late.open("b", batch)
    room = side.Room(1000)
    assert side.Lane(room, [late], side.Receipt, 0, True, time.time).send(b"v", None, 0, (), None) is None
    lane = side.Lane(room, [gate, late], side.Receipt, FOREVER, True, time.time)
    assert lane.send(b"v", None, 0, (), None) is None
    assert lane.send(b"v", None, 1, (), None) is not None
    batch.close()
    assert lane.send(b"v", None, 1, (), None) is None
    late.shut()
    assert late.filling is None
    assert lane.send(b"v", None, 1, (), None) is None


def test_a_full_buffer_takes_nothing_but_one_record_that_is_larger_than_all_of_it(side: Any) -> None:
    lane, _, room = a_lane(side, room=100, batch=1 << 20)
    assert lane.send(b"x" * 500, None, 0, (), None) is not None
    assert lane.send(b"x", None, 0, (), None) is None
    room.give(room.used)
    assert lane.send(b"x", None, 0, (), None) is not None


def test_headers_are_written_and_a_wrong_one_leaves_nothing_behind(side: Any) -> None:
    lane, _, room = a_lane(side, gates=1)
    with pytest.raises((TypeError, ValueError, AttributeError)):
        lane.send(b"v", None, 0, (("a", b"1"), ("b", 5)), None)
    assert room.used == 0
    assert lane.send(b"v", b"k", 0, (("a", b"1"), ("b", None)), 7) is not None
    batch = side.Rows(1000)
    batch.append(7, b"k", b"v", [("a", b"1"), ("b", None)])
    assert room.used == batch.size
    assert index(batch.payload(), 1)


def test_released_rows_keep_only_their_timestamps(side: Any) -> None:
    batch = side.Rows(1000)
    batch.append(7, None, b"v", ())
    batch.release()
    assert (batch.payload(), len(batch), batch.timestamp(0)) == (b"", 1, 7)
    assert batch.append(8, None, b"v", ()) == -1
    with pytest.raises(IndexError):
        batch.timestamp(1)


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_timestamp_of_more_than_64_bits_is_an_error(side: Any, timestamp: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        side.Rows(1000).append(timestamp, None, b"v", ())


def test_gates_and_lanes_take_only_their_own_kind(side: Any) -> None:
    with pytest.raises(TypeError):
        side.Gate().open("batch", [])
    if side is kernel and kernel.COMPILED:
        for arguments in (([], [], side.Receipt), (side.Room(1), [5], side.Receipt), (side.Room(1), [], int)):
            with pytest.raises(TypeError):
                side.Lane(*arguments, 0, True, time.time)


class Read(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_type: int
    leader_epoch: int


@given(st.lists(rows, max_size=10), st.integers(0, 15), st.none() | st.integers(-(2**63), 2**63 - 1))
def test_records_come_back_as_they_went_in_from_the_first_offset_on(
    given_rows: list[Any], first: int, stamp: int | None
) -> None:
    batch = kernel.Rows(1 << 40)
    for row in given_rows:
        batch.append(*row)
    base = batch.timestamp(0) if given_rows else 0
    arguments = (Read, batch.payload(), len(batch), 5 + first, 5, base, stamp, "t", 3, 1, 7)
    found = kernel.tuples(*arguments)
    assert found == kernel_rows_py.tuples(*arguments)
    assert found == [
        Read("t", 3, 5 + number, time if stamp is None else stamp, key, value, headers, 1, 7)
        for number, (time, key, value, headers) in enumerate(given_rows)
        if number >= first
    ]
    assert all(type(each) is Read for each in found)


@given(st.binary(max_size=60), st.integers(0, 5))
def test_bad_records_are_refused_alike(payload: bytes, count: int) -> None:
    told = []
    for side in (kernel, kernel_rows_py):
        try:
            told.append(side.tuples(Read, payload, count, 0, 0, 0, None, "t", 0, 0, 0))
        except BadRecord as error:
            told.append(str(error))
    assert told[0] == told[1]


def test_names_of_headers_that_are_no_utf_8_are_mended(side: Any) -> None:
    (record,) = side.tuples(
        Read, b"\x16\x00\x00\x00\x01\x01\x02\x04\xff\x61\x02\x62", 1, 0, 0, 0, None, "t", 0, 0, 0
    )
    assert record.headers == (("\ufffda", b"b"),)
    if kernel.COMPILED:
        with pytest.raises(TypeError):
            kernel.tuples(list, b"", 0, 0, 0, 0, None, "t", 0, 0, 0)  # type: ignore[type-var]
