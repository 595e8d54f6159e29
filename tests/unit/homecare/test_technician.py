"""The technician's stage on plain data."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from ottla.homecare import topics
from ottla.homecare.rules import Rules
from ottla.homecare.technician import Event, records, runs
from tests.unit.homecare.operating import Operating, batch

T = 8_000
RULES = Rules(timeout_ms=T)


def new() -> Operating:
    return Operating("technician", RULES)


def beat(device: str, at: int) -> tuple[str, str, int, Any]:
    return topics.HEARTBEAT, device, at, None


def step(view: Operating, watermark_ms: int, *moments: tuple[str, int]) -> list[Event]:
    return [Event(**told) for told in view.step(watermark_ms, *[beat(*moment) for moment in moments])]


def test_a_device_that_beats_is_never_mentioned() -> None:
    view = new()
    for at in range(1_000, 60_000, 1_000):
        assert step(view, at - 500, ("a", at)) == []


def test_a_heartbeat_of_no_device_says_nothing() -> None:
    assert new().step(20_000, (topics.HEARTBEAT, None, 1_000, None)) == []


def test_silence_longer_than_the_time_out_is_offline_once_and_since_the_last_heartbeat() -> None:
    view = new()
    step(view, 0, ("a", 1_000))
    assert step(view, 1_000 + T) == []
    assert step(view, 1_000 + T + 1) == [Event("a", "offline", 1_000)]
    assert step(view, 500_000) == []
    assert view.shown == {"devices": 1, "offline": 1}


def test_the_next_heartbeat_brings_it_back_once_the_watermark_has_passed() -> None:
    view = new()
    step(view, 0, ("a", 1_000))
    step(view, 20_000)
    assert step(view, 29_000, ("a", 30_000)) == []
    assert step(view, 30_000, ("a", 31_000)) == [Event("a", "online", 30_000)]
    assert step(view, 31_000, ("a", 30_000)) == []


def test_a_gap_inside_one_step_is_seen() -> None:
    found = step(new(), 60_000, ("a", 1_000), ("a", 30_000), ("a", 31_000), ("a", 55_000))
    wanted = [("offline", 1_000), ("online", 30_000), ("offline", 31_000), ("online", 55_000)]
    assert found == [Event("a", state, at) for state, at in wanted]


def test_a_late_heartbeat_closes_a_gap_that_was_not_certain() -> None:
    view = new()
    step(view, 0, ("a", 1_000))
    assert step(view, 5_000, ("a", 12_000)) == []
    assert step(view, 6_000, ("a", 6_500)) == []
    assert step(view, 12_500) == []


def test_exactly_the_time_out_is_not_silence() -> None:
    view = new()
    assert step(view, 100, ("a", 1_000), ("a", 1_000 + T)) == []
    assert step(view, 1_000 + T) == []


def test_runs_cut_only_where_the_gap_is_longer_than_the_time_out() -> None:
    beats = batch(beat("a", 0), beat("a", T), beat("a", 2 * T + 1), beat("b", 5))
    found = runs(beats, T).sort_by("first").to_pylist()
    assert found == [
        {"device": b"a", "first": 0, "last": T},
        {"device": b"b", "first": 5, "last": 5},
        {"device": b"a", "first": 2 * T + 1, "last": 2 * T + 1},
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
def test_the_outcome_does_not_depend_on_steps_order_lateness_repetition_or_restarts(seed: int) -> None:
    random_ = random.Random(seed)
    heartbeats = {
        f"d{i}": sorted(random_.sample(range(1_000, 120_000), random_.randint(1, 20))) for i in range(10)
    }
    lateness = RULES.lateness_ms
    sent = sorted(
        (at + random_.choice([0, 0, random_.randint(0, lateness - 1)]), device, at)
        for device, moments in heartbeats.items()
        for at in moments
        for _ in range(random_.choice([1, 1, 2]))
    )
    # A device's first heartbeat must not come late: what it was before is not known.
    view, events = new(), []
    while sent:
        size = random_.randint(1, 12)
        taken, sent = sent[:size], sent[size:]
        watermark = (sent[0][0] if sent else taken[-1][0]) - lateness
        events += step(view, watermark, *[(device, at) for _, device, at in taken])
        if random_.random() < 0.3:
            view.restart()
    events += step(view, 10**9)
    assert len(events) == len(set(events))
    firsts = {device: min(moments) for device, moments in heartbeats.items()}
    assert {e for e in events if e.at > firsts[e.device]} == {
        e for e in _expected(heartbeats) if e.at > firsts[e.device]
    }


def test_events_are_written_by_device() -> None:
    assert records([Event("a", "offline", 7)]).to_pylist() == [
        {"key": b"a", "value": b'{"at": 7, "device": "a", "state": "offline"}'}
    ]
