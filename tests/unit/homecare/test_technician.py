"""The technician's view on plain data."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

from ottla.homecare.technician import Event, Technician, records, runs

T = 8_000


def beats(*moments: tuple[str, int]) -> pa.RecordBatch:
    keys, times = zip(*moments, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array([k.encode() for k in keys], pa.binary()), pa.array(times, pa.int64())],
        names=["key", "timestamp"],
    )


def step(view: Technician, watermark_ms: int, *moments: tuple[str, int]) -> list[Event]:
    return view.step(runs([beats(*moments)] if moments else [], T), watermark_ms)


def test_a_device_that_beats_is_never_mentioned() -> None:
    view = Technician(T)
    for at in range(1_000, 60_000, 1_000):
        assert step(view, at - 500, ("a", at)) == []


def test_silence_longer_than_the_time_out_is_offline_once_and_since_the_last_heartbeat() -> None:
    view = Technician(T)
    step(view, 0, ("a", 1_000))
    assert step(view, 1_000 + T) == []
    assert step(view, 1_000 + T + 1) == [Event("a", "offline", 1_000)]
    assert step(view, 500_000) == []


def test_the_next_heartbeat_brings_it_back_once_the_watermark_has_passed() -> None:
    view = Technician(T)
    step(view, 0, ("a", 1_000))
    step(view, 20_000)
    assert step(view, 29_000, ("a", 30_000)) == []
    assert step(view, 30_000, ("a", 31_000)) == [Event("a", "online", 30_000)]
    assert step(view, 31_000, ("a", 30_000)) == []


def test_a_gap_inside_one_micro_batch_is_seen() -> None:
    view = Technician(T)
    found = step(view, 60_000, ("a", 1_000), ("a", 30_000), ("a", 31_000), ("a", 55_000))
    wanted = [("offline", 1_000), ("online", 30_000), ("offline", 31_000), ("online", 55_000)]
    assert found == [Event("a", state, at) for state, at in wanted]


def test_a_late_heartbeat_closes_a_gap_that_was_not_certain() -> None:
    view = Technician(T)
    step(view, 0, ("a", 1_000))
    assert step(view, 5_000, ("a", 12_000)) == []
    assert step(view, 6_000, ("a", 6_500)) == []
    assert step(view, 12_500) == []


def test_exactly_the_time_out_is_not_silence() -> None:
    view = Technician(T)
    assert step(view, 100, ("a", 1_000), ("a", 1_000 + T)) == []
    assert step(view, 1_000 + T) == []


def test_runs_cut_only_where_the_gap_is_longer_than_the_time_out() -> None:
    found = runs([beats(("a", 0), ("a", T), ("a", 2 * T + 1), ("b", 5))], T).sort_by("first").to_pylist()
    assert found == [
        {"device": "a", "first": 0, "last": T},
        {"device": "b", "first": 5, "last": 5},
        {"device": "a", "first": 2 * T + 1, "last": 2 * T + 1},
    ]


def _expected(heartbeats: dict[str, list[int]]) -> set[Event]:
    found = set()
    for device, moments in heartbeats.items():
        for before, after in itertools.pairwise(sorted(moments)):
            if after - before > T:
                found |= {Event(device, "offline", before), Event(device, "online", after)}
        found.add(Event(device, "offline", max(moments)))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_outcome_does_not_depend_on_batches_order_lateness_repetition_or_restarts(seed: int) -> None:
    random_ = random.Random(seed)
    heartbeats = {
        f"d{i}": sorted(random_.sample(range(1_000, 120_000), random_.randint(1, 20))) for i in range(10)
    }
    lateness = 4_000
    sent = sorted(
        (at + random_.choice([0, 0, random_.randint(0, lateness - 1)]), device, at)
        for device, moments in heartbeats.items()
        for at in moments
        for _ in range(random_.choice([1, 1, 2]))
    )
    # A device's first heartbeat must not come late: what it was before is not known.
    view, events, saved = Technician(T), [], {}
    while sent:
        size = random_.randint(1, 12)
        batch, sent = sent[:size], sent[size:]
        watermark = (sent[0][0] if sent else batch[-1][0]) - lateness
        events += step(view, watermark, *[(device, at) for _, device, at in batch])
        saved.update(view.changes())
        if random_.random() < 0.3:
            view = Technician(T)
            view.load(dict(saved))
    events += step(view, 10**9)
    assert len(events) == len(set(events))
    firsts = {device: min(moments) for device, moments in heartbeats.items()}
    assert {e for e in events if e.at > firsts[e.device]} == {
        e for e in _expected(heartbeats) if e.at > firsts[e.device]
    }


def test_events_are_written_by_device() -> None:
    topic, rows = records([Event("a", "offline", 7)])
    assert (topic, rows.to_pylist()) == (
        "device-event",
        [{"key": "a", "value": b'{"at": 7, "device": "a", "state": "offline"}'}],
    )
