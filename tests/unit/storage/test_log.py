"""The log as its users see it."""

import struct
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import errors
from ottla.config.log import LogConfig
from ottla.config.settings import Config
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log, Origin
from ottla.storage.memory import MemoryDisk
from ottla.storage.rewrite import emptied
from ottla.storage.search import HEADERS_PER_STEP, SEGMENT_HEADERS
from ottla.wire.batch import build, headers, read_header
from ottla.wire.records import Record, read

NOW = 1_000_000
PATH = "t-0/00000000000000000000.log"


def opened(disk: MemoryDisk, *, clean: bool = False, now_ms: int = NOW, **settings: Any) -> Log:
    starts = {name: settings.pop(name) for name in ("recovery_point", "log_start_offset") if name in settings}
    return Log.open(
        Location(disk, "t-0", FileCache()),
        LogConfig(**settings),
        LastRun(clean, **starts),
        now_ms=now_ms,
        report=lambda _: None,
        topic_id=bytes(range(16)),
    )


def a_batch(count: int = 1, *, timestamp: int = NOW, value: bytes = b"v", **fields: Any) -> bytes:
    return build([Record(at, timestamp, b"k", value) for at in range(count)], **fields)


def append(log: Log, count: int = 1, *, epoch: int = 0, now_ms: int = NOW, **fields: Any):
    return log.append(a_batch(count, timestamp=now_ms, **fields), leader_epoch=epoch, now_ms=now_ms)


def test_a_log_touches_the_disk_at_its_first_append_only():
    disk = MemoryDisk()
    log = opened(disk)
    assert disk.list("") == []
    append(log)
    assert disk.list("t-0") == ["00000000000000000000.log", "leader-epoch-checkpoint", "partition.metadata"]
    assert disk.read_whole("t-0/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    assert disk.read_whole("t-0/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"


def test_a_batch_is_stamped_with_offset_and_leader_epoch():
    log = opened(MemoryDisk())
    append(log, 3, epoch=4)
    appended = append(log, 2, epoch=5)
    assert (appended.base_offset, appended.next_offset, appended.duplicate) == (3, 5, False)
    found = [header for _, header in headers(log.read(0, max_bytes=10_000, up_to=5).data)]
    assert [(each.base_offset, each.leader_epoch) for each in found] == [(0, 4), (3, 5)]


def test_reading_outside_of_the_log_is_refused_and_at_its_end_gives_nothing():
    log = opened(MemoryDisk())
    append(log, 3)
    log.advance_high_watermark(3)
    log.delete_records_before(2)
    assert log.read(3, max_bytes=100, up_to=3).data == b""
    for offset in (-1, 1, 4):
        with pytest.raises(errors.OffsetOutOfRange):
            log.read(offset, max_bytes=100, up_to=3)


@pytest.mark.parametrize("is_of_topic", [True, False])
def test_a_read_never_walks_many_headers(is_of_topic: bool):
    """Whatever the topic's owner sets: between two entries of the index all headers are walked, on the event loop."""
    own, broker = "index.interval.bytes", "log.index.interval.bytes"
    longest = str(2**31 - 1)
    config = LogConfig.from_settings(
        {own: longest} if is_of_topic else {}, Config({} if is_of_topic else {broker: longest})
    )
    log = opened(MemoryDisk())
    log.reconfigure(config)
    for _ in range(40):
        append(log, value=b"v" * 10_000)
    positions = log.segments[0].indexes.offset.positions
    assert max(after - before for before, after in pairwise([0, *positions, log.size_bytes])) < 90_000


def test_a_read_keeps_within_every_bound():
    log = opened(MemoryDisk(), index_interval_bytes=150)
    for at in range(30):
        append(log, value=b"v" * (at % 7 * 20))
    sizes = [header.size for _, header in headers(log.read(0, max_bytes=10**6, up_to=30).data)]
    for offset in range(30):
        for up_to in range(offset + 1, 31):
            for max_bytes in (1, 200, 500, 1500, 10_000):
                found = log.read(offset, max_bytes=max_bytes, up_to=up_to)
                assert len(found.data) == sum(sizes[offset : found.next_offset])
                assert offset < found.next_offset <= up_to
                is_full = sum(sizes[offset : found.next_offset + 1]) > max_bytes
                assert is_full or found.next_offset == up_to


def test_a_segment_is_closed_when_it_is_full_and_its_indexes_are_written():
    disk = MemoryDisk()
    log = opened(disk, segment_bytes=200)
    for _ in range(5):
        append(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert disk.exists("t-0/00000000000000000000.index")
    assert disk.exists("t-0/00000000000000000002.snapshot")
    assert log.size_bytes == 5 * len(a_batch())


def test_a_segment_is_closed_when_a_batch_is_younger_than_its_first_by_segment_ms():
    log = opened(MemoryDisk(), segment_ms=1000)
    for now_ms in (NOW, NOW + 1000, NOW + 1001):
        append(log, now_ms=now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_silent_segment_is_closed_when_asked_for():
    log = opened(MemoryDisk(), segment_ms=1000)
    append(log)
    assert not log.roll_if_due(NOW + 1000)
    assert log.roll_if_due(NOW + 1001)
    assert not log.roll_if_due(NOW + 5000)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_segment_is_closed_when_its_index_is_full():
    log = opened(MemoryDisk(), segment_index_bytes=24, index_interval_bytes=0)
    for _ in range(8):
        append(log)
    assert len(log.segments) > 1


def test_the_jitter_closes_segments_earlier_but_not_at_once():
    log = opened(MemoryDisk(), segment_ms=1000, segment_jitter_ms=900)
    for at in range(50):
        append(log, now_ms=NOW + at * 100)
    lengths = {b.base_offset - a.base_offset for a, b in zip(log.segments, log.segments[1:], strict=False)}
    assert len(lengths) > 1
    assert max(lengths) <= 11


def test_open_files_stay_few_while_segments_are_many():
    disk = MemoryDisk()
    files = FileCache(files_max=3)
    log = Log.open(
        Location(disk, "t-0", files),
        LogConfig(segment_bytes=100),
        LastRun(clean=False),
        now_ms=NOW,
        report=print,
    )
    for _ in range(20):
        append(log)
    for offset in range(20):
        assert read(log.read(offset, max_bytes=1, up_to=20).data)[0].offset == offset
    assert disk.open_files <= 4
    log.close(clean=True)
    files.close()
    assert disk.open_files == 0


def test_retention_empties_a_silent_topic_and_the_end_offset_survives_a_crash():
    disk = MemoryDisk()
    log = opened(disk, segment_bytes=200, retention_ms=1000)
    for _ in range(5):
        append(log)
    log.advance_high_watermark(5)
    assert log.expire(NOW + 1000).doomed == ()
    assert len(log.expire(NOW + 1001).doomed) == 3
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (5, 5, 0)
    doomed = log.take_doomed()
    assert doomed
    assert all(path.endswith(".deleted") for path in doomed)
    assert log.take_doomed() == []
    again = opened(disk, segment_bytes=200)
    assert (again.log_start_offset, again.end_offset) == (5, 5)
    assert append(again).base_offset == 5


def test_deleted_records_are_out_of_reach_and_cannot_pass_the_high_watermark():
    log = opened(MemoryDisk())
    append(log, 5)
    log.advance_high_watermark(3)
    with pytest.raises(errors.OffsetOutOfRange):
        log.delete_records_before(4)
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3


def test_the_log_start_offset_comes_back_with_its_checkpoint():
    disk = MemoryDisk()
    log = opened(disk)
    append(log, 5)
    append(log, 5)
    log.close(clean=True)
    assert opened(disk, clean=True, log_start_offset=7).log_start_offset == 7


def test_a_log_that_ends_before_its_start_begins_anew_there():
    disk = MemoryDisk()
    append(opened(disk), 5)
    log = opened(disk, log_start_offset=9)
    assert (log.log_start_offset, log.end_offset) == (9, 9)
    assert append(log).base_offset == 9


def test_truncation_takes_epochs_and_producers_back():
    log = opened(MemoryDisk(), segment_bytes=300)
    for at in range(10):
        append(log, epoch=at // 3, producer_id=1, producer_epoch=0, base_sequence=at)
    log.advance_high_watermark(10)
    log.truncate_to(4)
    assert (log.end_offset, log.high_watermark) == (4, 4)
    assert log.epochs.latest == 1
    assert log.producers.entries[1].last_sequence == 3
    assert append(log, epoch=7, producer_id=1, producer_epoch=0, base_sequence=4).base_offset == 4


def test_truncation_keeps_transactions_of_what_stays():
    log = opened(MemoryDisk(), segment_bytes=300)
    for at in range(4):
        append(log, producer_id=1, producer_epoch=0, base_sequence=at, transactional=True)
        log.append_marker(1, 0, False, 0, leader_epoch=0, now_ms=NOW)
    log.truncate_to(5)
    assert log.producers.open_transactions == {1: 4}
    assert [each.last_offset for each in log.aborted_transactions(0, 10)] == [1, 3]


def test_the_last_stable_offset_stays_where_it_was_when_a_log_is_truncated_to_its_high_watermark():
    log = opened(MemoryDisk())
    for at in range(2):
        append(log, producer_id=1, producer_epoch=0, base_sequence=at, transactional=True)
        log.append_marker(1, 0, True, 0, leader_epoch=0, now_ms=NOW)
    log.advance_high_watermark(4)
    append(log)
    log.truncate_to(4)
    assert (log.end_offset, log.high_watermark, log.last_stable_offset) == (4, 4, 4)


def test_a_restarted_log_forgets_everything_and_begins_elsewhere():
    disk = MemoryDisk()
    log = opened(disk, segment_bytes=200)
    for at in range(4):
        append(log, producer_id=1, producer_epoch=0, base_sequence=at)
    log.restart_at(100)
    assert (log.log_start_offset, log.end_offset, log.high_watermark) == (100, 100, 100)
    assert not log.producers.entries
    assert log.epochs.entries == []
    assert append(log, epoch=2).base_offset == 100
    assert opened(disk).end_offset == 101


def test_the_end_of_an_epoch_is_where_the_next_one_starts():
    log = opened(MemoryDisk())
    for epoch in (1, 1, 4, 6):
        append(log, epoch=epoch)
    assert log.end_of_epoch(0) == (0, 0)
    assert log.end_of_epoch(1) == (1, 2)
    assert log.end_of_epoch(3) == (1, 2)
    assert log.end_of_epoch(4) == (4, 3)
    assert log.end_of_epoch(6) == (6, 4)
    assert log.end_of_epoch(7) == (-1, -1)


def test_a_follower_takes_batches_as_they_are_and_refuses_what_it_has():
    leader, follower = opened(MemoryDisk()), opened(MemoryDisk(), segment_bytes=150)
    for epoch in (0, 0, 3):
        append(leader, 2, epoch=epoch)
    data = leader.read(0, max_bytes=10_000, up_to=6).data
    cut_off = bytes(data) + bytes(data)[:30]
    assert follower.append_replicated(cut_off, now_ms=NOW) == 6
    assert follower.epochs.entries == leader.epochs.entries
    assert len(follower.segments) == 3
    with pytest.raises(errors.CorruptMessage):
        follower.append_replicated(data, now_ms=NOW)
    damaged = bytearray(data)
    damaged[70] ^= 1
    with pytest.raises(errors.CorruptMessage):
        opened(MemoryDisk()).append_replicated(damaged, now_ms=NOW)


def test_a_log_stamped_with_its_own_time_tells_it():
    log = opened(MemoryDisk(), log_append_time=True)
    appended = log.append(a_batch(2, timestamp=5), leader_epoch=0, now_ms=NOW)
    assert appended.log_append_time_ms == NOW
    records = read(log.read(0, max_bytes=1000, up_to=2).data)
    assert [each.timestamp for each in records] == [NOW, NOW]
    assert log.offset_for_timestamp(NOW).offset == 0
    assert log.offset_for_timestamp(NOW + 1) is None


def test_a_flush_is_due_by_messages_by_time_and_after_a_roll():
    log = opened(MemoryDisk(), flush_messages=3, flush_ms=500)
    append(log, 2)
    assert not log.flush_due(NOW + 499)
    assert log.flush_due(NOW + 500)
    append(log, 1)
    assert log.flush_due(NOW)
    flush = log.begin_flush()
    append(log, 1)
    flush.run()
    log.on_flushed(flush)
    assert log.recovery_point == 3
    log = opened(MemoryDisk(), segment_bytes=100)
    append(log)
    assert not log.flush_due(NOW)
    append(log)
    assert log.flush_due(NOW)


def test_nothing_is_flushed_twice():
    log = opened(MemoryDisk())
    assert log.begin_flush() is None
    append(log)
    flush = log.begin_flush()
    flush.run()
    log.on_flushed(flush)
    assert log.begin_flush() is None


def test_a_flush_that_began_before_a_truncation_counts_for_nothing():
    log = opened(MemoryDisk())
    append(log, 2)
    append(log, 2)
    flush = log.begin_flush()
    log.truncate_to(2)
    append(log, 2)
    flush.run()
    log.on_flushed(flush)
    assert log.recovery_point == 0


def test_a_flush_does_not_mind_that_a_segment_is_gone_meanwhile():
    log = opened(MemoryDisk(), segment_bytes=100, retention_ms=10)
    for _ in range(3):
        append(log)
    flush = log.begin_flush()
    log.advance_high_watermark(3)
    log.expire(NOW + 100)
    flush.run()
    log.on_flushed(flush)
    assert log.recovery_point == 3


def test_a_write_that_fails_leaves_the_log_as_it_was():
    disk = MemoryDisk()
    log = opened(disk)
    append(log, producer_id=1, producer_epoch=0, base_sequence=0)
    disk.fail("append", OSError(28, "full"), times=1, partial=20)
    with pytest.raises(errors.KafkaStorageError):
        append(log, producer_id=1, producer_epoch=0, base_sequence=1)
    assert log.failed is None
    assert append(log, producer_id=1, producer_epoch=0, base_sequence=1).base_offset == 1
    assert len(log.read(0, max_bytes=1000, up_to=2).data) == log.size_bytes


def test_a_log_that_cannot_be_cut_back_takes_nothing_any_more():
    disk = MemoryDisk()
    log = opened(disk)
    append(log)
    disk.fail("append", partial=20)
    disk.fail("truncate")
    for _ in range(2):
        with pytest.raises(errors.KafkaStorageError):
            append(log)
    disk.clear_faults()
    with pytest.raises(errors.KafkaStorageError):
        append(log)
    assert log.failed is not None
    assert opened(disk).end_offset == 1


def test_a_failing_read_is_a_storage_error():
    disk = MemoryDisk()
    log = opened(disk)
    append(log)
    disk.fail("read")
    with pytest.raises(errors.KafkaStorageError):
        log.read(0, max_bytes=100, up_to=1)


def test_settings_change_while_it_runs():
    log = opened(MemoryDisk())
    append(log)
    log.reconfigure(LogConfig(max_message_bytes=10))
    with pytest.raises(errors.MessageTooLarge):
        append(log)


def test_a_coordinator_may_write_without_a_sequence_and_control_batches_a_client_may_not():
    log = opened(MemoryDisk())
    batch = a_batch(2, producer_id=3, producer_epoch=1, transactional=True)
    with pytest.raises(errors.InvalidRecord):
        log.append(batch, leader_epoch=0, now_ms=NOW)
    assert log.append(batch, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR).base_offset == 0
    assert log.producers.open_transactions == {3: 0}
    stale = a_batch(1, producer_id=3, producer_epoch=0, transactional=True)
    with pytest.raises(errors.InvalidProducerEpoch):
        log.append(stale, leader_epoch=0, now_ms=NOW, origin=Origin.COORDINATOR)
    with pytest.raises(errors.InvalidRecord):
        log.append(a_batch(1, control=True), leader_epoch=0, now_ms=NOW)


def test_the_first_unstable_offset_holds_the_last_stable_offset_until_its_marker_is_replicated():
    log = opened(MemoryDisk())
    append(log)
    append(log, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    append(log)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    log.append_marker(1, 0, True, 0, leader_epoch=0, now_ms=NOW)
    assert log.last_stable_offset == 1
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
    assert log.aborted_transactions(0, 4) == []


@pytest.mark.parametrize("decided", [False, True])
def test_the_last_stable_offset_is_never_before_the_start_of_the_log(decided: bool):
    log = opened(MemoryDisk())
    append(log, 3, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, 2)
    log.advance_high_watermark(5)
    if decided:
        log.append_marker(1, 0, False, 0, leader_epoch=0, now_ms=NOW)
    log.delete_records_before(4)
    assert log.last_stable_offset == 4


def test_an_aborted_transaction_is_named_to_those_who_read_its_records():
    log = opened(MemoryDisk())
    append(log, 2, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    append(log, 2, producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    log.append_marker(2, 0, False, 0, leader_epoch=0, now_ms=NOW)
    log.append_marker(1, 0, False, 0, leader_epoch=0, now_ms=NOW)
    second, first = log.aborted_transactions(0, 10)
    assert second == (2, 2, 4, 0)
    assert first == (1, 0, 5, 6)
    assert log.aborted_transactions(5, 10) == [first]
    assert log.aborted_transactions(0, 2) == [first]


def test_markers_of_older_epochs_and_older_coordinators_are_refused():
    log = opened(MemoryDisk())
    append(log, producer_id=1, producer_epoch=2, base_sequence=0, transactional=True)
    with pytest.raises(errors.InvalidProducerEpoch):
        log.append_marker(1, 1, True, 5, leader_epoch=0, now_ms=NOW)
    log.append_marker(1, 2, True, 5, leader_epoch=0, now_ms=NOW)
    with pytest.raises(errors.TransactionCoordinatorFenced):
        log.append_marker(1, 2, True, 4, leader_epoch=0, now_ms=NOW)


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction():
    log = opened(MemoryDisk())
    append(log, producer_id=1, producer_epoch=2, base_sequence=0, transactional=True)

    def end(epoch):
        return log.append_marker(1, epoch, True, 5, leader_epoch=0, now_ms=NOW, transaction_version=2)

    with pytest.raises(errors.InvalidProducerEpoch):
        end(2)
    end(3)
    end(3)  # its answer was lost, or the coordinator started again
    append(log, producer_id=1, producer_epoch=3, base_sequence=0, transactional=True)
    with pytest.raises(errors.InvalidProducerEpoch):
        end(3)
    assert log.last_stable_offset < log.end_offset
    end(4)


def test_an_epoch_that_began_before_the_first_record_is_remembered():
    disk = MemoryDisk()
    log = opened(disk)
    log.begin_epoch(4)
    append(log, epoch=4)
    assert opened(disk).epochs.entries == [(4, 0)]
    assert disk.read_whole("t-0/leader-epoch-checkpoint") == b"0\n1\n4 0\n"


def test_a_moved_log_goes_on_in_its_new_folder():
    disk = MemoryDisk()
    log = opened(disk, segment_bytes=150)
    append(log)
    log.move_to("u-0")
    for _ in range(3):
        append(log)
    flush = log.begin_flush()
    flush.run()
    log.on_flushed(flush)
    disk.crash()
    assert disk.list("") == ["u-0"]
    log = Log.open(
        Location(disk, "u-0", FileCache()),
        LogConfig(),
        LastRun(clean=False, recovery_point=4),
        now_ms=NOW,
        report=print,
    )
    assert log.end_offset == 4


@given(length=st.one_of(st.just(-12), st.integers(-(2**31), 2**31 - 1)), victim=st.integers(0, 3))
def test_a_damaged_batch_length_on_disk_ends_a_read(length, victim):
    """-12 once made a read step on the spot for ever."""
    disk = MemoryDisk()
    log = opened(disk)
    for _ in range(4):
        append(log)
    log.advance_high_watermark(4)
    size = len(disk.read_whole(PATH)) // 4
    disk.open(PATH).write_at(victim * size + 8, struct.pack(">i", length))
    for offset in range(4):
        with suppress(errors.CorruptMessage):
            read = log.read(offset, max_bytes=10_000, up_to=4)
            assert len(read.data) <= 4 * size


def test_the_newest_record_is_found_behind_any_number_of_emptied_batches():
    """Compaction leaves the header of every producer's last batch."""
    log = opened(MemoryDisk())
    count = HEADERS_PER_STEP + 1
    for offset in range(count):
        header = read_header(a_batch(producer_id=offset, producer_epoch=0, base_sequence=0))
        header.base_offset, header.leader_epoch = offset, 0
        log.append_replicated(emptied(header), now_ms=NOW)
    append(log, now_ms=5)
    append(log, now_ms=9)
    assert log.offset_of_max_timestamp(up_to=count + 1) == (count, 5, 0)


@pytest.mark.parametrize("newest", [False, True])
def test_very_many_segments_are_searched_in_steps(newest: bool):
    """Of each segment that was not asked before the indexes are read."""
    disk = MemoryDisk()
    log, count = opened(disk, segment_bytes=100), 3 * HEADERS_PER_STEP // SEGMENT_HEADERS
    for at in range(count):
        append(log, now_ms=NOW + at)
    log.close(clean=True)
    log = opened(disk, clean=True, segment_bytes=100)
    assert len(log.segments) == count
    search = log.search_newest() if newest else log.search(NOW + count - 1)
    steps: list[Any] = []
    with pytest.raises(StopIteration) as stop:
        steps.append(next(search))
        while True:
            steps.append(search.send(None if isinstance(steps[-1], int) else steps[-1]()))
    assert stop.value.value == (count - 1, NOW + count - 1, 0)
    assert [step for step in steps if isinstance(step, int)][:2] == [HEADERS_PER_STEP] * 2
