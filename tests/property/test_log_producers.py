"""Producer state: a snapshot and the replay of what follows give what the live log knows."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import errors
from ottla.config.log import LogConfig
from ottla.storage.files import FileCache
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.memory import MemoryDisk
from ottla.storage.producers import Producers
from ottla.wire.batch import build
from ottla.wire.records import Record

CONFIG = LogConfig(segment_bytes=800, index_interval_bytes=100)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(1, 4), st.integers(1, 3)),
        st.tuples(st.sampled_from(["commit", "abort", "bump"]), st.integers(2, 4), st.just(0)),
        st.tuples(st.sampled_from(["flush", "high watermark"]), st.just(0), st.just(0)),
    ),
    max_size=40,
)


class Run:
    """Producer 1 is idempotent, the others are transactional; all of them follow the rules."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.log = opened(self.disk)
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.model_open: dict[int, int] = {}
        self.model_aborted: list[tuple[int, int, int]] = []

    def take(self, step: tuple[str, int, int]) -> None:
        kind, producer_id, count = step
        if kind == "data":
            self.append(producer_id, count)
        elif kind in ("commit", "abort"):
            self.end(producer_id, kind == "commit")
        elif kind == "bump" and producer_id not in self.model_open:
            self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
            self.sequences[producer_id] = 0
        elif kind == "flush" and (flush := self.log.begin_flush()):
            flush.run()
            self.log.on_flushed(flush)
        elif kind == "high watermark":
            self.log.advance_high_watermark(self.log.end_offset)

    def append(self, producer_id: int, count: int) -> None:
        sequence = self.sequences.get(producer_id, 0)
        batch = build(
            [Record(at, 5, b"k", b"v") for at in range(count)],
            producer_id=producer_id,
            producer_epoch=self.epochs.get(producer_id, 0),
            base_sequence=sequence,
            transactional=producer_id > 1,
        )
        appended = self.log.append(batch, leader_epoch=0, now_ms=5)
        again = self.log.append(batch, leader_epoch=0, now_ms=5)
        # A repeated batch is answered with its timestamp, as Apache Kafka does.
        assert again == appended._replace(duplicate=True, log_append_time_ms=5)
        self.sequences[producer_id] = sequence + count
        if producer_id > 1:
            self.model_open.setdefault(producer_id, appended.base_offset)

    def end(self, producer_id: int, committed: bool) -> None:
        epoch = self.epochs.get(producer_id, 0)
        appended = self.log.append_marker(producer_id, epoch, committed, 0, leader_epoch=0, now_ms=5)
        first = self.model_open.pop(producer_id, None)
        if first is not None and not committed:
            self.model_aborted.append((producer_id, first, appended.base_offset))


def opened(disk: MemoryDisk, *, clean: bool = False, recovery_point: int = 0) -> Log:
    return Log.open(
        Location(disk, "t-0", FileCache()),
        CONFIG,
        LastRun(clean, recovery_point),
        now_ms=5,
        report=lambda _: None,
    )


def state(producers: Producers) -> dict[int, tuple[object, ...]]:
    """A snapshot keeps the last batch only, so that is what is compared."""
    return {
        each.producer_id: (
            each.epoch,
            each.coordinator_epoch,
            each.last_timestamp,
            each.transaction_first_offset,
            each.batches[-1:],
        )
        for each in producers.entries.values()
    }


@settings(deadline=None, max_examples=60)
@given(steps, st.booleans(), st.booleans())
def test_reopened_producer_state_equals_the_live_one(todo, clean, checkpointed):
    run = Run()
    for step in todo:
        run.take(step)
    live = run.log
    if clean:
        live.close(clean=True)
    again = opened(run.disk, clean=clean, recovery_point=live.recovery_point if checkpointed else 0)
    assert state(again.producers) == state(live.producers)
    assert list(again.producers.open_transactions.items()) == list(run.model_open.items())
    assert [each[:3] for each in again.aborted_transactions(0, again.end_offset)] == run.model_aborted
    assert again.aborted_transactions(0, again.end_offset) == live.aborted_transactions(0, live.end_offset)


@settings(deadline=None, max_examples=40)
@given(steps)
def test_a_follower_ends_up_with_the_leaders_state(todo):
    run = Run()
    for step in todo:
        run.take(step)
    leader, follower = run.log, opened(MemoryDisk())
    while follower.end_offset < leader.end_offset:
        found = leader.read(follower.end_offset, max_bytes=300, up_to=leader.end_offset)
        assert follower.append_replicated(found.data, now_ms=5) == found.next_offset
    assert follower.producers.entries == leader.producers.entries
    assert follower.epochs.entries == leader.epochs.entries
    assert follower.aborted_transactions(0, 10**6) == leader.aborted_transactions(0, 10**6)


@settings(deadline=None, max_examples=40)
@given(steps)
def test_the_last_stable_offset_is_the_first_open_transaction_below_the_high_watermark(todo):
    run = Run()
    for step in todo:
        run.take(step)
    run.log.advance_high_watermark(run.log.end_offset)
    first = min(run.model_open.values(), default=run.log.end_offset)
    assert run.log.last_stable_offset == first


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31 - 1), st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_sequences_go_on_and_wrap_after_the_largest_int32(start, counts):
    log = opened(MemoryDisk())
    sequence = start
    for count in counts:
        batch = build(
            [Record(at, 5, b"k", b"v") for at in range(count)],
            producer_id=1,
            producer_epoch=0,
            base_sequence=sequence,
        )
        assert not log.append(batch, leader_epoch=0, now_ms=5).duplicate
        sequence = (sequence + count) & 0x7FFF_FFFF
    wrong = build(
        [Record(0, 5, b"k", b"v")], producer_id=1, producer_epoch=0, base_sequence=(sequence + 1) % 2**31
    )
    try:
        log.append(wrong, leader_epoch=0, now_ms=5)
    except errors.OutOfOrderSequenceNumber:
        return
    raise AssertionError("a gap in the sequence was accepted")
