"""Billing on plain data: everything once."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from ottla.homecare import topics
from ottla.homecare.billing import WINDOW, parse_totals
from ottla.homecare.rules import Rules
from tests.unit.homecare.operating import Operating

NOVEMBER, OCTOBER = 1_794_800_000_000, 1_792_000_000_000


def new() -> Operating:
    return Operating("billing", Rules())


def service(
    patient: str, device: str, number: int, cents: int, rendered: int = NOVEMBER
) -> tuple[str, str, int, Any]:
    value = {"device": device, "number": number, "cents": cents, "rendered": rendered, "service": "visit"}
    return topics.BILLING, patient, rendered, value


def step(view: Operating, *services: Any) -> list[tuple[str, int, int]]:
    """Key, services and cents of the totals that changed."""
    view.step(0, *services)
    rows = [parse_totals(rows) for _, rows in view.emitted]
    return [tuple(total.values()) for total in pa.concat_tables(rows).to_pylist()] if rows else []


def test_services_add_up_by_patient_and_month() -> None:
    view = new()
    found = step(view, service("p", "d", 1, 100), service("p", "d", 2, 50, OCTOBER), service("q", "e", 1, 7))
    assert sorted(found) == [("p/2026-10", 1, 50), ("p/2026-11", 1, 100), ("q/2026-11", 1, 7)]
    assert step(view, service("p", "d", 3, 1)) == [("p/2026-11", 2, 101)]


@pytest.mark.parametrize("field", ["device", "number", "cents", "rendered"])
def test_what_is_no_service_is_not_billed(field: str) -> None:
    topic, patient, at, value = service("p", "d", 1, 100)
    broken = topic, patient, at, {name: cell for name, cell in value.items() if name != field}
    assert step(new(), broken, service("q", "e", 1, 7)) == [("q/2026-11", 1, 7)]


def test_what_is_repeated_counts_once_within_a_step_and_across_steps() -> None:
    view = new()
    one = service("p", "d", 1, 100)
    assert step(view, one, one, one) == [("p/2026-11", 1, 100)]
    assert step(view, one) == []
    assert view.shown == {"cents": 100, "repeated": 3}


def test_numbers_may_come_in_any_order_within_the_window() -> None:
    view = new()
    for number in (WINDOW, 2, 1, WINDOW - 1, 2):
        step(view, service("p", "d", number, 10))
    assert view.shown == {"cents": 40, "repeated": 1}


def test_what_is_older_than_the_window_is_taken_for_a_repetition() -> None:
    view = new()
    step(view, service("p", "d", WINDOW + 1, 10))
    assert step(view, service("p", "d", 1, 10)) == []
    assert step(view, service("p", "d", 2, 10)) != []


@pytest.mark.parametrize("seed", range(10))
def test_totals_are_right_whatever_is_late_repeated_or_restarted(seed: int) -> None:
    random_ = random.Random(seed)
    true = [(f"p{i % 3}", f"d{i % 3}", i // 3 + 1, random_.randint(1, 999)) for i in range(300)]
    sent = true + random_.sample(true, 100)
    sent = [each for _, each in sorted((each[2] + random_.randint(0, 20), each) for each in sent)]
    view, totals = new(), {}
    while sent:
        size = random_.randint(1, 30)
        taken, sent = sent[:size], sent[size:]
        totals.update({total[0]: total for total in step(view, *[service(*each) for each in taken])})
        if random_.random() < 0.3:
            view.restart()
    for patient in ("p0", "p1", "p2"):
        wanted = sum(cents for p, _, _, cents in true if p == patient)
        assert totals[f"{patient}/2026-11"] == (f"{patient}/2026-11", 100, wanted)
