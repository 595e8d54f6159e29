import struct

import pytest

from ottla.client.core.chunks import Chunk
from ottla.client.values import TopicPartition
from ottla.errors import CorruptMessage
from ottla.wire import batch as batches
from ottla.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire.records import Record

P = TopicPartition("t", 3)


def a_batch(
    offset: int, *values: bytes, producer: int = -1, control: bool = False, codec: int = NONE
) -> bytes:
    rows = [Record(offset + i, 1000 + i, None, value) for i, value in enumerate(values)]
    return batches.build(
        rows,
        base_offset=offset,
        leader_epoch=4,
        codec=codec,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=-1 if control or producer < 0 else 0,
        transactional=producer >= 0,
        control=control,
    )


def marker(offset: int, producer: int, committed: bool) -> bytes:
    rows = [Record(offset, 1, struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, 0))]
    return batches.build(
        rows, base_offset=offset, producer_id=producer, producer_epoch=0, transactional=True, control=True
    )


def values(chunk: Chunk) -> list[bytes | None]:
    return [record.value for _, record in chunk.records()]


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_records_before_the_asked_offset_are_left_out(codec: int) -> None:
    chunk = Chunk(P, a_batch(10, b"a", b"b", b"c", codec=codec), fetch_offset=11)
    assert values(chunk) == [b"b", b"c"]
    assert chunk.end() == (13, 4)


def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    data = a_batch(0, b"a") + a_batch(1, b"b")[:-1]
    chunk = Chunk(P, data, fetch_offset=0)
    assert values(chunk) == [b"a"]
    assert chunk.end()[0] == 1


# Producer 1 aborts, producer 2 commits, then producer 1 sends again and commits.
LOG = (
    a_batch(0, b"1a", producer=1)
    + a_batch(1, b"2a", producer=2)
    + a_batch(2, b"plain")
    + marker(3, 1, committed=False)
    + marker(4, 2, committed=True)
    + a_batch(5, b"1b", producer=1)
    + marker(6, 1, committed=True)
)


def test_read_committed_leaves_out_what_was_aborted_and_nothing_else() -> None:
    chunk = Chunk(P, LOG, 0, aborted=((0, 1),), read_committed=True)
    assert values(chunk) == [b"2a", b"plain", b"1b"]
    assert chunk.end()[0] == 7


def test_read_uncommitted_sees_everything_but_the_markers() -> None:
    assert values(Chunk(P, LOG, 0, aborted=((0, 1),))) == [b"1a", b"2a", b"plain", b"1b"]


def test_whole_batches_are_handed_out_without_a_copy() -> None:
    chunk = Chunk(P, LOG, 0, aborted=((0, 1),), read_committed=True)
    found = list(chunk.batches())
    assert [header.base_offset for header, _ in found] == [1, 2, 5]
    assert all(view.obj is LOG for _, view in found)


@pytest.mark.parametrize("at", [20, 61, -1])
def test_a_corrupt_batch_is_an_error_that_names_topic_partition_and_offset(at: int) -> None:
    data = bytearray(a_batch(0, b"a") + a_batch(1, b"bbbb"))
    first = len(a_batch(0, b"a"))
    data[(first + at) if at >= 0 else at] ^= 0x40
    chunk = Chunk(P, bytes(data), fetch_offset=0)
    with pytest.raises(CorruptMessage, match=r"t-3.*offset 1"):
        values(chunk)
