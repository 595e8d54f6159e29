"""Reads from every offset equal a model: a list of batches."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.config.log import LogConfig
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.wire.batch import build
from ottla.wire.records import Record, read

Batch = list[Record]


def a_batch(count: int, value_bytes: int, timestamp: int) -> bytes:
    return build([Record(at, timestamp + at, b"k", b"v" * value_bytes) for at in range(count)])


def opened(disk: MemoryDisk, config: LogConfig, *, clean: bool = False) -> Log:
    return Log.open(
        Location(disk, "t-0", FileCache(files_max=2)),
        config,
        LastRun(clean),
        now_ms=0,
        report=lambda _: None,
    )


shapes = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 120), st.integers(0, 50)), min_size=1, max_size=30
)
configs = st.builds(LogConfig, segment_bytes=st.integers(600, 3000), index_interval_bytes=st.integers(0, 700))


def filled(shape: list[tuple[int, int, int]], config: LogConfig) -> tuple[MemoryDisk, Log, list[Batch]]:
    disk = MemoryDisk()
    log = opened(disk, config)
    model = []
    for count, value_bytes, timestamp in shape:
        appended = log.append(a_batch(count, value_bytes, timestamp), leader_epoch=0, now_ms=0)
        model.append(
            [
                Record(appended.base_offset + at, timestamp + at, b"k", b"v" * value_bytes)
                for at in range(count)
            ]
        )
    return disk, log, model


def batches_in(data: Any) -> list[Batch]:
    found, position = [], 0
    while position < len(data):
        records = read(data, position)
        found.append(records)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def expected(model: list[Batch], offset: int, max_bytes: int, up_to: int, at_least_one: bool) -> list[Batch]:
    wanted, size = [], 0
    for batch in model:
        if batch[-1].offset < offset:
            continue
        batch_bytes = len(build([each._replace(offset=at) for at, each in enumerate(batch)]))
        size += batch_bytes
        if batch[0].offset >= up_to or (size > max_bytes and (wanted or not at_least_one)):
            break
        wanted.append(batch)
    return wanted


@settings(deadline=None, max_examples=60)
@given(shapes, configs, st.integers(1, 2000), st.booleans(), st.booleans(), st.data())
def test_a_read_from_any_offset_is_a_run_of_the_model(shape, config, max_bytes, at_least_one, reopen, data):
    disk, log, model = filled(shape, config)
    if reopen:
        log.close(clean=True)
        log = opened(disk, config, clean=True)
    bounds = [batch[0].offset for batch in model] + [log.end_offset]
    up_to = data.draw(st.sampled_from(bounds))
    for offset in range(log.end_offset):
        found = log.read(offset, max_bytes=max_bytes, up_to=up_to, at_least_one=at_least_one)
        batches = batches_in(found.data)
        wanted = expected(model, offset, max_bytes, up_to, at_least_one)
        assert batches == wanted[: len(batches)]
        # A read stays within a segment, so it may stop early, but never without a batch.
        assert bool(batches) == bool(wanted)
        assert found.next_offset == (batches[-1][-1].offset + 1 if batches else offset)


@settings(deadline=None, max_examples=40)
@given(shapes, configs, st.integers(1, 700))
def test_reading_on_from_next_offset_gives_everything_once(shape, config, max_bytes):
    _, log, model = filled(shape, config)
    offset, seen = 0, []
    while offset < log.end_offset:
        found = log.read(offset, max_bytes=max_bytes, up_to=log.end_offset)
        assert found.next_offset > offset
        seen += batches_in(found.data)
        offset = found.next_offset
    assert seen == model


@settings(deadline=None, max_examples=60)
@given(shapes, configs, st.booleans(), st.data())
def test_bytes_between_offsets_are_those_of_the_batches(shape, config, reopen, data):
    disk, log, model = filled(shape, config)
    if reopen:
        log.close(clean=True)
        log = opened(disk, config, clean=True)
    ends = [batch[0].offset for batch in model] + [log.end_offset]
    for _ in range(10):
        start = data.draw(st.integers(0, log.end_offset))
        end = data.draw(st.sampled_from([each for each in ends if each >= start]))
        place = log.place_of(start)
        sizes = [_size(batch) for batch in model if batch[-1].offset >= start and batch[0].offset < end]
        assert log.bytes_from(place, end) == sum(sizes)
        if data.draw(st.booleans()):  # reads and lookups leave marks that the next one may use
            log.read(start, max_bytes=500, up_to=log.end_offset)


def _size(batch: Batch) -> int:
    """As it was appended: record offsets count from the start of their batch."""
    return len(build([record._replace(offset=at) for at, record in enumerate(batch)]))


@settings(deadline=None, max_examples=40)
@given(shapes, configs, st.booleans(), st.data())
def test_a_timestamp_finds_the_first_record_that_is_not_older(shape, config, reopen, data):
    disk, log, model = filled(shape, config)
    if reopen:
        log.close(clean=True)
        log = opened(disk, config, clean=True)
    log.advance_high_watermark(log.end_offset)
    start = data.draw(st.integers(0, log.end_offset))
    log.delete_records_before(start)
    records = [record for batch in model for record in batch if record.offset >= start]
    for timestamp in range(60):
        first = next((each for each in records if each.timestamp >= timestamp), None)
        found = log.offset_for_timestamp(timestamp)
        assert (found and (found.offset, found.timestamp)) == (first and (first.offset, first.timestamp))
    newest = max(records, key=lambda each: (each.timestamp, -each.offset), default=None)
    found = log.offset_of_max_timestamp()
    assert (found and found.offset) == (newest and newest.offset)


@settings(deadline=None, max_examples=40)
@given(shapes, configs, st.data())
def test_a_truncated_log_is_a_prefix_that_goes_on(shape, config, data):
    disk, log, model = filled(shape, config)
    offset = data.draw(st.integers(0, log.end_offset))
    log.truncate_to(offset)
    kept = [batch for batch in model if batch[-1].offset < offset]
    assert log.end_offset == (kept[-1][-1].offset + 1 if kept else 0)
    for value_bytes in data.draw(st.lists(st.integers(0, 200), min_size=1, max_size=8)):
        appended = log.append(a_batch(2, value_bytes, 3), leader_epoch=1, now_ms=0)
        kept.append([Record(appended.base_offset + at, 3 + at, b"k", b"v" * value_bytes) for at in range(2)])
    for batch in reversed(kept):  # backwards, as reads in order would not need the index
        found = log.read(batch[-1].offset, max_bytes=1, up_to=log.end_offset)
        assert batches_in(found.data) == [batch]
    for again in (log, opened(disk, config)):
        seen, at = [], 0
        while at < again.end_offset:
            found = again.read(at, max_bytes=1, up_to=again.end_offset)
            seen += batches_in(found.data)
            at = found.next_offset
        assert seen == kept
