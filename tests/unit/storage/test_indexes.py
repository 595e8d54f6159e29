"""Kafka's index files, in memory and as bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.epochs import BadEpochs, LeaderEpochs
from ottla.storage.files import FileCache
from ottla.storage.indexes import (
    AbortedTransaction,
    BadIndex,
    OffsetIndex,
    TimeIndex,
    dump_aborted,
    load_aborted,
)
from ottla.storage.memory import MemoryDisk

rising = st.lists(st.integers(1, 50), max_size=20).map(
    lambda steps: [sum(steps[: at + 1]) for at in range(len(steps))]
)


@given(rising, st.integers(0, 1000), st.integers(0, 1000))
def test_an_offset_index_finds_the_last_entry_that_is_not_behind(offsets, offset, position):
    index = OffsetIndex()
    for at, each in enumerate(offsets):
        index.append(each, at * 10)
    index = OffsetIndex.load(index.dump())
    assert index.lookup(offset) == max(
        (at * 10 for at, each in enumerate(offsets) if each <= offset), default=0
    )
    known = [at * 10 for at in range(len(offsets))]
    assert index.position_at_most(position) == max((each for each in known if each <= position), default=0)
    index.truncate(position)
    assert list(index.positions) == [each for each in known if each < position]


def test_the_bytes_are_kafkas():
    index = OffsetIndex()
    index.append(3, 100)
    index.append(9, 4300)
    assert index.dump() == struct.pack(">iiii", 3, 100, 9, 4300)
    assert index.dump(1) == struct.pack(">ii", 9, 4300)
    time = TimeIndex()
    time.maybe_append(1000, 3)
    time.maybe_append(1000, 5)
    time.maybe_append(999, 6)
    time.maybe_append(2000, 9)
    assert time.dump() == struct.pack(">qiqi", 1000, 3, 2000, 9)
    transaction = AbortedTransaction(7, 10, 20, 15)
    assert dump_aborted([transaction]) == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert load_aborted(dump_aborted([transaction])) == [transaction]


def test_a_time_index_never_skips_a_record_that_is_asked_for():
    time = TimeIndex()
    for timestamp, offset in [(10, 3), (20, 7), (30, 9)]:
        time.maybe_append(timestamp, offset)
    assert [time.lookup(each) for each in (5, 10, 11, 20, 21, 31)] == [0, 0, 3, 3, 7, 9]


def test_files_that_are_no_index_are_refused():
    with pytest.raises(BadIndex):
        OffsetIndex.load(b"1234567")
    with pytest.raises(BadIndex):
        OffsetIndex.load(struct.pack(">iiii", 5, 10, 5, 20))
    with pytest.raises(BadIndex):
        OffsetIndex.load(bytes(16))
    with pytest.raises(BadIndex):
        TimeIndex.load(bytes(24))
    with pytest.raises(BadIndex):
        load_aborted(b"x" * 33)
    with pytest.raises(BadIndex):
        load_aborted(struct.pack(">hqqqq", 1, 7, 10, 20, 15))


def test_the_cache_closes_the_file_that_was_used_longest_ago():
    disk = MemoryDisk()
    for name in "abc":
        disk.write_whole(name, name.encode())
    files = FileCache(files_max=2)
    first = files.file(disk, "a")
    files.file(disk, "b")
    assert files.file(disk, "a") is first
    files.file(disk, "c")
    assert files.file(disk, "a") is first
    assert disk.open_files == 2
    files.forget(disk, "a")
    assert disk.open_files == 1


def test_epochs_are_read_as_they_were_written_and_damage_is_seen():
    epochs = LeaderEpochs()
    epochs.assign(0, 0)
    epochs.assign(2, 10)
    epochs.assign(2, 15)
    assert epochs.dump() == b"0\n2\n0 0\n2 10\n"
    assert LeaderEpochs.load(epochs.dump()).entries == epochs.entries
    for damaged in (
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\nx y\n",
        b"0\n2\n5 1\n2 0\n",
        b"0\n1\n1\n",
        b"0\n2\n0 0\n1 1",
        b"0\n2\n0 3\n1 3\n",
    ):
        with pytest.raises(BadEpochs):
            LeaderEpochs.load(damaged)


def test_an_epoch_that_contradicts_others_replaces_them():
    epochs = LeaderEpochs()
    for epoch, start in [(1, 0), (3, 10), (5, 20)]:
        epochs.assign(epoch, start)
    epochs.assign(4, 10)
    assert epochs.entries == [(1, 0), (4, 10)]


def test_epochs_follow_both_ends_of_the_log():
    epochs = LeaderEpochs()
    for epoch, start in [(1, 0), (3, 10), (5, 20)]:
        epochs.assign(epoch, start)
    assert [epochs.epoch_of(offset) for offset in (0, 9, 10, 25)] == [1, 1, 3, 5]
    epochs.truncate_from_end(20)
    assert epochs.entries == [(1, 0), (3, 10)]
    epochs.truncate_from_start(5)
    assert epochs.entries == [(1, 5), (3, 10)]
    epochs.truncate_from_start(10)
    assert epochs.entries == [(3, 10)]
    epochs.truncate_from_start(99)
    assert epochs.entries == [(3, 99)]
