"""The nurse's stage on plain data."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.homecare import topics
from ottla.homecare.nurse import RING, Alert
from ottla.homecare.rules import Rules
from tests.unit.homecare.operating import Operating

RULES = Rules(window_ms=1_000, sustained_ms=5_000, escalate_ms=12_000, clear_ms=5_000)
GOOD = {"pulse": 70, "spo2": 97, "temperature": 36.6}
BAD = {"pulse": 160, "spo2": 97, "temperature": 36.6}


def new() -> Operating:
    return Operating("nurse", RULES)


def reading(at: int, value: Any, patient: str = "p") -> tuple[str, str, int, Any]:
    return topics.VITALS, patient, at, value


def duty(patient: str, nurse: str, begins: int) -> tuple[str, str, int, Any]:
    return topics.ROSTER, patient, 0, {"nurse": nurse, "ward": "w", "from": begins}


def step(view: Operating, watermark_ms: int, *records: Any) -> list[Alert]:
    return [Alert(**told) for told in view.step(watermark_ms, *records)]


def watch(view: Operating, seconds: range, value: dict[str, float], patient: str = "p") -> list[Alert]:
    found: list[Alert] = []
    for second in seconds:
        at = second * 1_000
        found += step(view, at + 1_000, reading(at + 100, value, patient))
    return found


def test_a_sustained_lapse_warns_once_then_escalates_once() -> None:
    view = new()
    step(view, 0, duty("p", "anna", 0))
    assert watch(view, range(10, 40), BAD) == [
        Alert("p", "warning", 10_000, 15_000, "anna", "w"),
        Alert("p", "critical", 10_000, 22_000, "anna", "w"),
    ]
    assert view.shown["alerting"] == 1


def test_a_blip_calls_nobody() -> None:
    view = new()
    found = watch(view, range(1, 5), BAD) + watch(view, range(5, 7), GOOD) + watch(view, range(7, 11), BAD)
    assert found == []


def test_all_clear_takes_a_while_and_a_relapse_delays_it_without_another_alert() -> None:
    view = new()
    assert [a.level for a in watch(view, range(1, 7), BAD)] == ["warning"]
    assert watch(view, range(7, 11), GOOD) == []
    assert watch(view, range(11, 12), BAD) == []
    found = watch(view, range(12, 20), GOOD)
    assert [(a.level, a.since, a.at) for a in found] == [("clear", 12_000, 17_000)]


def test_one_reading_in_range_makes_the_window_good_however_often_the_others_are_repeated() -> None:
    view = new()
    found: list[Alert] = []
    for at in range(0, 10_000, 1_000):
        values = [(at, BAD), (at, BAD), (at + 500, GOOD), (at, BAD)]
        found += step(view, at + 1_000, *[reading(*value) for value in values])
    assert found == []


def test_the_nurse_of_the_moment_is_called_though_the_roster_has_changed_since() -> None:
    view = new()
    step(view, 0, duty("p", "anna", 0))
    readings = [reading(at * 1_000, BAD) for at in range(10, 24)]
    found = step(view, 24_000, *readings, duty("p", "berta", 16_000), duty("p", "clara", 100_000))
    assert [(a.level, a.at, a.nurse) for a in found] == [
        ("warning", 15_000, "anna"),
        ("critical", 22_000, "berta"),
    ]


def test_what_comes_after_its_window_was_judged_is_counted_not_used() -> None:
    view = new()
    watch(view, range(3), GOOD)
    assert step(view, 3_000, reading(500, BAD)) == []
    assert view.shown["too_late"] == 1


def test_values_that_are_no_reading_say_nothing() -> None:
    view = new()
    values = [reading(at, value) for at in range(0, 8_000, 1_000) for value in (BAD, "what")]
    assert [a.level for a in step(view, 8_000, *values)] == ["warning"]


def test_readings_and_duties_of_nobody_say_nothing() -> None:
    view = new()
    nobody = [(topic, None, at, value) for topic, _, at, value in (reading(0, BAD), duty("p", "n", 0))]
    values = [reading(at, BAD) for at in range(0, 8_000, 1_000)]
    assert [a.level for a in step(view, 8_000, *nobody, *values)] == ["warning"]


def test_a_backlog_longer_than_the_ring_of_windows_is_judged_as_if_it_came_piece_by_piece() -> None:
    backlog = [reading(at * 1_000, BAD if at < 300 else GOOD) for at in range(100, 700)]
    found = step(new(), 700_000, *backlog)
    assert [(a.level, a.since, a.at) for a in found] == [
        ("warning", 100_000, 105_000),
        ("critical", 100_000, 112_000),
        ("clear", 300_000, 305_000),
    ]


def test_a_reading_far_ahead_of_its_time_waits_and_disturbs_nobody() -> None:
    view = new()
    far = [reading((10 + RING + more) * 1_000, BAD) for more in range(8)]
    assert watch(view, range(9, 10), GOOD) == []
    assert step(view, 10_000, *far) == []
    view.restart()
    assert watch(view, range(10, 16), BAD)[0].level == "warning"
    assert [a.level for a in step(view, 30_000)] == []
    found = step(view, (10 + RING + 9) * 1_000)
    assert [a.level for a in found] == ["critical"]


@pytest.mark.parametrize("seed", range(10))
def test_the_outcome_does_not_depend_on_steps_or_restarts(seed: int) -> None:
    random_ = random.Random(seed)
    readings = [
        (second * 1_000, f"p{patient}", BAD if random_.random() < 0.8 else GOOD)
        for second in range(100, 250)
        for patient in range(3)
    ]
    outcomes = []
    for _ in range(2):
        view, left, found = new(), list(readings), []
        while left:
            size = random_.randint(1, 200)
            taken, left = left[:size], left[size:]
            watermark = left[0][0] if left else 300_000
            found += step(view, watermark, *[reading(at, value, patient) for at, patient, value in taken])
            if random_.random() < 0.3:
                view.restart()
        outcomes.append(sorted(found))
    assert outcomes[0] == outcomes[1] != []
