from dataclasses import replace

import pytest

from ottla.storage.cleanable import assess, filthiest
from ottla.storage.compaction import CannotClean, Cleaning, LogChanged, run_all
from ottla.storage.files import CLEANED
from ottla.storage.key_map import ENTRY_BYTES
from ottla.storage.reading import read_batches
from ottla.wire import compression, records
from tests.property.cleaning import FOLDER, NOW_MS, DirtyLog, batches_on


def pairs(*texts: str) -> list[tuple[bytes | None, bytes | None]]:
    """`a=1` is a record, `a` its tombstone, `=1` a record without a key."""
    made: list[tuple[bytes | None, bytes | None]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        made.append((key.encode() or None, value.encode() if equals else None))
    return made


def kept(log: DirtyLog) -> str:
    return " ".join(f"{row.offset}:{row.key.decode()}={(row.value or b'-').decode()}" for row in log.left())


def test_of_every_key_the_newest_record_stays_at_its_offset():
    log = DirtyLog()
    log.write(pairs("a=1", "b=1", "a=2"))
    log.write(pairs("b=2", "c=1"))
    log.roll()
    log.write(pairs("c=2"))
    assert log.clean() == 5
    assert kept(log) == "2:a=2 3:b=2 4:c=1 5:c=2"


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_keeps_its_codec_offsets_and_sequence(codec: int):
    log = DirtyLog()
    log.write(pairs("a=1", "b=1", "c=1", "a=2", "z=9"), producer=7, codec=codec)
    log.write(pairs("z=10"))
    log.roll()
    log.clean()
    header, batch = batches_on(log.disk)[0]
    assert (header.codec, header.base_offset, header.last_offset, header.base_sequence, header.count) == (
        codec,
        0,
        4,
        0,
        3,
    )
    assert [each.offset for each in records.read(batch)] == [1, 2, 3]
    assert header.max_timestamp == 3
    assert log.left() == log.expected(log.end_offset)


def test_records_without_a_key_go():
    log = DirtyLog()
    log.write(pairs("=1", "a=1"))
    log.roll()
    log.clean()
    assert kept(log) == "1:a=1"


def test_the_active_segment_is_not_touched():
    log = DirtyLog()
    log.write(pairs("a=1"))
    log.roll()
    log.write(pairs("a=2", "a=3"))
    log.clean()
    assert kept(log) == "0:a=1 1:a=2 2:a=3"


def test_nothing_at_or_past_the_first_unstable_offset_is_cleaned():
    log = DirtyLog()
    log.write(pairs("a=1", "a=2"))
    log.roll()
    log.write(pairs("b=1", "b=2"), producer=1, transactional=True)
    log.roll()
    log.write(pairs("a=3"))
    log.roll()
    assert log.clean() == 2
    assert kept(log) == "1:a=2 2:b=1 3:b=2 4:a=3"


def test_a_tombstone_gets_a_horizon_first_and_goes_after_it():
    log = DirtyLog()
    log.write(pairs("a=1", "b=1"))
    log.write(pairs("a"))
    log.write(pairs("c=1"))
    log.roll()
    log.clean(now_ms=1000)
    assert kept(log) == "1:b=1 2:a=- 3:c=1"
    tombstone = next(header for header, _ in batches_on(log.disk) if header.base_offset == 2)
    assert tombstone.has_delete_horizon and tombstone.base_timestamp == 1100
    assert log.left() == log.expected(4)  # the timestamps are what they were
    log.clean(0, now_ms=1099)
    assert kept(log) == "1:b=1 2:a=- 3:c=1"
    log.clean(0, now_ms=1100)
    assert kept(log) == "1:b=1 3:c=1"


def test_a_horizon_is_set_once():
    log = DirtyLog()
    log.write(pairs("a"))
    log.write(pairs("b=1"))
    log.roll()
    log.clean(now_ms=1000)
    log.clean(0, now_ms=1050)
    assert batches_on(log.disk)[0][0].base_timestamp == 1100


def test_records_of_aborted_transactions_go_and_do_not_shadow_older_ones():
    log = DirtyLog()
    log.write(pairs("a=1"))
    log.write(pairs("a=2", "b=2"), producer=1, transactional=True)
    log.end_transaction(1, committed=False)
    log.write(pairs("a=3"), producer=1, transactional=True)
    log.end_transaction(1, committed=True)
    log.write(pairs("c=1"), producer=1, transactional=True)
    log.end_transaction(1, committed=False)
    log.write(pairs("x=1"))
    log.roll()
    log.clean()
    assert kept(log) == "4:a=3 8:x=1"


def test_a_marker_goes_only_after_its_records_and_its_horizon():
    log = DirtyLog()
    log.write(pairs("a=1"), producer=1, transactional=True)
    log.end_transaction(1, committed=True)
    log.write(pairs("a=2"), producer=1)
    log.write(pairs("z=1"))
    log.roll()

    def offsets_of_markers() -> list[int]:
        return [header.base_offset for header, _ in batches_on(log.disk) if header.is_control]

    log.clean(now_ms=1000)  # its transaction's batch goes now, so the marker is still needed
    assert offsets_of_markers() == [1]
    log.clean(0, now_ms=2000)  # nothing of the transaction is left: the horizon is set
    assert offsets_of_markers() == [1]
    log.clean(0, now_ms=2099)
    assert offsets_of_markers() == [1]
    log.clean(0, now_ms=2100)
    assert offsets_of_markers() == []


def test_the_transaction_index_follows_the_markers():
    log = DirtyLog()
    log.write(pairs("a=1"), producer=1, transactional=True)
    log.write(pairs("k=1"))
    log.end_transaction(1, committed=False)
    log.write(pairs("b=1"), producer=1)
    log.write(pairs("z=1"))
    log.roll()
    log.clean(now_ms=1000)
    assert [each.first_offset for each in log.segments[0].aborted] == [0]
    log.clean(0, now_ms=2000)
    assert log.segments[0].aborted == []


def test_the_last_batch_of_a_live_producer_is_kept_empty():
    log = DirtyLog()
    log.write(pairs("a=1", "b=1"), producer=3)
    log.write(pairs("a=2", "b=2"))
    log.roll()
    log.clean()
    header, batch = batches_on(log.disk)[0]
    assert (header.producer_id, header.base_sequence, header.last_sequence, header.count) == (3, 0, 1, 0)
    assert len(batch) == 61
    assert kept(log) == "2:a=2 3:b=2"


def test_the_empty_batch_goes_once_the_producer_has_written_again():
    log = DirtyLog()
    log.write(pairs("a=1"), producer=3)
    log.write(pairs("a=2"))
    log.roll()
    log.clean()
    log.write(pairs("b=1"), producer=3)
    log.roll()
    log.clean(0)
    assert [header.base_offset for header, _ in batches_on(log.disk)] == [1, 2]


def test_the_last_batch_of_a_pass_shows_where_the_pass_ended():
    log = DirtyLog()
    log.write(pairs("a=1"))
    log.write(pairs("=1"))
    log.roll()
    log.write(pairs("a=2"))
    log.clean()
    assert [header.base_offset for header, _ in batches_on(log.disk)] == [0, 1, 2]


def test_log_append_time_stays():
    log = DirtyLog()
    log.write(pairs("a=1", "a=2", "b"), log_append_time_ms=77)
    log.roll()
    log.clean()
    header, batch = batches_on(log.disk)[0]
    assert header.log_append_time and header.max_timestamp == 77
    assert [each.timestamp for each in records.read(batch)] == [77, 77]


def test_a_dirty_part_larger_than_the_map_is_cleaned_in_parts():
    log = DirtyLog()
    for number in range(20):
        log.write(pairs(f"k{number % 10}=1"))
    log.roll()
    first = log.clean(key_map_bytes=4 * ENTRY_BYTES)
    assert first == 4
    dirty, rounds = first, 1
    while dirty < 20:
        dirty = log.clean(dirty, key_map_bytes=4 * ENTRY_BYTES)
        rounds += 1
    assert rounds >= 5
    assert log.left() == log.expected(20)


def test_a_batch_larger_than_the_map_does_not_block_compaction():
    log = DirtyLog()
    log.write([(b"%d" % number, b"") for number in range(50)])
    log.write(pairs("0=new"))
    log.roll()
    assert log.clean(key_map_bytes=1) == 50
    assert log.clean(50, key_map_bytes=1) == 51
    assert log.left() == log.expected(51)


def test_long_keys_are_told_apart_by_their_digest():
    log = DirtyLog()
    stem = "k" * 100
    log.write(pairs(f"{stem}1=1", f"{stem}2=1", f"{stem}1=2"))
    log.roll()
    log.clean()
    assert [row.offset for row in log.left()] == [1, 2]


def test_small_segments_become_one():
    log = DirtyLog()
    for number in range(6):
        log.write(pairs(f"k{number}=1"))
        log.roll()
    size = log.segments[0].size_bytes
    log.config = replace(log.config, segment_bytes=3 * size)
    log.clean()
    assert [each.base_offset for each in log.segments] == [0, 3, 6]
    assert log.left() == log.expected(6)


def test_a_cleaned_segment_has_indexes_that_fit_it():
    log = DirtyLog()
    log.config = replace(log.config, index_interval_bytes=100)
    for number in range(30):
        log.write(pairs(f"k{number % 20}=1"))
    log.roll()
    log.clean()
    segment = log.segments[0]
    assert segment.max_timestamp == max(row.timestamp for row in log.left())
    for row in log.left():
        found = read_batches(segment, row.offset, max_bytes=1, up_to=100, at_least_one=True)
        assert found is not None and found.next_offset == row.offset + 1


def test_a_damaged_batch_stops_the_pass_and_leaves_the_log_alone():
    log = DirtyLog()
    log.write(pairs("a=1", "a=2"))
    log.roll()
    file = log.disk.open(f"{FOLDER}/{0:020d}.log")
    file.write_at(70, b"\xff")
    before = log.disk.read_whole(f"{FOLDER}/{0:020d}.log")
    with pytest.raises(CannotClean, match="damaged"):
        log.clean()
    assert log.disk.read_whole(f"{FOLDER}/{0:020d}.log") == before
    assert not [name for name in log.disk.list(FOLDER) if name.endswith(CLEANED)]


def test_a_log_that_changed_meanwhile_is_not_swapped():
    log = DirtyLog()
    log.write(pairs("a=1", "a=2"))
    log.roll()
    steps = Cleaning(assess(log, None, NOW_MS), now_ms=NOW_MS).steps()
    next(job for job in steps if job is not None and job.__name__ == "sync")
    log.segments[0].size_bytes -= 1
    with pytest.raises(LogChanged):
        run_all(steps)
    assert [
        name for name in log.disk.list(FOLDER) if not name.startswith(f"{0:020d}.") or "." in name[21:]
    ] == []


def test_a_pass_that_is_closed_on_the_way_leaves_nothing_behind():
    log = DirtyLog()
    log.write(pairs("a=1", "a=2"))
    log.roll()
    before = log.disk.list(FOLDER)
    steps = Cleaning(assess(log, None, NOW_MS), now_ms=NOW_MS).steps()
    next(steps)
    assert log.disk.list(FOLDER) != before
    steps.close()
    assert log.disk.list(FOLDER) == before


def test_long_batches_are_walked_in_steps_and_packed_in_threads():
    log = DirtyLog()
    log.write([(b"%d" % (number % 7000), b"v" * 20) for number in range(10_000)], codec=compression.GZIP)
    log.roll()
    jobs = turns = 0
    for job in Cleaning(assess(log, None, NOW_MS), now_ms=NOW_MS, key_map_bytes=10 << 20).steps():
        if job is None:
            turns += 1
        else:
            jobs += 1
            job()
    assert turns >= 8 and jobs >= 3
    assert log.left() == log.expected(10_000)


# Which log is due.


def a_log(dirty_bytes: int = 1) -> DirtyLog:
    log = DirtyLog()
    log.write(pairs("a=1"))
    log.roll()
    for _ in range(dirty_bytes):
        log.write(pairs("a=1"))
        log.roll()
    return log


def test_the_ratio_is_of_dirty_to_all_closed_segments():
    log = a_log(3)
    work = assess(log, 1, NOW_MS)
    assert (work.first_dirty_offset, work.first_uncleanable_offset) == (1, 4)
    assert work.ratio == pytest.approx(0.75)


def test_the_filthiest_log_comes_first():
    little, much = a_log(2), a_log(5)
    works = [assess(log, 1, NOW_MS) for log in (little, much)]
    chosen = filthiest(works)
    assert chosen is not None and chosen.log is much


def test_a_log_at_or_below_its_ratio_is_not_due():
    log = a_log(1)
    assert assess(log, 1, NOW_MS).ratio == 0.5
    assert filthiest([assess(log, 1, NOW_MS)]) is None
    log.config = replace(log.config, min_cleanable_dirty_ratio=0.49)
    assert filthiest([assess(log, 1, NOW_MS)]) is not None


def test_a_log_that_is_not_compacted_is_never_due():
    log = a_log(9)
    log.config = replace(log.config, compact=False, delete=True)
    assert filthiest([assess(log, 0, NOW_MS)]) is None


def test_records_younger_than_the_minimal_lag_are_left_alone():
    log = a_log(3)  # timestamps are the offsets, doubled below 7
    log.config = replace(log.config, min_compaction_lag_ms=10)
    assert assess(log, 0, now_ms=13).first_uncleanable_offset == 2
    assert assess(log, 0, now_ms=100).first_uncleanable_offset == 4


def test_a_log_older_than_the_maximal_lag_is_due_whatever_its_ratio():
    log = a_log(1)
    log.write(pairs("a=1"))
    log.roll()
    log.config = replace(log.config, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=50)
    assert filthiest([assess(log, 1, now_ms=52)]) is None
    assert filthiest([assess(log, 1, now_ms=53)]) is not None
    assert filthiest([assess(log, 3, now_ms=53)]) is None


def test_a_checkpoint_outside_of_the_log_counts_for_nothing():
    log = a_log(2)
    assert assess(log, 99, NOW_MS).first_dirty_offset == 0
    log.log_start_offset = 1
    assert assess(log, 0, NOW_MS).first_dirty_offset == 1
