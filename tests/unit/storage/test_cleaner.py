import errno

import pytest

from ottla.config.log import LogConfig
from ottla.errors import KafkaStorageError
from ottla.storage import checkpoints, cleaner, compaction, rewrite
from ottla.storage.cleanable import Cleanable, assess
from ottla.storage.cleaner import Cleaner
from ottla.storage.compaction import run_all
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.indexes import BadIndex
from ottla.storage.log import Log
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import BatchHeader, CorruptBatch, build
from ottla.wire.records import Record, read

COMPACTED = LogConfig(compact=True, delete=False, segment_bytes=200)
A, B = ("a", 0), ("b", 0)


class Home:
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.lines: list[str] = []
        self.folder = LogFolder(self.disk, "data", files=FileCache(), report=self.lines.append)
        self.folder.load()
        self.cleaner = Cleaner([self.folder], key_map_bytes=1 << 20, report=self.lines.append)

    def open(self, partition: tuple[str, int], appends: int, config: LogConfig = COMPACTED) -> Log:
        opening = self.folder.opening(partition, config, now_ms=0)
        opening.run()
        log = self.folder.on_opened(opening)
        for number in range(appends):
            record = Record(0, number, b"k%d" % (number % 3), b"v%d" % number)
            log.append(build([record]), leader_epoch=0, now_ms=0)
        log.advance_high_watermark(log.end_offset)
        return log

    def clean(self, now_ms: int = 10) -> bool:
        steps = self.cleaner.next_pass(now_ms=now_ms)
        if steps is not None:
            run_all(steps)
        return steps is not None


def offsets(log: Log) -> list[int]:
    return [record.offset for record in records_of(log)]


def records_of(log: Log) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        part = log.read(offset, max_bytes=1, up_to=log.end_offset)
        if not len(part.data):
            break
        found += read(bytes(part.data))
        offset = part.next_offset
    return found


def test_every_log_that_is_due_is_cleaned_and_then_none():
    home = Home()
    logs = [home.open(partition, 20) for partition in (A, B)]
    home.open(("c", 0), 20, LogConfig(segment_bytes=200))
    assert home.clean() and home.clean() and not home.clean()
    for log in logs:
        active = log.active_base_offset
        assert [each for each in offsets(log) if each < active] == list(range(active - 3, active))
        assert offsets(log)[-1] == 19
    written = checkpoints.read_offsets(home.disk, checkpoints.CLEANER_OFFSETS)
    assert written == {A: logs[0].active_base_offset, B: logs[1].active_base_offset}
    assert "compacted up to" in home.lines[0]


def test_reads_and_appends_go_on_between_the_steps():
    home = Home()
    log = home.open(A, 20)
    steps = home.cleaner.next_pass(now_ms=10)
    assert steps is not None
    for job in steps:
        if job is not None:
            job()
        log.append(build([Record(0, 1, b"k0", b"new")]), leader_epoch=0, now_ms=0)
        assert log.read(0, max_bytes=1 << 20, up_to=log.end_offset).next_offset > 0
    assert len(offsets(log)) == len(set(offsets(log)))


def test_a_damaged_log_is_reported_once_and_left_alone():
    home = Home()
    log = home.open(A, 20)
    file = home.disk.open(f"a-0/{0:020d}.log")
    file.write_at(70, b"\xff")
    assert home.clean() and not home.clean()
    assert set(home.cleaner.uncleanable) == {log}
    assert len(home.lines) == 1 and "not compacted any more" in home.lines[0]


def test_a_log_with_a_damaged_header_does_not_stop_the_others():
    home = Home()
    lagging = LogConfig(compact=True, delete=False, segment_bytes=200, max_compaction_lag_ms=1)
    damaged, sound = home.open(A, 20, lagging), home.open(B, 20, lagging)
    home.disk.open(f"a-0/{0:020d}.log").write_at(8, (-1).to_bytes(4, "big", signed=True))  # the batch's size
    assert home.clean() and not home.clean()
    assert set(home.cleaner.uncleanable) == {damaged}
    assert len([line for line in home.lines if line.startswith("a-0 is not compacted any more")]) == 1
    assert home.folder.cleaner_offsets == {B: sound.active_base_offset}


def test_a_log_with_a_damaged_index_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch):
    home = Home()
    damaged, sound = home.open(A, 20), home.open(B, 20)

    def assess_unless_damaged(log: Log, last_clean_offset: int | None, now_ms: int) -> Cleanable:
        if log is damaged:
            raise BadIndex("not a time index")
        return assess(log, last_clean_offset, now_ms)

    monkeypatch.setattr(cleaner, "assess", assess_unless_damaged)
    assert home.clean() and not home.clean()
    assert set(home.cleaner.uncleanable) == {damaged}
    assert home.folder.cleaner_offsets == {B: sound.active_base_offset}


def test_records_that_do_not_unpack_leave_the_log_alone(monkeypatch: pytest.MonkeyPatch):
    home = Home()
    damaged, sound = home.open(A, 40), home.open(B, 20)
    unpack = rewrite.unpack

    def unpack_unless_damaged(batch: memoryview, header: BatchHeader, bytes_max: int) -> object:
        if set(home.cleaner.uncleanable) != {damaged}:  # of logs alike the first comes first
            raise CorruptBatch("its records are cut off")
        return unpack(batch, header, bytes_max)

    monkeypatch.setattr(compaction, "unpack", unpack_unless_damaged)
    assert home.clean() and home.clean() and not home.clean()
    assert set(home.cleaner.uncleanable) == {damaged}
    assert home.folder.cleaner_offsets == {B: sound.active_base_offset}
    assert not [name for name in home.disk.list("a-0") if name.endswith(".cleaned")]


def test_a_fault_in_cleaning_one_log_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch):
    home = Home()
    faulty, sound = home.open(A, 40), home.open(B, 20)
    unpack = rewrite.unpack

    def unpack_unless_faulty(batch: memoryview, header: BatchHeader, bytes_max: int) -> object:
        if set(home.cleaner.uncleanable) != {faulty}:  # of logs alike the first comes first
            raise OverflowError("int too large to convert")
        return unpack(batch, header, bytes_max)

    monkeypatch.setattr(compaction, "unpack", unpack_unless_faulty)
    assert home.clean() and home.clean() and not home.clean()
    assert set(home.cleaner.uncleanable) == {faulty}
    assert home.folder.cleaner_offsets == {B: sound.active_base_offset}


def test_tombstones_may_stay_for_ever():
    home = Home()
    log = home.open(
        A, 0, LogConfig(compact=True, delete=False, segment_bytes=200, delete_retention_ms=2**63 - 1)
    )
    for number in range(10):
        log.append(build([Record(0, number, b"k%d" % number, None)]), leader_epoch=0, now_ms=0)
    log.advance_high_watermark(log.end_offset)
    assert home.clean()
    assert not home.cleaner.uncleanable
    assert [record.timestamp for record in records_of(log)] == list(range(10))


@pytest.mark.parametrize("log_append_time", [False, True])
def test_a_tombstone_of_any_timestamp_can_be_read_after_compaction(log_append_time: bool):
    now_ms = 1_700_000_000_000
    oldest = now_ms - (2**63 - 1)  # message.timestamp.before.max.ms allows that by default
    config = LogConfig(compact=True, delete=False, segment_bytes=200, log_append_time=log_append_time)
    home = Home()
    log = home.open(A, 0, config)
    for number in range(10):
        log.append(build([Record(0, oldest, b"k%d" % number, None)]), leader_epoch=0, now_ms=now_ms)
    log.advance_high_watermark(log.end_offset)
    assert home.clean(now_ms)
    assert [record.offset for record in records_of(log)] == list(range(10))
    assert {record.timestamp for record in records_of(log)} == {now_ms if log_append_time else oldest}


def test_too_many_open_files_pass_and_the_log_has_its_turn_later():
    home = Home()
    lagging = LogConfig(compact=True, delete=False, segment_bytes=200, max_compaction_lag_ms=1)
    log = home.open(A, 20, lagging)
    home.disk.fail("open", OSError(errno.EMFILE, "too many open files"))
    assert not home.clean()
    assert log not in home.cleaner.uncleanable and not home.folder.is_offline
    home.disk.clear_faults()
    assert home.clean()


def test_a_topic_created_again_under_the_name_of_a_damaged_one_is_compacted():
    home = Home()
    home.open(A, 20)
    home.disk.open(f"a-0/{0:020d}.log").write_at(70, b"\xff")
    assert home.clean() and not home.clean()
    home.folder.remove(A, "0" * 32)()
    log = home.open(A, 20)
    assert home.clean()
    assert home.folder.cleaner_offsets == {A: log.active_base_offset}


def test_a_disk_that_fails_in_a_thread_takes_the_folder_offline():
    home = Home()
    home.open(A, 20)
    home.disk.fail("sync", OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaStorageError):
        home.clean()
    assert home.folder.is_offline
    assert not home.clean()


@pytest.mark.parametrize("after", range(5))
def test_a_log_deleted_meanwhile_is_no_failure_and_leaves_no_checkpoint(after: int):
    home = Home()
    home.open(A, 20)
    steps = home.cleaner.next_pass(now_ms=10)
    assert steps is not None
    try:
        for number in range(100):
            job = next(steps)
            if number == after:
                home.folder.remove(A, "0" * 32)()
            try:
                if job is not None:
                    job()
            except OSError as error:
                steps.throw(error)
    except StopIteration:
        pass
    assert A not in home.folder.cleaner_offsets or after > 3
    assert not home.folder.is_offline
    assert home.disk.list("") in ([], [checkpoints.CLEANER_OFFSETS])


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("change", ["retention", "truncation", "restart"])
def test_a_log_may_lose_segments_at_any_step(after: int, change: str):
    home = Home()
    log = home.open(A, 40)
    steps = home.cleaner.next_pass(now_ms=10)
    assert steps is not None
    for number, job in enumerate(steps):
        if number == after:
            match change:
                case "retention":
                    log.delete_segments(log.segments[:2])
                case "truncation":
                    log.truncate_to(3)
                case _:
                    log.restart_at(100)
        if job is not None:
            job()
    assert not home.folder.is_offline and not home.cleaner.uncleanable
    left = offsets(log)
    assert left == sorted(set(left)) and all(log.log_start_offset <= each < log.end_offset for each in left)
    assert not [name for name in home.disk.list("a-0") if name.endswith((".cleaned", ".swap", ".replaced"))]
    home.clean()
