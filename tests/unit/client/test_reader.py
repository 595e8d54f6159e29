import pytest

from ottla.client.core.chunks import Chunk
from ottla.client.core.reader import Reader, Unreadable
from ottla.client.values import OffsetAndMetadata, TopicPartition
from tests.unit.client.test_chunks import P, a_batch, marker


def offsets(records) -> list[int]:
    return [record.offset for record in records]


def test_positions_follow_what_was_handed_out_and_not_what_was_read_ahead() -> None:
    reader = Reader()
    reader.add([Chunk(P, a_batch(0, b"a", b"b", b"c"), 0)])
    assert offsets(reader.take(2)) == [0, 1]
    assert reader.positions[P].offset == 2
    assert offsets(reader.take(2)) == [2]
    assert reader.positions[P].offset == 3


def test_markers_behind_the_last_record_are_passed_with_it_and_not_before() -> None:
    reader = Reader()
    data = a_batch(0, b"a", b"b", producer=1) + marker(2, 1, committed=True)
    reader.add([Chunk(P, data, 0), Chunk(P, marker(3, 2, committed=False), 3)])
    reader.take(1)
    assert reader.positions[P].offset == 1
    reader.take(5)
    assert reader.positions[P].offset == 4


def test_a_chunk_of_markers_alone_moves_the_position() -> None:
    reader = Reader()
    reader.add([Chunk(P, marker(5, 1, committed=True), 5)])
    assert reader.take(10) == []
    assert reader.positions[P].offset == 6


def test_what_was_read_ahead_of_a_seek_is_dropped_for_that_partition_alone() -> None:
    other = TopicPartition("t", 4)
    reader = Reader()
    reader.add([Chunk(P, a_batch(0, b"a", b"b"), 0), Chunk(other, a_batch(0, b"x"), 0)])
    reader.take(1)
    reader.place(P, OffsetAndMetadata(7))
    assert [(r.partition, r.offset) for r in reader.take(9)] == [(4, 0)]
    assert reader.positions[P].offset == 7


def test_a_corrupt_batch_is_told_after_all_before_it_and_nothing_behind_it_is_handed_out() -> None:
    data = bytearray(a_batch(0, b"a", b"b") + a_batch(2, b"c") + a_batch(3, b"d"))
    data[len(a_batch(0, b"a", b"b")) + 62] ^= 1
    reader = Reader()
    reader.add([Chunk(P, bytes(data), 0)])
    assert offsets(reader.take(10)) == [0, 1]
    with pytest.raises(Unreadable, match="t-3") as caught:
        reader.take(10)
    assert caught.value.offset == 2
    assert reader.positions[P].offset == 2


def test_a_value_that_the_users_function_refuses_is_told_with_its_offset() -> None:
    reader = Reader(value=lambda data: int(data))
    reader.add([Chunk(P, a_batch(0, b"1", b"x", b"3"), 0)])
    assert [r.value for r in reader.take(10)] == [1]
    with pytest.raises(Unreadable, match=r"t-3, offset 1: invalid literal") as caught:
        reader.take(10)
    assert caught.value.offset == 1
