"""Whatever is written, compaction leaves the newest record of each key at its offset, and all sequences."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.storage import cleaned_transactions, rewrite
from ottla.storage.cleanable import assess
from ottla.storage.compaction import Cleaning, run_all
from ottla.storage.files import FileCache
from ottla.storage.key_map import ENTRY_BYTES, KeyMap
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.storage.swap import Swap
from tests.property.cleaning import FOLDER, NOW_MS, DirtyLog, Row, batches_on, rows_on

KEYS = [b"a", b"b", b"c", b"d" * 30, b"e" * 30 + b"1", b"e" * 30 + b"2", b""]
RECORDS = st.tuples(st.sampled_from([*KEYS, None]), st.sampled_from([b"v", b"", None, b"w" * 50]))
WRITES = st.tuples(
    st.just("write"),
    st.lists(RECORDS, min_size=1, max_size=6),
    st.integers(-1, 2),
    st.booleans(),
    st.integers(0, 4),
)
ENDS = st.tuples(st.just("end"), st.integers(0, 2), st.booleans())
ROLLS = st.tuples(st.just("roll"))
OPERATIONS = st.lists(st.one_of(WRITES, ENDS, ROLLS), min_size=1, max_size=25)

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def play(log: DirtyLog, operations: list[tuple[Any, ...]]) -> None:
    for operation in operations:
        match operation:
            case ("write", pairs, producer, transactional, codec):
                is_open = producer in log.producers.open_transactions
                log.write(
                    pairs,
                    producer=producer,
                    transactional=is_open or (transactional and producer >= 0),
                    codec=codec,
                )
            case ("end", producer, committed):
                if producer in log.producers.open_transactions:
                    log.end_transaction(producer, committed=committed)
            case _:
                log.roll()


def a_log(
    operations: list[tuple[Any, ...]], *, finish: bool = True, segment_bytes: int = 1 << 30
) -> DirtyLog:
    log = DirtyLog()
    log.config = replace(log.config, segment_bytes=segment_bytes)
    play(log, operations)
    if finish:
        for producer in list(log.producers.open_transactions):
            log.end_transaction(producer, committed=True)
        log.roll()
    return log


def check_rows(left: list[Row], expected: list[Row]) -> None:
    kept, wanted = {row.offset: row for row in left}, {row.offset: row for row in expected}
    assert not kept.keys() - wanted.keys(), f"still there: {sorted(kept.keys() - wanted.keys())}"
    assert not wanted.keys() - kept.keys(), f"lost: {sorted(wanted.keys() - kept.keys())}"
    assert left == expected, f"changed: {[row for row in left if row != wanted[row.offset]]}"


def check_one_pass(operations: list[tuple[Any, ...]], segment_bytes: int) -> None:
    log = a_log(operations, segment_bytes=segment_bytes)
    assert log.clean() == log.end_offset
    check_rows(log.left(), log.expected(log.end_offset))
    offsets = [header.base_offset for header, _ in batches_on(log.disk)]
    assert offsets == sorted(offsets)


@given(OPERATIONS, st.sampled_from([200, 600, 1 << 30]))
@quick
def test_the_newest_committed_record_of_each_key_stays(operations, segment_bytes):
    check_one_pass(operations, segment_bytes)


@given(OPERATIONS)
@quick
def test_what_is_unstable_or_active_is_left_alone(operations):
    log = a_log(operations, finish=False)
    work = assess(log, None, NOW_MS)
    run_all(Cleaning(work, now_ms=NOW_MS).steps())
    untouched = [row for row in log.rows if row.offset >= work.first_uncleanable_offset]
    assert [row for row in log.left() if row.offset >= work.first_uncleanable_offset] == untouched
    assert work.first_uncleanable_offset <= log.last_stable_offset or not log.closed_segments()


@given(OPERATIONS, OPERATIONS, st.integers(1, 6))
@quick
def test_many_passes_with_a_small_map_end_where_one_would(first, second, keys):
    log = a_log(first)
    dirty = log.clean(key_map_bytes=keys * ENTRY_BYTES)
    play(log, second)
    for producer in list(log.producers.open_transactions):
        log.end_transaction(producer, committed=False)
    log.roll()
    while dirty < log.end_offset:
        before, dirty = dirty, log.clean(dirty, key_map_bytes=keys * ENTRY_BYTES)
        assert dirty > before
    log.clean(0, now_ms=NOW_MS)  # records of the first pass may be aborted or shadowed since
    assert log.left() == log.expected(log.end_offset)


@given(OPERATIONS)
@quick
def test_after_their_horizon_tombstones_and_spent_markers_are_gone(operations):
    log = a_log(operations)
    for turn in range(4):
        log.clean(0, now_ms=NOW_MS + 1000 * turn)
    assert log.left() == [row for row in log.expected(log.end_offset) if row.value is not None]
    with_data = {
        header.producer_id
        for header, _ in batches_on(log.disk)
        if header.is_transactional and not header.is_control
    }
    for header, _ in batches_on(log.disk):
        kept_for_its_epoch = header.next_offset == log.end_offset
        assert not header.is_control or header.producer_id in with_data or kept_for_its_epoch


def check_producers_replayed(operations: list[tuple[Any, ...]]) -> None:
    log = a_log(operations)
    log.clean()
    log.clean(0, now_ms=NOW_MS + 1000)
    opened = open_log(log.disk)
    live = log.producers.entries
    replayed = opened.producers.entries
    assert set(replayed) == set(live), f"producers {set(live)} became {set(replayed)}"
    for producer, entry in replayed.items():
        assert (entry.epoch, entry.last_sequence, entry.last_offset, entry.transaction_first_offset) == (
            live[producer].epoch,
            live[producer].last_sequence,
            live[producer].last_offset,
            live[producer].transaction_first_offset,
        )
    assert opened.end_offset == log.end_offset


@given(OPERATIONS)
@quick
def test_producers_replayed_from_the_cleaned_log_are_as_they_were(operations):
    check_producers_replayed(operations)


@given(OPERATIONS, st.sampled_from([300, 1 << 30]))
@quick
def test_a_compacted_log_is_not_taken_for_a_damaged_one_after_a_crash(operations, segment_bytes):
    log = a_log(operations, segment_bytes=segment_bytes)
    log.clean()
    log.clean(0, now_ms=NOW_MS + 1000)
    before, end_offset, aborted = log.left(), log.end_offset, log.aborted_transactions(0, log.end_offset)
    log.disk.crash(lose_unsynced=False)
    lines: list[str] = []
    opened = Log.open(
        Location(log.disk, FOLDER, FileCache()),
        log.config,
        LastRun(clean=False),
        now_ms=0,
        report=lines.append,
    )
    assert (rows_on(log.disk), lines) == (before, [])
    assert opened.end_offset == end_offset
    assert {(each.producer_id, each.last_offset) for each in opened.aborted_transactions(0, end_offset)} == {
        (each.producer_id, each.last_offset) for each in aborted
    }


def open_log(disk: MemoryDisk) -> Log:
    """Without producer snapshots, so that their state comes from the batches."""
    return Log.open(
        Location(disk, FOLDER, FileCache()),
        DirtyLog().config,
        LastRun(clean=True),
        now_ms=0,
        report=lambda _: None,
    )


# A crash in the middle.


class Crash(Exception):
    pass


class CrashingDisk(MemoryDisk):
    """Stops before its n-th change of names."""

    countdown = 1 << 60

    def _tick(self) -> None:
        self.countdown -= 1
        if self.countdown < 0:
            raise Crash

    def rename(self, old: str, new: str) -> None:
        self._tick()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._tick()
        super().remove(path)

    def write_whole(self, path: str, data: Any) -> None:
        self._tick()
        super().write_whole(path, data)

    def sync_folder(self, path: str) -> None:
        self._tick()
        super().sync_folder(path)


# The first two segments become one, and nothing of the second stays in it.
GROUPED = [
    ("write", [(b"a", b"1"), (b"b", b"1")], 1, False, 0),
    ("write", [(b"x", b"1")], 2, True, 0),
    ("end", 2, False),
    ("roll",),
    ("write", [(b"a", b"2"), (b"x", b"3")], -1, False, 0),
    ("roll",),
    ("write", [(b"b", b"2"), (b"x", b"4"), (b"a", b"9")], 1, False, 4),
    ("roll",),
    ("write", [(b"c", b"2")], -1, False, 4),
]


def crash_at(countdown: int, lose_unsynced: bool) -> tuple[bool, MemoryDisk, list[Any], list[Any]]:
    """Whether it came to the crash; the disk after it; the rows before and after a pass that went through."""
    log = DirtyLog(disk=CrashingDisk())
    play(log, GROUPED)
    log.config = replace(log.config, segment_bytes=sum(each.size_bytes for each in log.segments[:2]))
    for segment in log.segments:
        for name in log.disk.list(FOLDER):
            file = log.disk.open(f"{FOLDER}/{name}")
            file.sync()
            file.close()
        segment.close()
    log.disk.sync_folder(FOLDER)
    old = log.left()
    log.disk.countdown = countdown
    crashed = False
    steps = Cleaning(assess(log, None, NOW_MS), now_ms=NOW_MS).steps()
    try:
        run_all(steps)
    except Crash:
        crashed = True
    twin = log.disk.copy()
    log.disk.countdown = 1 << 60
    steps.close()
    twin.crash(lose_unsynced=lose_unsynced)
    return crashed, twin, old, log.left()


def check_crashes(lose_unsynced: bool) -> int:
    _, _, old, new = crash_at(1 << 60, lose_unsynced)
    assert old != new
    seen = set()
    for countdown in range(100):
        crashed, disk, _, _ = crash_at(countdown, lose_unsynced)
        opened = open_log(disk)
        rows = rows_on(disk)
        assert rows in (old, new), f"neither the old nor the new log after step {countdown}"
        seen.add(rows == new)
        data = b"".join(bytes(each) for each in slices(opened))
        assert len(data) == opened.size_bytes
        assert not [
            name
            for name in disk.list(FOLDER)
            if name.endswith((".cleaned", ".swap", ".deleted", ".replaced"))
        ]
        if not crashed:
            assert seen == {True, False}
            return countdown
    raise AssertionError("it never went through")


def slices(log: Log) -> list[Any]:
    found, offset = [], log.log_start_offset
    while offset < log.end_offset:
        part = log.read(offset, max_bytes=1 << 20, up_to=log.end_offset)
        if not len(part.data):
            break
        found.append(part.data)
        offset = part.next_offset
    return found


@pytest.mark.parametrize("lose_unsynced", [False, True], ids=["process stops", "power goes"])
def test_a_crash_at_every_change_of_names_leaves_the_old_or_the_new_log(lose_unsynced):
    assert check_crashes(lose_unsynced) > 20


def test_a_crash_during_recovery_is_recovered_from_too():
    _, _, old, new = crash_at(1 << 60, False)
    for countdown in range(40):
        for second in range(12):
            crashed, disk, _, _ = crash_at(countdown, False)
            if not crashed:
                return
            disk.__class__ = CrashingDisk
            disk.countdown = second  # type: ignore[attr-defined]
            try:
                open_log(disk)
            except Crash:
                disk.countdown = 1 << 60  # type: ignore[attr-defined]
                disk.crash(lose_unsynced=False)
                open_log(disk)
            disk.countdown = 1 << 60  # type: ignore[attr-defined]
            assert rows_on(disk) in (old, new), (countdown, second)


# The tests above must notice when compaction is wrong.

STREAM = [
    ("write", [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")], 1, False, 0),
    ("write", [(b"b", b"2"), (b"q", b"1")], 2, True, 2),
    ("roll",),
    ("end", 2, False),
    ("write", [(b"d" * 30, b"1"), (b"b", None), (b"a", b"3")], -1, False, 4),
    ("write", [(b"d" * 30, b"1")], 1, False, 0),
    ("roll",),
    ("write", [(b"d" * 30, b"2")], -1, False, 0),
]


honest_put = KeyMap.put


def drop_newest(self: KeyMap, key: bytes, offset: int) -> None:
    if self.offset_of(key) < 0:
        honest_put(self, key, offset)


def forget_aborts(self: cleaned_transactions.CleanedTransactions, header: Any) -> bool:
    return False


def drop_header(header: Any) -> bytes | None:
    return None


def shift_nothing(payload: Any, rows: Any, number: int, shift: int) -> bytes:
    return bytes(payload[rows[number * 9 + 7] : rows[number * 9 + 8]])


@pytest.mark.parametrize(
    ("owner", "name", "mutant", "check", "complaint"),
    [
        (KeyMap, "put", drop_newest, lambda: check_one_pass(STREAM, 1 << 30), "still there"),
        (
            cleaned_transactions.CleanedTransactions,
            "on_data",
            forget_aborts,
            lambda: check_one_pass(STREAM, 1 << 30),
            "still there",
        ),
        (rewrite, "_shifted", shift_nothing, lambda: check_one_pass(STREAM, 1 << 30), "changed"),
        (rewrite, "emptied", drop_header, lambda: check_producers_replayed(STREAM), "producers .* became"),
        (Swap, "prepare", lambda self: None, lambda: check_crashes(False), "neither the old nor the new log"),
    ],
    ids=[
        "oldest wins",
        "aborted records stay",
        "timestamps move",
        "sequences are lost",
        "no note of the swap",
    ],
)
def test_a_planted_bug_is_caught_for_what_it_is(
    monkeypatch, owner: Any, name: str, mutant: Any, check: Callable[[], None], complaint: str
):
    check()
    monkeypatch.setattr(owner, name, mutant)
    with pytest.raises(AssertionError, match=complaint):
        check()
