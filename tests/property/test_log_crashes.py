"""A log that was stopped at any byte opens as a prefix of what was appended."""

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config.log import LogConfig
from ottla.storage import durability, opening, recovery
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder
from ottla.storage.indexes import BadIndex
from ottla.storage.log import LastRun, Location, Log, Origin
from ottla.storage.memory import MemoryDisk
from ottla.storage.segment import Segment
from ottla.wire.batch import build, read_header
from ottla.wire.records import Record, read

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=100)


def a_batch(count: int, *, sequence: int | None = None, timestamp: int = 5) -> bytes:
    records = [Record(at, timestamp, b"key", b"value %d" % at) for at in range(count)]
    if sequence is None:
        return build(records)
    return build(records, producer_id=9, producer_epoch=0, base_sequence=sequence)


def opened(
    disk: MemoryDisk, config: LogConfig = SMALL, *, report=lambda _: None, recovery_point: int = 0
) -> Log:
    return Log.open(
        Location(disk, "t-0", FileCache()),
        config,
        LastRun(clean=False, recovery_point=recovery_point),
        now_ms=0,
        report=report,
    )


def contents(log: Log) -> list[Record]:
    found, offset = [], log.log_start_offset
    while offset < log.end_offset:
        data, next_offset = log.read(offset, max_bytes=1, up_to=log.end_offset)
        if not data:
            break
        found += read(data)
        offset = next_offset
    return found


def is_prefix(disk: MemoryDisk, before: list[Record], ends: set[int]) -> bool:
    """Opens, has a prefix in whole batches, takes an append, and still has it after the next start."""
    log = opened(disk)
    after = contents(log)
    if after != before[: len(after)] or log.end_offset not in ends or len(after) != log.end_offset:
        return False
    appended = log.append(a_batch(1), leader_epoch=1, now_ms=0)
    again = opened(disk)
    return again.end_offset == appended.next_offset and len(contents(again)) == appended.next_offset


def a_filled_disk(counts: list[int]) -> tuple[MemoryDisk, list[Record], set[int]]:
    disk = MemoryDisk()
    log = opened(disk)
    ends = {0} | {log.append(a_batch(count), leader_epoch=0, now_ms=0).next_offset for count in counts}
    return disk, contents(log), ends


def cuts_every_byte() -> bool:
    disk, before, ends = a_filled_disk([1, 2, 3, 1, 2, 3, 1])
    path, position, size = disk.last_append
    for kept in range(size + 1):
        twin = disk.copy()
        twin.tear_last_append(kept)
        if not is_prefix(twin, before, ends):
            return False
    for flipped in range(position, position + size):
        twin = disk.copy()
        file = twin.open(path)
        file.write_at(flipped, bytes([file.read(flipped, 1)[0] ^ 0x10]))
        log = opened(twin)
        # Offset and leader epoch are not under the CRC; everything else is.
        if log.end_offset not in ends and not position <= flipped < position + 8:
            return False
    return True


def test_a_log_cut_at_every_byte_opens_as_a_prefix():
    assert cuts_every_byte()


def test_a_recovery_that_skips_the_crc_is_caught(monkeypatch):
    monkeypatch.setattr(recovery, "check", read_header)
    disk, before, ends = a_filled_disk([1, 2, 3])
    _, _, size = disk.last_append
    disk.tear_last_append(size - 3, b"xyz")
    with pytest.raises(Exception, match="CRC"):
        is_prefix(disk, before, ends)


def test_a_recovery_that_keeps_a_partial_batch_is_caught(monkeypatch):
    real = recovery.Recovery._cut
    monkeypatch.setattr(recovery.Recovery, "_cut", lambda self, segment, cut, later: None)
    try:
        caught = not cuts_every_byte()
    except Exception:
        caught = True
    assert caught
    monkeypatch.setattr(recovery.Recovery, "_cut", real)
    assert cuts_every_byte()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=12), st.floats(0, 1), st.binary(max_size=80), st.data()
)
def test_any_segment_cut_anywhere_with_garbage_behind_opens_as_a_prefix(counts, cut, garbage, data):
    disk, before, ends = a_filled_disk(counts)
    logs = [f"t-0/{name}" for name in disk.list("t-0") if name.endswith(".log")]
    path = data.draw(st.sampled_from(logs))
    disk.tear(path, int(disk.size(path) * cut), garbage)
    assert is_prefix(disk, before, ends)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=14), st.data())
def test_whatever_survives_a_power_cut_the_log_is_a_prefix_with_all_that_was_flushed(counts, data):
    disk = MemoryDisk()
    log = opened(disk)
    for at, count in enumerate(counts):
        log.append(a_batch(count), leader_epoch=at // 3, now_ms=0)
        if data.draw(st.integers(0, 3), label="flush") == 0:
            flush = log.begin_flush()
            flush.run()
            log.on_flushed(flush)
    before, flushed, epochs = contents(log), log.recovery_point, log.epochs.entries
    ends = {0} | set(itertools.accumulate(counts))

    def survives(path: str, unsynced: int) -> int | None:
        # A journal keeps names in order, so the first segment's is there if any is.
        is_first = path.endswith(f"{0:020d}.log")
        return data.draw(st.integers(0, unsynced) | (st.nothing() if is_first else st.none()), label=path)

    disk.crash(survives=survives)
    log = opened(disk, recovery_point=flushed)
    assert log.end_offset >= flushed
    assert log.end_offset in ends
    assert contents(log) == before[: log.end_offset]
    assert log.epochs.entries == [each for each in epochs if each.start_offset < log.end_offset]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_with_flush_messages_1_nothing_acknowledged_is_missing_after_a_power_cut(counts, data):
    disk = MemoryDisk()
    config = LogConfig(segment_bytes=500, index_interval_bytes=50, flush_messages=1)
    log = opened(disk, config)
    acknowledged = 0
    for count in counts:
        appended = log.append(a_batch(count), leader_epoch=0, now_ms=0)
        assert log.flush_due(0)
        if data.draw(st.booleans(), label="flushed"):
            flush = log.begin_flush()
            flush.run()
            log.on_flushed(flush)
            acknowledged = appended.next_offset
            assert log.recovery_point == acknowledged
    before = contents(log)
    recovery_point = log.recovery_point if data.draw(st.booleans(), label="checkpointed") else 0
    disk.crash()
    log = opened(disk, config, recovery_point=recovery_point)
    assert log.end_offset >= acknowledged
    assert contents(log) == before[: log.end_offset]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(0, 12), st.integers(1, 300))
def test_a_full_disk_loses_nothing_and_takes_no_half(counts, ok, partial):
    disk = MemoryDisk()
    log = opened(disk)
    acknowledged = 0
    disk.fail("append", OSError(28, "full"), after=ok, partial=partial, path_part=".log")
    for count in counts:
        try:
            acknowledged = log.append(a_batch(count), leader_epoch=0, now_ms=0).next_offset
        except Exception as error:
            assert type(error).__name__ == "KafkaStorageError"
            break
    assert log.end_offset == acknowledged
    disk.clear_faults()
    if log.failed is None:
        acknowledged = log.append(a_batch(2), leader_epoch=0, now_ms=0).next_offset
    assert len(contents(log)) == acknowledged
    reports: list[str] = []
    again = opened(disk, report=reports.append)
    assert len(contents(again)) == acknowledged
    assert reports == []


class Partition:
    """A log in a folder, what was written to it, and the power cuts that it goes through."""

    KEY = ("t", 0)
    CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=100, segment_ms=10)

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = MemoryDisk()
        self.written: list[
            tuple[int, int, int, bool]
        ] = []  # of a batch: offset, epoch, timestamp, is an abort
        self.epoch = 0
        self.start()

    def go(self) -> None:
        for _ in range(self.random.randrange(5, 50)):
            self.step(self.random.choice(("append", "append", "abort", "roll", "flush", "flush and roll")))
            self.check()
            if self.random.random() < 0.15:
                self.folder.checkpoint()()
            if self.random.random() < 0.15:
                self.cut_power()
                self.check()

    def start(self) -> None:
        self.folder = LogFolder(self.disk, "d", files=FileCache(), report=lambda _: None)
        self.folder.load()
        opening = self.folder.opening(self.KEY, self.CONFIG, 0)
        opening.run()
        self.log = self.folder.on_opened(opening)

    def step(self, kind: str) -> None:
        self.epoch += self.random.random() < 0.1
        match kind:
            case "append":
                self.append({})
            case "abort":
                self.append(
                    {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
                )
                base = self.log.append_marker(1, 0, False, 0, leader_epoch=self.epoch, now_ms=0).base_offset
                self.written.append((base, self.epoch, 0, True))
            case "roll":
                self.log.roll_if_due(1000)
            case "flush":
                self.flush()
            case _:
                self.flush()
                self.log.roll_if_due(1000)

    def append(self, producer: dict[str, int | bool]) -> None:
        timestamp = self.random.randrange(10)
        record = Record(0, timestamp, b"k", b"v" * self.random.choice((1, 60)))
        batch = build([record], **producer)  # type: ignore[arg-type]
        base = self.log.append(batch, leader_epoch=self.epoch, now_ms=0, origin=Origin.COORDINATOR)[0]
        self.written.append((base, self.epoch, timestamp, False))

    def flush(self) -> None:
        flush = self.log.begin_flush()
        if flush is not None:
            flush.run()
            self.log.on_flushed(flush)

    def cut_power(self) -> None:
        durable = self.log.recovery_point
        self.disk.crash(survives=self.survives)
        self.start()
        assert self.log.end_offset >= durable
        self.written = [each for each in self.written if each[0] < self.log.end_offset]

    def survives(self, path: str, unsynced: int) -> int | None:
        # A journal keeps names in order, so the first segment's is there if any is.
        least = unsynced if path.endswith(f"{0:020d}.log") else None
        return self.random.choice((least, 0, unsynced, unsynced, self.random.randint(0, unsynced)))

    def check(self) -> None:
        end = self.log.end_offset
        assert end == len(self.written)
        aborts = [base for base, _, _, is_abort in self.written if is_abort]
        assert [each.last_offset for each in self.log.aborted_transactions(0, end)] == aborts
        firsts = {epoch: base for base, epoch, _, _ in reversed(self.written)}
        assert self.log.epochs.entries == sorted(firsts.items())
        newest = max((timestamp for _, _, timestamp, _ in self.written), default=0)
        found = self.log.offset_for_timestamp(newest)
        firsts_of = [base for base, _, timestamp, _ in self.written if timestamp == newest]
        assert (found.offset if found else None) == (firsts_of[0] if firsts_of else None)


def test_aborts_epochs_and_times_are_known_after_one_power_cut_after_another():
    for seed in range(400):
        Partition(seed).go()


def a_segment_is_believed_whose_end_is_the_recovery_point(patch):
    class Lenient(int):
        def __gt__(self, other):
            return int(self) >= other

    original = recovery.Recovery.run

    def run(self, *, clean, recovery_point):
        return original(self, clean=clean, recovery_point=Lenient(recovery_point))

    patch.setattr(recovery.Recovery, "run", run)


def indexes_made_anew_are_not_synced(patch):
    patch.setattr(opening, "sync", lambda disk, path: None)


def indexes_are_believed_after_a_power_cut(patch):
    original = Segment.forget_all
    patch.setattr(Segment, "forget_all", lambda self: self.resume() or original(self))


def epochs_are_not_saved_with_a_flush(patch):
    patch.setattr(durability, "epochs_saved", lambda log: True)


@pytest.mark.parametrize(
    "bug",
    [
        a_segment_is_believed_whose_end_is_the_recovery_point,
        indexes_made_anew_are_not_synced,
        indexes_are_believed_after_a_power_cut,
        epochs_are_not_saved_with_a_flush,
    ],
)
def test_a_recovery_that_believes_too_much_is_caught(bug, monkeypatch):
    bug(monkeypatch)
    with pytest.raises((AssertionError, BadIndex)):
        test_aborts_epochs_and_times_are_known_after_one_power_cut_after_another()
