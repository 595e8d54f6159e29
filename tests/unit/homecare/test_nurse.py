"""The nurse's view on plain data."""

from __future__ import annotations

import json

import pyarrow as pa

from ottla.homecare.nurse import Alert, Nurse, duties, windows
from ottla.homecare.rules import Rules

RULES = Rules(window_ms=1_000, sustained_ms=5_000, escalate_ms=12_000, clear_ms=5_000)
GOOD = {"pulse": 70, "spo2": 97, "temperature": 36.6}
BAD = {"pulse": 160, "spo2": 97, "temperature": 36.6}


def rows(*values: tuple[str, int, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([key.encode() for key, _, _ in values], pa.binary()),
            pa.array([json.dumps(v).encode() for _, _, v in values], pa.binary()),
            pa.array([at for _, at, _ in values], pa.int64()),
            pa.array(["patient-vitals"] * len(values)),
            pa.array([0] * len(values), pa.int32()),
            pa.array(range(len(values)), pa.int64()),
        ],
        names=["key", "value", "timestamp", "topic", "partition", "offset"],
    )


def roster(view: Nurse, *duty: tuple[str, str, int]) -> None:
    values = [(patient, 0, {"nurse": nurse, "ward": "w", "from": begins}) for patient, nurse, begins in duty]
    view.on_roster(duties([rows(*values)]))


def watch(view: Nurse, seconds: range, reading: dict[str, float], patient: str = "p") -> list[Alert]:
    found: list[Alert] = []
    for second in seconds:
        at = second * 1_000
        found += view.step(windows([rows((patient, at + 100, reading))], 1_000), at + 1_000)
    return found


def test_a_sustained_lapse_warns_once_then_escalates_once() -> None:
    view = Nurse(RULES)
    roster(view, ("p", "anna", 0))
    found = watch(view, range(10, 40), BAD)
    assert found == [
        Alert("p", "warning", 10_000, 15_000, "anna", "w"),
        Alert("p", "critical", 10_000, 22_000, "anna", "w"),
    ]


def test_a_blip_calls_nobody() -> None:
    view = Nurse(RULES)
    assert (
        watch(view, range(1, 5), BAD) + watch(view, range(5, 7), GOOD) + watch(view, range(7, 11), BAD) == []
    )


def test_all_clear_takes_a_while_and_a_relapse_begins_it_anew_without_another_alert() -> None:
    view = Nurse(RULES)
    assert [a.level for a in watch(view, range(1, 7), BAD)] == ["warning"]
    assert watch(view, range(7, 11), GOOD) == []
    assert watch(view, range(11, 12), BAD) == []
    found = watch(view, range(12, 20), GOOD)
    assert [(a.level, a.since, a.at) for a in found] == [("clear", 12_000, 17_000)]


def test_one_reading_in_range_makes_the_window_good_however_often_the_others_are_repeated() -> None:
    view = Nurse(RULES)
    found: list[Alert] = []
    for second in range(10):
        at = second * 1_000
        batch = [("p", at, BAD), ("p", at, BAD), ("p", at + 500, GOOD), ("p", at, BAD)]
        found += view.step(windows([rows(*batch)], 1_000), at + 1_000)
    assert found == []


def test_the_nurse_of_the_moment_is_called_though_the_roster_has_changed_since() -> None:
    view = Nurse(RULES)
    roster(view, ("p", "anna", 0))
    table = windows([rows(*[("p", at * 1_000, BAD) for at in range(10, 24)])], 1_000)
    roster(view, ("p", "berta", 16_000), ("p", "clara", 100_000))
    found = view.step(table, 24_000)
    assert [(a.level, a.at, a.nurse) for a in found] == [
        ("warning", 15_000, "anna"),
        ("critical", 22_000, "berta"),
    ]


def test_what_comes_after_its_window_was_judged_is_counted_not_used() -> None:
    view = Nurse(RULES)
    watch(view, range(3), GOOD)
    assert view.step(windows([rows(("p", 500, BAD))], 1_000), 3_000) == []
    assert view.too_late == 1


def test_values_that_are_no_reading_say_nothing() -> None:
    found = windows([rows(("p", 0, BAD), ("p", 1, "what"))], 1_000).to_pylist()
    assert found == [{"patient": "p", "window": 0, "good": False, "bad": True}]


def test_a_view_that_was_saved_goes_on_where_it_was() -> None:
    view, saved = Nurse(RULES), {}
    roster(view, ("p", "anna", 0))
    view.step(windows([rows(*[("p", at * 1_000, BAD) for at in range(10, 18)])], 1_000), 13_000)
    saved.update(view.changes())
    again = Nurse(RULES)
    again.load(dict(saved))
    assert again.step(windows([], 1_000), 18_000) == [Alert("p", "warning", 10_000, 15_000, "anna", "w")]
    assert again.judged_until == 18
