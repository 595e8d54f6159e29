"""Runs and passing batches on: any cut, any gap, any codec; the map is exact."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.columnar.whole import Chunk
from ottla.client.values import TopicPartition
from ottla.mirror import journal as journal_module
from ottla.mirror import runs as runs_module
from ottla.mirror.journal import Control, Journal, control_record, run_records
from ottla.mirror.passing import batches_of, runs_of
from ottla.mirror.positions import Position, read
from ottla.mirror.runs import Run, Translator, join, pack, unpack
from ottla.wire import batch as batches
from ottla.wire import records as wire_records
from ottla.wire.records import Record

WHERE = TopicPartition("in", 3)
OFFSETS = st.lists(st.integers(1, 4), min_size=1, max_size=60).map(lambda gaps: list(np.cumsum(gaps)))


def placed(sources: list[int], begin: int = 0) -> list[Run]:
    return [
        Run(run.source, begin + run.target, run.length) for run in runs_of(np.array(sources, dtype=np.int64))
    ]


@given(sources=OFFSETS, cuts=st.sets(st.integers(1, 59)), jump=st.integers(0, 3))
def test_every_position_is_translated_to_the_first_record_not_before_it(
    sources: list[int], cuts: set[int], jump: int
) -> None:
    translator, target_of = Translator(), {}
    target = 0
    bounds = [0, *sorted(cut for cut in cuts if cut < len(sources)), len(sources)]
    for begin, end in itertools.pairwise(bounds):
        part = sources[begin:end]
        translator.add(placed(part, target))
        target_of |= {source: target + i for i, source in enumerate(part)}
        target += len(part) + jump  # the transaction's marker
    for position in range(sources[-1] + 1):
        first = next(source for source in sources if source >= position)
        assert translator.translate(position) == target_of[first]


@given(sources=OFFSETS)
def test_runs_survive_bytes_and_are_read_back_in_any_order(sources: list[int]) -> None:
    found = placed(sources)
    assert unpack(pack(found)) == found
    journal = Journal()
    for key, value in [*run_records(WHERE, b"i" * 16, found)] * 2:
        journal.apply(key, value)
    (known,) = journal.maps.values()
    assert [known.translate(source) for source in sources] == list(range(len(sources)))


def test_adjacent_runs_become_one() -> None:
    assert join([Run(0, 0, 5), Run(5, 5, 5), Run(10, 11, 1)]) == [Run(0, 0, 10), Run(10, 11, 1)]


def test_too_many_runs_are_thinned_and_never_skip_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "RUNS_MAX", 64)
    translator = Translator()
    for i in range(1_000):
        translator.add([Run(2 * i, i, 1)])
    assert len(translator) <= 65
    for i in range(1_000):
        assert translator.translate(2 * i) <= i
    assert translator.translate(2 * 999) == 999


def test_what_nobody_asks_for_is_forgotten() -> None:
    translator = Translator()
    translator.add([Run(0, 0, 10), Run(20, 10, 10), Run(40, 20, 10)])
    translator.forget_below(25)
    assert len(translator) == 2
    assert translator.translate(25) == 15


@given(
    steps=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=12),
        min_size=1,
        max_size=6,
    ),
    log_starts=st.lists(st.integers(0, 250), min_size=1, max_size=3).map(sorted),
    restarts=st.booleans(),
)
def test_after_pruning_and_compaction_a_restarted_mirror_translates_as_before(
    steps: list[list[tuple[int, int]]], log_starts: list[int], restarts: bool
) -> None:
    """`steps`: gaps before runs at the source, and their lengths. A step is one record of the journal."""
    topic = journal_of(steps)
    complete, pruned = loaded(topic), loaded(topic)
    (where,) = complete.maps
    end = (complete.maps[where].last() or Run(0, 0, 0)).source
    for log_start in log_starts:
        topic += [(key, None) for key in pruned.forget_below(where, log_start)]
        restarted = loaded(compacted(topic))
        for position in range(log_start, end + 10):
            expected = complete.maps[where].translate(position)
            assert pruned.maps[where].translate(position) == expected
            assert restarted.maps[where].translate(position) == expected
        if restarts:
            topic, pruned = compacted(topic), restarted


def test_records_of_the_journal_are_deleted_once_none_of_their_runs_is_needed() -> None:
    topic = journal_of([[(1, 1)] * 25 for _ in range(3)])  # the records begin at 1, 51 and 101
    pruned, where = loaded(topic), (WHERE, b"i" * 16)
    assert pruned.forget_below(where, 30) == []
    assert pruned.forget_below(where, 51) == [topic[0][0]]
    assert pruned.forget_below(where, 51) == []
    assert pruned.forget_below(where, 1_000) == [topic[1][0]]  # the last run is always kept
    assert loaded([*topic, (topic[0][0], None)]).forget_map(where) == [topic[1][0], topic[2][0]]


def test_keys_that_are_too_many_are_thinned_and_no_record_is_deleted_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_module, "RECORDS_MAX", 8)
    topic = journal_of([[(1, 1), (1, 1)] for _ in range(50)])
    complete, pruned = loaded(topic), loaded(topic)
    (where,) = complete.maps
    topic += [(key, None) for key in pruned.forget_below(where, 180)]
    restarted = loaded(compacted(topic))
    assert len(compacted(topic)) < 50
    for position in range(180, 202):
        assert restarted.maps[where].translate(position) == complete.maps[where].translate(position)


JournalRecords = list[tuple[bytes, bytes | None]]


def journal_of(steps: list[list[tuple[int, int]]]) -> JournalRecords:
    topic: JournalRecords = []
    source = target = 0
    for step in steps:
        runs = []
        for gap, length in step:
            runs.append(Run(source + gap, target, length))
            source, target = source + gap + length, target + length
        topic += run_records(WHERE, b"i" * 16, runs)
        target += 1  # the transaction's marker
    return topic


def compacted(topic: JournalRecords) -> JournalRecords:
    """As a broker leaves it: the last value of each key, and no tombstones."""
    return [(key, value) for key, value in dict(topic).items() if value is not None]


def loaded(topic: JournalRecords) -> Journal:
    journal = Journal()
    for key, value in topic:
        journal.apply(key, value)
    return journal


def test_what_operators_ask_is_read_back() -> None:
    journal = Journal()
    journal.apply(*control_record(Control(paused=True, throttle_bytes=5)))
    assert journal.control == Control(True, 5)


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    gaps=st.booleans(),
    codec=st.sampled_from([0, 1, 2, 3, 4]),
    append_time=st.booleans(),
    position=st.integers(0, 40),
)
def test_batches_are_passed_on_record_for_record(
    sizes: list[int], gaps: bool, codec: int, append_time: bool, position: int
) -> None:
    data, offset = b"", 0
    for number, size in enumerate(sizes):
        rows = []
        for i in range(size):
            offset += 2 if gaps and i % 3 == 0 else 1
            rows.append(Record(offset - 1, 1_000 + offset, b"k", b"%d" % offset, (("h", b"%d" % number),)))
        stamped = 5_000 if append_time else None
        data += batches.build(rows, base_offset=rows[0].offset, codec=codec, log_append_time_ms=stamped)
    chunk = Chunk(WHERE, data, 0)
    expected = [record for _, record in chunk.records() if record.offset >= position]
    passed = list(batches_of(chunk, position))
    found, sources = [], []
    for batch in passed:
        header = batches.check(batch.data)
        assert header.codec == codec and header.count == batch.records == header.last_offset_delta + 1
        assert not header.log_append_time
        found += wire_records.read(batch.data)
        sources += [run.source + i for run in batch.runs for i in range(run.length)]
    plain = [(r.timestamp, r.key, r.value, r.headers) for r in found]
    assert plain == [(r.timestamp, r.key, r.value, r.headers) for r in expected]
    assert sources == [record.offset for record in expected]


def test_a_damaged_batch_is_not_given_a_new_checksum() -> None:
    data = bytearray(batches.build([Record(i, 1, b"k", b"v" * 100) for i in range(10)]))
    data[-5] ^= 1
    with pytest.raises(batches.CorruptBatch):
        list(batches_of(Chunk(WHERE, bytes(data), 0, check_crcs=False), 0))


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 1000)), max_size=30)
)
def test_a_position_keeps_its_runs(gaps: list[tuple[int, int, int]]) -> None:
    runs, source, target = [], 0, 0
    for source_gap, target_gap, length in gaps:
        runs.append(Run(source + source_gap, target + target_gap, length))
        source, target = runs[-1].source + length, runs[-1].target + length
    position = Position(source, target, "ab" * 16, runs=tuple(runs))
    offset = position.to_offset()
    assert read("in-0", offset) == position
    assert json.loads(offset.metadata)["mirror"] == (2 if runs else 1)
