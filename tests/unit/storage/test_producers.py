"""Sequences, epochs, duplicates, expiry, snapshots."""

import struct
from typing import Any

import pytest

from ottla import errors
from ottla.storage.producers import BadSnapshot, Producers
from ottla.wire.batch import BatchHeader, build, read_header
from ottla.wire.records import Record


def a_header(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, timestamp: int = 5, **fields: Any
) -> BatchHeader:
    records = [Record(at, timestamp, b"k", b"v") for at in range(count)]
    batch = build(records, producer_id=7, producer_epoch=epoch, base_sequence=sequence, **fields)
    header = read_header(batch)
    header.base_offset = offset
    return header


def with_batches(*headers: BatchHeader) -> Producers:
    producers = Producers()
    for header in headers:
        assert producers.check(header) is None
        producers.apply(header)
    return producers


def test_the_last_five_batches_are_known_as_duplicates_older_ones_are_out_of_order():
    producers = with_batches(*(a_header(at, offset=at) for at in range(7)))
    for sequence in range(2, 7):
        assert producers.check(a_header(sequence)).first_offset == sequence
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        producers.check(a_header(1))


def test_a_batch_that_overlaps_but_is_not_the_same_is_out_of_order():
    producers = with_batches(a_header(0, 3))
    for sequence, count in [(0, 2), (1, 2), (2, 1), (4, 1)]:
        with pytest.raises(errors.OutOfOrderSequenceNumber):
            producers.check(a_header(sequence, count))
    assert producers.check(a_header(3)) is None


def test_an_unknown_producer_may_start_with_any_sequence():
    assert with_batches(a_header(40), a_header(41)).entries[7].last_sequence == 41


def test_an_older_epoch_is_refused_and_a_newer_one_starts_at_sequence_0():
    producers = with_batches(a_header(0, epoch=3))
    with pytest.raises(errors.InvalidProducerEpoch):
        producers.check(a_header(1, epoch=2))
    with pytest.raises(errors.OutOfOrderSequenceNumber):
        producers.check(a_header(1, epoch=4))
    producers.apply(a_header(0, epoch=4, offset=9))
    assert producers.check(a_header(0, epoch=4)).first_offset == 9
    assert len(producers.entries[7].batches) == 1


def test_a_sequence_wraps_inside_of_a_batch_and_between_batches():
    producers = with_batches(a_header(2**31 - 2, 3), a_header(1))
    assert producers.entries[7].last_sequence == 1
    producers = with_batches(a_header(2**31 - 1), a_header(0))
    assert producers.check(a_header(2**31 - 1)) is not None


def test_a_plain_batch_inside_of_a_transaction_is_refused():
    producers = with_batches(a_header(0, transactional=True))
    with pytest.raises(errors.InvalidTxnState):
        producers.check(a_header(1))


def test_silent_producers_are_forgotten_unless_a_transaction_is_open():
    producers = with_batches(a_header(0, timestamp=100))
    producers.expire(199, 100)
    assert 7 in producers.entries
    producers.expire(200, 100)
    assert 7 not in producers.entries
    producers = with_batches(a_header(0, timestamp=100, transactional=True))
    producers.expire(10_000, 100)
    assert 7 in producers.entries


def test_a_snapshot_has_kafkas_bytes():
    producers = with_batches(a_header(5, 3, epoch=2, offset=10, transactional=True))
    data = producers.dump()
    assert data[:2] == b"\x00\x01"
    entry = struct.pack(">qhiqiqiq", 7, 2, 7, 12, 2, 5, -1, 10)
    assert data[6:] == struct.pack(">i", 1) + entry
    again = Producers.load(data)
    assert again.entries == producers.entries
    assert again.open_transactions == {7: 10}


@pytest.mark.parametrize("damage", ["short", "version", "crc", "count"])
def test_a_damaged_snapshot_is_refused(damage):
    data = bytearray(with_batches(a_header(0)).dump())
    match damage:
        case "short":
            data = data[:5]
        case "version":
            data[1] = 9
        case "crc":
            data[-1] ^= 1
        case "count":
            data[9] = 2
    with pytest.raises(BadSnapshot):
        Producers.load(bytes(data))


def test_a_producer_of_old_records_is_not_forgotten_while_it_is_at_work():
    producers = Producers()
    producers.now_ms = 10_000
    producers.apply(a_header(0, timestamp=5))
    producers.expire(10_099, 100)
    assert 7 in producers.entries
    producers.expire(10_100, 100)
    assert 7 not in producers.entries
