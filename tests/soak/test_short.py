"""A tenth of what `make soak` runs at length; seeds are fixed here and free there."""

from __future__ import annotations

import pytest

from tests.soak import fuzz, groups, kills, transactions

pytestmark = [pytest.mark.soak, pytest.mark.slow]


def test_nothing_acknowledged_is_lost_doubled_or_disordered_by_kills() -> None:
    report = kills.run(kills=10, seed=1)
    assert report.is_clean, report
    assert report.acknowledged > 0


def test_no_acknowledged_commit_is_lost_and_no_group_is_stuck_after_kills() -> None:
    report = groups.run(kills=5, seed=1)
    assert report.is_clean, report
    assert report.commits > 0


def test_copies_stay_exactly_once_under_kills() -> None:
    report = transactions.run(kills=5, seed=1)
    assert report.is_clean, report
    assert report.output == report.input > 0


def test_bad_input_harms_nobody_else() -> None:
    report = fuzz.run(seconds=15, seed=1)
    assert report.is_clean, report
    assert report.attacks > 100
