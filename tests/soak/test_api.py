"""A tenth of what `python -m tests.soak.api` runs at length, through our own API."""

from __future__ import annotations

import pytest

from tests.soak import api

pytestmark = [pytest.mark.soak, pytest.mark.slow]


def test_our_producer_loses_doubles_and_disorders_nothing_under_kills() -> None:
    report = api.run_idempotent(5, seed=1)
    assert report.is_clean, report
    assert report.acknowledged > 0


def test_our_transactions_stay_exactly_once_under_kills() -> None:
    report = api.run_transactions(5, seed=1)
    assert report.is_clean, report
    assert report.output == report.input > 0
    assert not report.copiers_silent, report
