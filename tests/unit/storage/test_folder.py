import errno

import pytest

from ottla.config.log import LogConfig
from ottla.errors import CorruptMessage, KafkaStorageError
from ottla.storage import checkpoints
from ottla.storage.checkpoints import DamagedFile
from ottla.storage.cleanable import assess
from ottla.storage.compaction import Cleaning, run_all
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder, duplicates
from ottla.storage.folder_names import (
    DELETE,
    FUTURE,
    STRAY,
    FolderName,
    marked_folder,
    parse_folder,
    partition_folder,
)
from ottla.storage.log import Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.storage.move import Move
from ottla.wire.batch import build
from ottla.wire.records import Record

UNIQUE = "0123456789abcdef0123456789abcdef"
A0, A1 = ("a", 0), ("a", 1)


class Home:
    """A log folder on a disk, and what it said."""

    def __init__(self, disk: MemoryDisk | None = None, path: str = "data") -> None:
        self.disk = disk or MemoryDisk()
        self.lines: list[str] = []
        self.failures: list[OSError] = []
        self.folder = LogFolder(
            self.disk,
            path,
            files=FileCache(),
            report=self.lines.append,
            on_offline=lambda _, error: self.failures.append(error),
        )
        self.found = self.folder.load()

    def open(self, partition: tuple[str, int], config: LogConfig | None = None) -> Log:
        opening = self.folder.opening(partition, config or LogConfig(), now_ms=0)
        opening.run()
        return self.folder.on_opened(opening)


def a_batch(text: str = "v", count: int = 1) -> bytes:
    return build([Record(at, 1, b"k", text.encode()) for at in range(count)])


def append(log: Log, text: str = "v", count: int = 1) -> None:
    log.append(a_batch(text, count), leader_epoch=0, now_ms=0)
    log.advance_high_watermark(log.end_offset)


def contents(log: Log) -> bytes:
    data, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        part = log.read(offset, max_bytes=1 << 20, up_to=log.end_offset)
        data += part.data
        offset = part.next_offset
    return data


# Names.


@pytest.mark.parametrize("topic", ["a", "a-b", "a.b-1", "x" * 249])
def test_a_partition_folder_is_named_and_recognised_as_in_kafka(topic: str):
    assert parse_folder(partition_folder(topic, 12)) == FolderName(topic, 12, "")


@pytest.mark.parametrize("kind", [DELETE, FUTURE, STRAY])
def test_marked_folders_are_recognised(kind: str):
    assert marked_folder("a-b", 3, UNIQUE, kind) == f"a-b-3.{UNIQUE}{kind}"
    assert parse_folder(marked_folder("a-b", 3, UNIQUE, kind)) == FolderName("a-b", 3, kind)


def test_a_marked_name_never_exceeds_what_a_file_system_takes():
    name = marked_folder("t" * 249, 99999, UNIQUE, DELETE)
    assert len(name) == 255
    found = parse_folder(name)
    assert found is not None and (found.partition, found.kind) == (99999, DELETE)


@pytest.mark.parametrize("name", ["meta.properties", "lost+found", "a", "a-", "-1", "a-1x"])
def test_other_names_are_not_partitions(name: str):
    assert parse_folder(name) is None


# Start and stop.


def test_a_clean_stop_brings_everything_back():
    home = Home()
    log = home.open(A0)
    for _ in range(3):
        append(log)
    log.delete_records_before(1)
    home.folder.cleaner_offsets[A0] = 2
    home.folder.close(broker_epoch=5)
    home.disk.crash()
    again = Home(home.disk)
    assert again.folder.was_clean
    assert again.found == [A0]
    log = again.open(A0)
    assert (log.log_start_offset, log.high_watermark, log.end_offset, log.recovery_point) == (1, 3, 3, 3)
    assert again.folder.cleaner_offsets == {A0: 2}


def test_after_a_crash_the_mark_is_gone_and_the_recovery_point_counts():
    home = Home()
    append(home.open(A0))
    home.folder.close()
    again = Home(home.disk)
    append(again.open(A0))
    third = Home(home.disk)
    assert not third.folder.was_clean
    assert third.open(A0).end_offset == 2


def test_a_checkpoint_keeps_what_is_not_opened_yet():
    disk = MemoryDisk()
    checkpoints.write_offsets(disk, checkpoints.HIGH_WATERMARKS, {("b", 0): 7})
    home = Home(disk)
    append(home.open(A0))
    home.folder.checkpoint()()
    assert checkpoints.read_offsets(disk, checkpoints.HIGH_WATERMARKS) == {A0: 1, ("b", 0): 7}


def test_a_checkpoint_is_of_the_moment_it_was_asked_for():
    home = Home()
    log = home.open(A0)
    append(log)
    write = home.folder.checkpoint()
    append(log)
    write()
    assert checkpoints.read_offsets(home.disk, checkpoints.HIGH_WATERMARKS) == {A0: 1}


def test_a_new_folder_becomes_ours_and_stays_so():
    home = Home()
    meta = home.folder.meta("c", 1, bytes(range(16)))
    assert home.folder.meta("c", 1, bytes(16)) == meta
    with pytest.raises(DamagedFile, match="is of broker 1"):
        home.folder.meta("c", 2, bytes(16))
    with pytest.raises(DamagedFile, match="of cluster c"):
        home.folder.meta("other", 1, bytes(16))


def test_a_damaged_checkpoint_stops_the_start():
    disk = MemoryDisk()
    disk.write_whole(checkpoints.HIGH_WATERMARKS, b"0\n1\n")
    with pytest.raises(DamagedFile, match=checkpoints.HIGH_WATERMARKS):
        Home(disk)


# Deleting.


def test_a_deleted_partition_is_out_of_sight_at_once_and_gone_after_the_job():
    home = Home()
    append(home.open(A0))
    append(home.open(A1))
    job = home.folder.remove(A0, UNIQUE)
    assert home.folder.partitions() == [A1]
    assert home.disk.list("") == ["a-0.0123456789abcdef0123456789abcdef-delete", "a-1"]
    job()
    assert home.disk.list("") == ["a-1"]
    home.folder.checkpoint()()
    assert checkpoints.read_offsets(home.disk, checkpoints.HIGH_WATERMARKS) == {A1: 1}


def test_a_topic_made_anew_starts_from_nothing():
    home = Home()
    append(home.open(A0))
    home.folder.close()
    again = Home(home.disk)
    again.open(A0)
    again.folder.remove(A0, UNIQUE)
    log = again.open(A0)
    assert (log.end_offset, log.high_watermark, log.log_start_offset) == (0, 0, 0)


def test_leftovers_of_deletions_and_moves_go_at_the_next_start_and_strays_stay():
    home = Home()
    for partition, kind in ((A0, DELETE), (A1, FUTURE), (("b", 0), STRAY)):
        home.disk.make_folder(marked_folder(*partition, UNIQUE, kind))
    again = Home(home.disk)
    assert again.found == []
    for job in again.folder.leftovers():
        job()
    assert home.disk.list("") == [marked_folder("b", 0, UNIQUE, STRAY)]
    assert len(again.lines) == 2


def test_an_unknown_partition_is_put_aside():
    home = Home()
    append(home.open(A0))
    home.folder.strand(A0, UNIQUE)
    assert home.disk.list("") == [marked_folder("a", 0, UNIQUE, STRAY)]
    assert home.disk.list(marked_folder("a", 0, UNIQUE, STRAY))


def test_after_a_truncation_compaction_starts_before_the_cut():
    home = Home()
    for partition, cut in ((A0, 5), (A1, 10)):
        log = home.open(partition)
        for _ in range(3):
            append(log, count=5)
        home.folder.cleaner_offsets[partition] = 9
        log.truncate_to(cut)
    assert home.folder.cleaner_offsets == {A0: 5, A1: 9}


# What the checkpoints tell is true after a crash, too.


def flushed(log: Log) -> None:
    flush = log.begin_flush()
    assert flush is not None
    flush.run()
    log.on_flushed(flush)


def a_topic_that_was_trimmed() -> Home:
    home = Home()
    log = home.open(A0)
    append(log, count=5)
    append(log, count=5)
    log.delete_records_before(8)
    flushed(log)
    home.folder.checkpoint()()
    return home


@pytest.mark.parametrize("restarted", [False, True])
def test_what_was_written_to_a_topic_made_anew_outlives_a_kill_before_the_next_checkpoint(restarted: bool):
    """Where the topic before it began and what it had committed is no affair of the new one."""
    home = a_topic_that_was_trimmed()
    home.folder.remove(A0, UNIQUE)()
    if restarted:
        home.disk.crash(lose_unsynced=False)
        home = Home(home.disk)
    log = Log.create(
        Location(home.disk, "a-0", home.folder.files), LogConfig(), now_ms=0, topic_id=bytes(range(16))
    )
    home.folder.take_up(A0, log)
    log.append(a_batch("new"), leader_epoch=0, now_ms=0)
    home.disk.crash(lose_unsynced=False)
    again = Home(home.disk)
    log = again.open(A0)
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (0, 0, 1)


def test_a_checkpoint_that_was_taken_before_a_topic_went_does_not_come_after_it():
    home = a_topic_that_was_trimmed()
    late = home.folder.checkpoint()
    home.folder.remove(A0, UNIQUE)()
    log = home.open(A0)
    append(log)
    late()
    home.disk.crash(lose_unsynced=False)
    assert Home(home.disk).open(A0).end_offset == 1


def test_one_checkpoint_does_for_all_topics_that_went():
    home = a_topic_that_was_trimmed()
    append(home.open(A1))
    for partition in (A0, A1):
        home.folder.remove(partition, UNIQUE)()
    append(home.open(A0))
    home.disk.fail("write_whole")
    append(home.open(A1))
    home.disk.clear_faults()
    home.folder.remove(A0, UNIQUE)()
    home.folder.checkpoint()()  # in its own time
    home.disk.fail("write_whole")
    append(home.open(A0))
    assert not home.failures


@pytest.mark.parametrize("restarted", [False, True])
def test_what_came_in_the_place_of_what_was_cut_off_is_checked_after_a_crash(restarted: bool):
    """The recovery point was beyond it when it was written down."""
    home = Home()
    log = home.open(A0)
    for _ in range(9):
        append(log)
    flushed(log)
    home.folder.checkpoint()()
    if restarted:
        home.disk.tear("a-0/00000000000000000000.log", 4 * len(a_batch()))
        home.disk.crash(lose_unsynced=False)
        home = Home(home.disk)
        log = home.open(A0)
    else:
        log.truncate_to(4)
    assert log.end_offset == 4
    for _ in range(5):
        log.append(a_batch(), leader_epoch=1, now_ms=0)
    file = home.disk.open("a-0/00000000000000000000.log")
    file.write_at(7 * len(a_batch()) - 3, bytes(3))  # not all of it made it to the disk
    home.disk.crash(survives=lambda path, unsynced: unsynced)
    assert Home(home.disk).open(A0).end_offset == 6


def test_usage_tells_each_partition_s_size():
    home = Home()
    log = home.open(A0)
    append(log)
    home.open(A1)
    assert [(each.partition, each.size_bytes, each.is_future) for each in home.folder.usage()] == [
        (A0, len(a_batch()), False),
        (A1, 0, False),
    ]
    assert home.folder.end_offset(A0) == 1


# Failing.


def test_an_error_of_the_disk_takes_the_folder_offline_once():
    home = Home()
    log = home.open(A0)
    home.disk.fail("append", OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaStorageError), home.folder.guard():
        log.append(a_batch(), leader_epoch=0, now_ms=0)
    assert home.folder.is_offline
    with pytest.raises(KafkaStorageError, match="is offline"), home.folder.guard():
        raise AssertionError("never reached")
    assert len(home.failures) == 1
    assert len(home.lines) == 1
    assert home.lines[0].startswith("log folder data goes offline with 1 partitions: [Errno 5] broken")


def test_other_folders_go_on():
    broken, fine = Home(path="one"), Home(path="two")
    log = broken.open(A0)
    broken.disk.fail("append")
    with pytest.raises(KafkaStorageError), broken.folder.guard():
        log.append(a_batch(), leader_epoch=0, now_ms=0)
    with fine.folder.guard():
        append(fine.open(A1))
    assert not fine.folder.is_offline


def test_an_error_that_is_not_of_the_disk_is_no_reason_to_go_offline():
    home = Home()
    with pytest.raises(CorruptMessage), home.folder.guard():
        raise CorruptMessage
    assert not home.folder.is_offline


def test_a_log_that_does_not_open_for_the_disk_s_sake_takes_the_folder_along():
    home = Home()
    append(home.open(A0))
    again = Home(home.disk)
    home.disk.fail("list", path_part="a-0")
    with pytest.raises(KafkaStorageError):
        again.open(A0)
    assert again.folder.is_offline


# Moving.


def run(move: Move, between=lambda: None) -> Log:
    steps = move.steps()
    try:
        while True:
            job = next(steps)
            if job is not None:
                job()
            between()
    except StopIteration as done:
        return done.value


def test_a_moved_partition_has_the_same_records_in_its_new_folder():
    source, target = Home(path="one"), Home(path="two")
    log = source.open(A0, LogConfig(segment_bytes=200))
    for number in range(20):
        append(log, f"v{number}")
    source.folder.cleaner_offsets[A0] = 4
    before = contents(log)
    moved = run(Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0))
    assert contents(moved) == before
    assert (moved.end_offset, moved.high_watermark) == (20, 20)
    assert source.folder.logs == {} and source.disk.list("") == []
    assert target.folder.logs == {A0: moved} and target.folder.futures == {}
    assert target.folder.cleaner_offsets == {A0: 4}
    append(moved, "more")
    assert moved.end_offset == 21
    assert Home(target.disk).open(A0).end_offset == 21


def test_appends_go_on_during_a_move():
    source, target = Home(), Home()
    log = source.open(A0)
    append(log)
    left = iter(range(5))

    def keep_writing() -> None:
        if A0 in source.folder.logs and next(left, None) is not None:
            append(log)

    moved = run(Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0), keep_writing)
    assert moved.end_offset == log.end_offset >= 3
    assert len(contents(moved)) == log.size_bytes


def test_a_log_that_starts_inside_of_a_batch_moves_with_its_start():
    source, target = Home(), Home()
    log = source.open(A0)
    append(log, count=10)
    append(log)
    log.delete_records_before(4)
    moved = run(Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0))
    assert (moved.log_start_offset, moved.end_offset) == (4, 11)


def test_a_compacted_log_keeps_its_start_when_it_moves():
    source, target = Home(), Home()
    log = source.open(A0, LogConfig(compact=True, delete=False, segment_bytes=200))
    for number in range(10):
        append(log, f"v{number}")
    run_all(Cleaning(assess(log, None, 0), now_ms=0).steps())
    assert source.disk.size(f"a-0/{0:020d}.log") < 200
    moved = run(Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0))
    assert (moved.log_start_offset, moved.end_offset) == (0, 10)
    assert moved.read(0, max_bytes=1, up_to=10).next_offset == log.active_base_offset
    assert Home(target.disk).open(A0).log_start_offset == 0


def test_a_move_given_up_leaves_the_old_log_and_no_copy():
    source, target = Home(), Home()
    append(source.open(A0))
    steps = Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0).steps()
    next(steps)
    assert target.folder.usage()[0].is_future
    steps.close()
    assert target.disk.list("") == [] and target.folder.usage() == []
    append(source.folder.logs[A0])


def test_a_move_fails_when_its_log_is_truncated_and_grows_again_meanwhile():
    """The copy would keep the records of the old leader among those of the new one."""
    source, target = Home(), Home()
    log = source.open(A0)
    for number in range(5):
        append(log, f"old{number}")
    left = iter(range(1))

    def change_leader() -> None:
        if target.folder.futures and next(left, None) is not None:
            log.truncate_to(3)
            for number in range(4):
                append(log, f"new{number}")

    with pytest.raises(KafkaStorageError, match="truncated meanwhile"):
        run(Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0), change_leader)
    assert source.folder.logs == {A0: log} and target.folder.logs == {}


def test_a_failing_target_leaves_the_old_log_in_place():
    source, target = Home(path="one"), Home(path="two")
    append(source.open(A0))
    target.disk.fail("append")
    with pytest.raises(KafkaStorageError):
        run(Move(A0, source.folder, target.folder, unique=UNIQUE, now_ms=0))
    assert target.folder.is_offline and not source.folder.is_offline
    append(source.folder.logs[A0])


def test_of_a_partition_found_twice_the_longer_one_is_kept():
    one, two = Home(path="one"), Home(path="two")
    append(one.open(A0))
    for _ in range(2):
        append(two.open(A0)) if A0 not in two.folder.logs else append(two.folder.logs[A0])
    append(one.open(A1))
    assert duplicates([one.folder, two.folder]) == [(one.folder, A0)]
