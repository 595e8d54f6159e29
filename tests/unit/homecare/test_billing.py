"""Billing on plain data: everything once."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pytest

from ottla.homecare.billing import WINDOW, Billing, parse_totals, records, services

NOVEMBER, OCTOBER = 1_794_800_000_000, 1_792_000_000_000


def rows(*values: tuple[str, str, int, int, int]) -> pa.RecordBatch:
    """Patient, device, number, cents, rendered."""
    texts = [
        json.dumps({"device": d, "number": n, "cents": c, "rendered": r, "service": "visit"}).encode()
        for _, d, n, c, r in values
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array([v[0].encode() for v in values], pa.binary()), pa.array(texts, pa.binary())],
        names=["key", "value"],
    )


def step(view: Billing, *batches: pa.RecordBatch) -> list[tuple[str, int, int]]:
    """Key, services and cents of the totals that changed."""
    return [tuple(total.values()) for total in view.step(services(batches)).to_pylist()]


def test_services_add_up_by_patient_and_month() -> None:
    view = Billing()
    batch = rows(("p", "d", 1, 100, NOVEMBER), ("p", "d", 2, 50, OCTOBER), ("q", "e", 1, 7, NOVEMBER))
    assert sorted(step(view, batch)) == [
        ("p/2026-10", 1, 50),
        ("p/2026-11", 1, 100),
        ("q/2026-11", 1, 7),
    ]
    assert step(view, rows(("p", "d", 3, 1, NOVEMBER))) == [("p/2026-11", 2, 101)]


def test_what_is_repeated_counts_once_within_a_batch_and_across_batches() -> None:
    view = Billing()
    one = ("p", "d", 1, 100, NOVEMBER)
    assert step(view, rows(one, one), rows(one)) == [("p/2026-11", 1, 100)]
    assert step(view, rows(one)) == []
    assert view.repeated == 1


def test_numbers_may_come_in_any_order_within_the_window() -> None:
    view = Billing()
    for number in (WINDOW, 2, 1, WINDOW - 1, 2):
        step(view, rows(("p", "d", number, 10, NOVEMBER)))
    assert (view.cents, view.repeated) == (40, 1)


def test_what_is_older_than_the_window_is_taken_for_a_repetition() -> None:
    view = Billing()
    step(view, rows(("p", "d", WINDOW + 1, 10, NOVEMBER)))
    assert step(view, rows(("p", "d", 1, 10, NOVEMBER))) == []
    assert step(view, rows(("p", "d", 2, 10, NOVEMBER))) != []


@pytest.mark.parametrize("seed", range(10))
def test_totals_are_right_whatever_is_late_repeated_or_restarted(seed: int) -> None:
    random_ = random.Random(seed)
    true = [(f"p{i % 3}", f"d{i % 3}", i // 3 + 1, random_.randint(1, 999), NOVEMBER) for i in range(300)]
    sent = true + random_.sample(true, 100)
    sent = [each for _, each in sorted((each[2] + random_.randint(0, 20), each) for each in sent)]
    view, state, totals = Billing(), {}, {}
    while sent:
        size = random_.randint(1, 30)
        batch, sent = sent[:size], sent[size:]
        totals.update({total[0]: total for total in step(view, rows(*batch))})
        state.update(view.changes())
        if random_.random() < 0.3:
            view = Billing()
            view.load(dict(state))
            saved = pa.table(list(zip(*totals.values(), strict=True)), names=["key", "services", "cents"])
            view.load_totals(parse_totals(records(saved)[1].cast(_BINARY)))
    for patient in ("p0", "p1", "p2"):
        wanted = sum(cents for p, _, _, cents, _ in true if p == patient)
        assert totals[f"{patient}/2026-11"] == (f"{patient}/2026-11", 100, wanted)


_BINARY = pa.schema([("key", pa.string()), ("value", pa.binary())])
