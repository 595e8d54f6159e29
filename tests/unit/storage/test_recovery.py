"""What is cut, what is kept beside, and what is said about it."""

import errno
from typing import Any

import pytest

from ottla.config.log import LogConfig
from ottla.errors import KafkaStorageError
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build
from ottla.wire.records import Record, read

FIRST = "t-0/00000000000000000000.log"
BATCH = build([Record(0, 5, b"k", b"v" * 20)])


def opened(disk: MemoryDisk, *, clean: bool = False, recovery_point: int = 0, **settings: Any):
    reports: list[str] = []
    log = Log.open(
        Location(disk, "t-0", FileCache()),
        LogConfig(index_interval_bytes=150, **settings),
        LastRun(clean, recovery_point),
        now_ms=5,
        report=reports.append,
    )
    return log, reports


def filled(count: int, **settings: Any) -> MemoryDisk:
    disk = MemoryDisk()
    log, _ = opened(disk, **settings)
    for _ in range(count):
        log.append(BATCH, leader_epoch=0, now_ms=5)
    return disk


def flip(disk: MemoryDisk, path: str, position: int) -> None:
    file = disk.open(path)
    file.write_at(position, bytes([file.read(position, 1)[0] ^ 0xFF]))


def test_an_intact_log_opens_without_a_word():
    log, reports = opened(filled(10))
    assert (log.end_offset, reports) == (10, [])


def test_a_torn_last_batch_is_cut_and_nothing_is_kept():
    disk = filled(10)
    disk.tear_last_append(70)
    log, reports = opened(disk)
    assert log.end_offset == 9
    assert len(reports) == 1
    assert "70 bytes from offset 9 on are gone: the batch is not whole" in reports[0]
    assert not [name for name in disk.list("t-0") if name.endswith(".corrupt")]
    assert disk.size(FIRST) == 9 * len(BATCH)


def test_a_bad_batch_with_good_ones_behind_it_is_cut_and_the_bytes_are_kept():
    disk = filled(10)
    removed = disk.read_whole(FIRST)[4 * len(BATCH) :]
    flip(disk, FIRST, 4 * len(BATCH) + 70)
    log, reports = opened(disk)
    assert log.end_offset == 4
    (kept,) = [name for name in disk.list("t-0") if name.endswith(".corrupt")]
    assert len(disk.read_whole(f"t-0/{kept}")) == len(removed)
    assert disk.read_whole(f"t-0/{kept}")[len(BATCH) :] == removed[len(BATCH) :]
    assert kept in reports[0]
    assert "CRC" in reports[0]


def test_garbage_behind_the_last_batch_is_cut():
    disk = filled(3)
    disk.tear(FIRST, 3 * len(BATCH), bytes(500))
    log, reports = opened(disk)
    assert log.end_offset == 3
    assert len(reports) == 1


def test_what_lies_before_the_recovery_point_is_not_checked():
    disk = filled(10)
    flip(disk, FIRST, 2 * len(BATCH) + 70)
    log, reports = opened(disk, recovery_point=5)
    assert (log.end_offset, reports) == (10, [])


def test_after_a_clean_stop_nothing_is_checked():
    disk = filled(10)
    log, _ = opened(disk)
    log.close(clean=True)
    flip(disk, FIRST, 9 * len(BATCH) + 70)
    log, reports = opened(disk, clean=True)
    assert (log.end_offset, reports) == (10, [])


def test_segments_behind_a_corrupt_one_are_taken_out_and_kept():
    disk = filled(10, segment_bytes=4 * len(BATCH))
    flip(disk, FIRST, 2 * len(BATCH) + 70)
    log, reports = opened(disk, segment_bytes=4 * len(BATCH))
    assert log.end_offset == 2
    assert len(reports) == 3
    assert "t-0/00000000000000000004.log.corrupt" in reports[1]
    assert disk.exists("t-0/00000000000000000004.log.corrupt")
    log.append(BATCH, leader_epoch=1, now_ms=5)
    assert opened(disk)[0].end_offset == 3


def test_a_compacted_log_may_have_gaps_between_segments_another_may_not():
    disk = filled(10, segment_bytes=4 * len(BATCH))
    disk.tear(FIRST, 2 * len(BATCH))
    assert opened(disk.copy(), compact=True)[0].end_offset == 10
    log, reports = opened(disk)
    assert log.end_offset == 2
    assert "the offsets up to 4 are missing" in reports[0]


@pytest.mark.parametrize("damage", ["missing", "empty", "odd", "zeros", "of another log"])
def test_indexes_are_made_anew_when_they_are_of_no_use(damage):
    disk = filled(20, segment_bytes=10 * len(BATCH))
    log, _ = opened(disk, segment_bytes=10 * len(BATCH))
    log.close(clean=True)
    for base in (0, 10):
        for kind in ("index", "timeindex"):
            path = f"t-0/{base:020d}.{kind}"
            match damage:
                case "missing":
                    disk.remove(path)
                case "empty":
                    disk.write_whole(path, b"")
                case "odd":
                    disk.write_whole(path, b"abc")
                case "zeros":
                    disk.write_whole(path, bytes(2400))
                case "of another log":
                    disk.write_whole(path, bytes([0, 0, 0, 3, 0, 0, 0, 77] * (1 if kind == "index" else 0)))
    log, reports = opened(disk, clean=True, segment_bytes=10 * len(BATCH))
    assert reports == []
    for offset in range(20):
        assert read(log.read(offset, max_bytes=1, up_to=20).data)[0].offset == offset
    assert log.offset_for_timestamp(5).offset == 0


def test_a_damaged_snapshot_is_removed_and_the_state_replayed():
    disk = MemoryDisk()
    log, _ = opened(disk, segment_bytes=300)
    for at in range(9):
        batch = build([Record(0, 5, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=at)
        log.append(batch, leader_epoch=0, now_ms=5)
    log.close(clean=True)
    names = [name for name in disk.list("t-0") if name.endswith(".snapshot")]
    flip(disk, f"t-0/{names[-1]}", 12)
    log, reports = opened(disk, clean=True)
    assert len(reports) == 1
    assert "CRC" in reports[0]
    assert log.producers.entries[1].last_sequence == 8
    assert log.append(batch, leader_epoch=0, now_ms=5).duplicate


def test_indexes_without_a_log_are_removed():
    disk = filled(3)
    disk.write_whole("t-0/00000000000000000099.index", b"")
    opened(disk)
    assert not disk.exists("t-0/00000000000000000099.index")


def test_leader_epochs_come_back_from_the_batches():
    disk = MemoryDisk()
    log, _ = opened(disk)
    for epoch in (1, 1, 4):
        log.append(BATCH, leader_epoch=epoch, now_ms=5)
    disk.remove("t-0/leader-epoch-checkpoint")
    log, _ = opened(disk)
    assert log.epochs.entries == [(1, 0), (4, 2)]


def test_a_batch_whose_offset_goes_back_is_cut():
    disk = filled(3)
    disk.open(FIRST).append((disk.read_whole(FIRST)[: len(BATCH)],))
    log, reports = opened(disk)
    assert log.end_offset == 3
    assert "offset 0 comes after 2" in reports[0]


def test_a_segment_without_its_indexes_gets_its_aborted_transactions_back():
    """Although a snapshot at its end would make the replay shorter."""
    disk = MemoryDisk()
    log, _ = opened(disk)
    batch = build(
        [Record(0, 5, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    log.append(batch, leader_epoch=0, now_ms=5)
    log.append_marker(1, 0, False, 0, leader_epoch=0, now_ms=5)
    log.close(clean=True)
    for kind in ("index", "timeindex", "txnindex"):
        disk.remove(f"t-0/{0:020d}.{kind}")
    log, _ = opened(disk)
    assert log.aborted_transactions(0, 2) == [(1, 0, 1, 2)]


def aborted_once(disk: MemoryDisk, **settings: Any) -> Log:
    """A log that begins with an aborted transaction: a record, and its marker."""
    log, _ = opened(disk, **settings)
    batch = build(
        [Record(0, 5, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    log.append(batch, leader_epoch=0, now_ms=5)
    log.append_marker(1, 0, False, 0, leader_epoch=0, now_ms=5)
    return log


def without_room_for(disk: MemoryDisk, path_part: str) -> None:
    disk.fail("write_at", OSError(errno.ENOSPC, "no space left on device"), path_part=path_part)


def test_an_aborted_transaction_is_known_after_a_kill_although_the_disk_was_full_when_its_segment_closed():
    """The snapshot of the next segment and two of three indexes were written before the disk was full."""
    disk = MemoryDisk()
    log = aborted_once(disk, segment_ms=10)
    flush = log.begin_flush()
    flush.run()
    log.on_flushed(flush)
    without_room_for(disk, "txnindex")
    with pytest.raises(KafkaStorageError):
        log.roll_if_due(5000)
    assert disk.exists(f"t-0/{2:020d}.snapshot")
    disk.crash(lose_unsynced=False)
    log, _ = opened(disk, recovery_point=2)
    assert log.aborted_transactions(0, 2) == [(1, 0, 1, 2)]


def test_an_aborted_transaction_is_known_although_the_disk_was_full_at_a_clean_stop():
    disk = MemoryDisk()
    log = aborted_once(disk)
    without_room_for(disk, "txnindex")
    log.close(clean=True)
    disk.crash()
    log, _ = opened(disk, clean=True)
    assert log.aborted_transactions(0, 2) == [(1, 0, 1, 2)]


@pytest.mark.parametrize("recovery_point", [0, 3])
def test_an_aborted_transaction_of_a_closed_segment_is_known_after_a_crash_and_the_start_after_that(
    recovery_point,
):
    disk = MemoryDisk()
    log = aborted_once(disk, segment_ms=10)
    log.roll_if_due(5000)
    log.append(BATCH, leader_epoch=0, now_ms=5)
    for kind in ("index", "timeindex", "txnindex"):
        disk.remove(f"t-0/{0:020d}.{kind}")
    log, _ = opened(disk, recovery_point=recovery_point)
    log.close(clean=True)
    log, _ = opened(disk, clean=True)
    assert log.aborted_transactions(0, 3) == [(1, 0, 1, 2)]


def test_an_abort_whose_marker_was_lost_with_the_power_is_not_believed():
    """The index reached the disk and the end of the log did not: what is appended next is no part of it."""
    disk = MemoryDisk()
    log = aborted_once(disk)
    marker_at = disk.last_append[1]
    log.close(clean=True)
    disk.tear(FIRST, marker_at)
    log, _ = opened(disk)
    assert log.end_offset == 1
    log.append_marker(1, 0, True, 0, leader_epoch=0, now_ms=5)
    assert log.aborted_transactions(0, 2) == []


def test_a_snapshot_of_what_was_truncated_is_never_used_again():
    disk = MemoryDisk()
    log, _ = opened(disk)
    for at in range(4):
        batch = build([Record(0, 5, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=at)
        log.append(batch, leader_epoch=0, now_ms=5)
    log.close(clean=True)
    log, _ = opened(disk, clean=True)
    log.truncate_to(2)
    for _ in range(4):
        log.append(BATCH, leader_epoch=1, now_ms=5)
    log, _ = opened(disk)
    assert log.producers.entries[1].last_sequence == 1


def test_the_indexes_of_a_closed_segment_survive_a_power_cut_once_all_is_flushed():
    disk = MemoryDisk()
    log, _ = opened(disk, segment_ms=10)
    for roll in (True, False):
        log.append(BATCH, leader_epoch=0, now_ms=5)
        if roll:  # flushed already when it is closed
            flush = log.begin_flush()
            flush.run()
            log.on_flushed(flush)
            log.roll_if_due(5000)
    flush = log.begin_flush()
    flush.run()
    log.on_flushed(flush)
    disk.crash()
    assert disk.size("t-0/00000000000000000000.timeindex") == 12
    log, reports = opened(disk, recovery_point=2)
    assert (log.end_offset, reports) == (2, [])


# What was not synced may be gone in part: nothing that was built on it is believed.


def flushed(log: Log) -> None:
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    log.on_flushed(flush)


def all_but(*lost: str):
    """A power cut that takes these files, and of the rest nothing."""
    return lambda path, unsynced: None if path.endswith(lost) else unsynced


def test_the_aborts_of_a_segment_that_was_flushed_when_it_closed_are_known_without_its_transaction_index():
    disk = MemoryDisk()
    log = aborted_once(disk, segment_ms=10)
    flushed(log)
    log.roll_if_due(5000)
    assert log.recovery_point == log.active_base_offset == 2
    disk.crash(survives=all_but(".txnindex"))
    log, _ = opened(disk, recovery_point=2)
    assert log.aborted_transactions(0, 2) == [(1, 0, 1, 2)]


@pytest.mark.parametrize("lost", [".txnindex", ".snapshot", ".index", ".timeindex"])
def test_indexes_made_anew_are_synced_before_the_recovery_point_passes_them(lost):
    disk = MemoryDisk()
    log = aborted_once(disk, segment_ms=10)
    flushed(log)
    log.roll_if_due(5000)
    disk.crash(survives=all_but(lost))
    log, _ = opened(disk, recovery_point=2)
    log.append(BATCH, leader_epoch=0, now_ms=5)
    flushed(log)
    assert log.recovery_point == 3
    disk.crash(survives=all_but(".txnindex"))
    log, _ = opened(disk, recovery_point=3)
    assert log.aborted_transactions(0, 3) == [(1, 0, 1, 2)]


def test_the_newest_record_is_found_although_the_time_index_is_not_whole():
    disk = MemoryDisk()
    log, _ = opened(disk)
    for at in range(300):  # enough for the flush to write indexes, which it does not sync
        batch = build([Record(0, 1000 if at == 20 else 5, b"k", b"v" * 200)])
        log.append(batch, leader_epoch=0, now_ms=5)
    flushed(log)
    disk.crash(survives=lambda path, unsynced: 0 if path.endswith("timeindex") else unsynced)
    log, _ = opened(disk, recovery_point=300)
    assert log.offset_for_timestamp(1000).offset == 20
    assert log.segments[0].largest_timestamp == 1000


def test_epochs_found_in_the_batches_are_durable_before_the_recovery_point_passes_them():
    disk = MemoryDisk()
    small: dict[str, Any] = {"segment_bytes": 4 * len(BATCH)}
    log, _ = opened(disk, **small)
    log.append(BATCH, leader_epoch=1, now_ms=5)
    flushed(log)
    log.append(BATCH, leader_epoch=4, now_ms=5)
    disk.crash(survives=lambda path, unsynced: unsynced if path.endswith(".log") else None)
    log, _ = opened(disk, recovery_point=1, **small)
    for _ in range(5):
        log.append(BATCH, leader_epoch=4, now_ms=5)
    flushed(log)
    disk.crash()
    log, _ = opened(disk, recovery_point=log.recovery_point, **small)
    assert log.epochs.entries == [(1, 0), (4, 1)]


def test_the_recovery_point_waits_while_there_is_no_room_for_the_epochs():
    disk = MemoryDisk()
    log, _ = opened(disk, flush_messages=2)
    log.append(BATCH, leader_epoch=1, now_ms=5)
    disk.fail("append", OSError(errno.ENOSPC, "no space left on device"), path_part="epoch")
    log.append(BATCH, leader_epoch=4, now_ms=5)
    assert log.begin_flush() is None
    assert log.flush_due(5)  # and is tried again
    disk.clear_faults()
    flushed(log)
    assert log.recovery_point == 2


def test_an_epoch_is_known_although_the_disk_was_full_at_a_clean_stop():
    disk = MemoryDisk()
    log, _ = opened(disk)
    log.append(BATCH, leader_epoch=1, now_ms=5)
    flushed(log)
    disk.fail("append", OSError(errno.ENOSPC, "no space left on device"), path_part="epoch")
    for _ in range(9):
        log.append(BATCH, leader_epoch=4, now_ms=5)
    log.close(clean=True)
    disk.crash()
    log, _ = opened(disk, clean=True)
    assert log.epochs.entries == [(1, 0), (4, 1)]


def test_epochs_of_what_was_cut_off_are_not_believed_for_what_came_in_its_place():
    """A leader of epoch 4 gives way to one that led epoch 3 and had never heard of the fourth."""
    disk, leader = MemoryDisk(), opened(MemoryDisk())[0]
    log, _ = opened(disk)
    for ours, theirs in ((1, 1), (1, 1), (4, 3), (4, 3)):
        log.append(BATCH, leader_epoch=ours, now_ms=5)
        leader.append(BATCH, leader_epoch=theirs, now_ms=5)
    flushed(log)
    log.truncate_to(2)
    log.append_replicated(leader.read(2, max_bytes=1 << 20, up_to=4).data, now_ms=5)
    disk.crash(survives=lambda path, unsynced: unsynced if path.endswith(".log") else None)
    log, _ = opened(disk, recovery_point=2)
    assert log.epochs.entries == leader.epochs.entries == [(1, 0), (3, 2)]


def test_of_a_compacted_log_epochs_begin_where_they_began():
    """Although the first batch of the epoch may be gone."""
    disk = MemoryDisk()
    log, _ = opened(disk, compact=True)
    for epoch in (1, 4, 4):
        log.append(BATCH, leader_epoch=epoch, now_ms=5)
    whole = disk.read_whole(FIRST)
    disk.tear(FIRST, len(BATCH), whole[2 * len(BATCH) :])
    log, _ = opened(disk, compact=True)
    assert log.epochs.entries == [(1, 0), (4, 1)]


@pytest.mark.parametrize("cut", ["by recovery", "by its leader"])
def test_segments_taken_out_do_not_come_back_behind_other_records(cut):
    """Their names of before are still on the disk when the power fails a second time."""
    disk = MemoryDisk()
    log, _ = opened(disk, segment_ms=10)
    log.append(BATCH, leader_epoch=1, now_ms=5)
    log.append(BATCH, leader_epoch=1, now_ms=5)
    log.roll_if_due(5000)
    log.append(BATCH, leader_epoch=1, now_ms=5)
    disk.sync_folder("t-0")
    disk.sync_folder("")
    if cut == "by recovery":
        kept = {FIRST: len(BATCH)}
        disk.crash(survives=lambda path, unsynced: kept.get(path, unsynced))
        log, _ = opened(disk)
    else:
        log.truncate_to(1)
    assert log.end_offset == 1
    log.append(BATCH, leader_epoch=2, now_ms=5)
    disk.crash(survives=lambda path, unsynced: unsynced)
    log, _ = opened(disk)
    assert (log.end_offset, log.epochs.entries) == (2, [(1, 0), (2, 1)])
