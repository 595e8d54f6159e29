"""A tenth of what `make soak` runs at length: clients and a broker; seeds are fixed here and free there."""

from __future__ import annotations

import pytest

from tests.oracle import programs
from tests.soak import (
    churn,
    delays,
    fuzz,
    groups,
    histories,
    kills,
    shares,
    streams,
    transactions,
)

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
    report = fuzz.run(seconds=15, seed=1, p99_times_max=None)
    assert report.is_clean, report
    assert report.attacks > 20


@pytest.fixture
def java() -> None:
    """For what is written in Java."""
    if (reason := programs.why_not_java()) is not None:
        pytest.skip(reason)


@pytest.mark.oracle
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", ["all clients, range", "cooperative", "new protocol", "static members"])
def test_members_may_come_and_go_as_they_like(flavour: str, java: None) -> None:
    report = churn.run(flavour, steps=6, seed=5)
    assert report.is_clean, report
    assert report.commits > 0


@pytest.mark.oracle
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_kafka_streams_counts_exactly_once_under_kills(protocol: str, java: None) -> None:
    report = streams.run(kills=2, seed=1, protocol=protocol)
    assert report.is_clean, report
    assert report.words > 0


@pytest.mark.oracle
def test_a_recorded_history_shows_no_anomaly(java: None) -> None:
    report = histories.run(seconds=25, seed=1)
    assert report.is_clean, report
    assert report.kills > 0


def test_a_record_that_a_share_group_accepted_does_not_come_again_after_kills() -> None:
    report = shares.run(kills=10, seed=1)
    assert report.is_clean, report


def test_delayed_records_come_when_they_are_due_also_after_a_kill() -> None:
    report = delays.run(records=2_000, seconds=6, kills=1, seed=1)
    assert report.is_clean, report
