import pytest

from ottla.metadata.journal import MAGIC, Journal, JournalDamaged
from ottla.metadata.log import Deposed, DiskFailed
from ottla.storage.memory import MemoryDisk

from .test_log_port import Reader, a_record, append, snapshot

LOG = "meta/metadata.log"


def opened(disk, lines=None):
    journal, reader = Journal(disk, "meta", report=(lines if lines is not None else []).append), Reader()
    journal.open(reader)
    journal.claim(1)
    return journal, reader, reader.leases[-1][1]


def test_what_was_acknowledged_survives_a_power_cut():
    disk = MemoryDisk()
    journal, _, epoch = opened(disk)
    for position in range(3):
        append(journal, position, epoch, a_record(position))
    disk.crash()
    _, reader, _ = opened(disk)
    assert [position for position, _ in reader.entries] == [0, 1, 2]


def test_a_torn_tail_is_cut_and_reported_and_the_log_goes_on():
    disk, lines = MemoryDisk(), []
    journal, _, epoch = opened(disk)
    append(journal, 0, epoch, a_record(0))
    append(journal, 1, epoch, a_record(1))
    disk.tear_last_append(9, b"??")
    journal, reader, epoch = opened(disk, lines)
    assert reader.entries == [(0, [a_record(0)])]
    assert lines == [f"{LOG}: cut 11 bytes after entry 0"]
    assert append(journal, 1, epoch, a_record(7)) is None
    assert opened(disk)[1].entries[-1] == (1, [a_record(7)])


def test_damage_before_whole_entries_is_not_taken_for_a_torn_tail():
    disk = MemoryDisk()
    journal, _, epoch = opened(disk)
    for position in range(3):
        append(journal, position, epoch, a_record(position))
    file = disk.open(LOG)
    file.write_at(len(MAGIC) + 12, b"\xff")
    with pytest.raises(JournalDamaged, match="before entries that are whole"):
        opened(disk)


def test_a_file_of_another_format_is_refused():
    disk = MemoryDisk()
    disk.make_folder("meta")
    disk.write_whole(LOG, b"something else that is longer than the magic")
    with pytest.raises(JournalDamaged, match="no metadata log"):
        opened(disk)


def test_a_damaged_snapshot_is_refused():
    disk = MemoryDisk()
    journal, _, epoch = opened(disk)
    append(journal, 0, epoch, a_record(0))
    snapshot(journal, 1, epoch, a_record(0))
    disk.tear("meta/metadata.snapshot", 20)
    with pytest.raises(JournalDamaged, match="snapshot"):
        opened(disk)


def test_a_failed_write_leaves_nothing_that_the_next_one_could_stand_behind():
    disk = MemoryDisk()
    journal, reader, epoch = opened(disk)
    append(journal, 0, epoch, a_record(0))
    disk.fail("append", partial=5, times=1)
    assert isinstance(append(journal, 1, epoch, a_record(1)), DiskFailed)
    assert append(journal, 1, epoch, a_record(2)) is None
    assert reader.entries == opened(disk)[1].entries == [(0, [a_record(0)]), (1, [a_record(2)])]


def test_an_entry_whose_sync_failed_does_not_come_back():
    disk = MemoryDisk()
    journal, reader, epoch = opened(disk)
    disk.fail("sync", times=1)
    assert isinstance(append(journal, 0, epoch, a_record(1)), DiskFailed)
    assert reader.entries == []
    assert opened(disk)[1].entries == []


def test_a_journal_that_cannot_take_an_entry_back_writes_no_more():
    disk, lines = MemoryDisk(), []
    journal, _, epoch = opened(disk, lines)
    disk.fail("sync", times=1)
    disk.fail("truncate")
    append(journal, 0, epoch, a_record(1))
    assert isinstance(append(journal, 0, epoch, a_record(2)), Deposed)
    assert "refusing to write on" in lines[0]


def test_a_crash_between_snapshot_and_trim_skips_what_the_snapshot_holds():
    disk = MemoryDisk()
    journal, _, epoch = opened(disk)
    for position in range(3):
        append(journal, position, epoch, a_record(position))
    disk.fail("truncate", path_part="metadata.log")
    assert isinstance(snapshot(journal, 3, epoch, a_record(2)), DiskFailed)
    disk.clear_faults()
    journal, reader, epoch = opened(disk)
    assert (reader.snapshots, reader.entries) == ([(3, [a_record(2)])], [])
    assert append(journal, 3, epoch, a_record(3)) is None
    assert opened(disk)[1].entries == [(3, [a_record(3)])]


def test_while_a_sync_runs_aside_nothing_else_is_written():
    disk, waiting = MemoryDisk(), []
    journal, reader = Journal(disk, "meta", run_aside=lambda *job: waiting.append(job)), Reader()
    journal.open(reader)
    journal.claim(1)
    outcomes = []
    journal.append(0, 1, [a_record(1)], outcomes.append)
    assert (outcomes, reader.entries) == ([], [])
    journal.append(0, 1, [a_record(2)], outcomes.append)
    assert len(outcomes) == 1
    work, then = waiting.pop()
    work()
    then(None)
    assert reader.entries == [(0, [a_record(1)])]
    assert outcomes[1] is None
