"""A tenth of what `make soak` runs at length; seeds are fixed here and free there."""

from __future__ import annotations

import pytest

from ottla.ensemble import why_not
from tests.oracle import programs
from tests.soak import (
    churn,
    cluster,
    delays,
    fuzz,
    groups,
    histories,
    kills,
    shares,
    siege,
    strangers,
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


@pytest.mark.timeout(600)
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_a_cluster_stays_exact_and_goes_on_under_faults() -> None:
    report = cluster.run(10, seed=1, outage_s=6)
    assert report.is_clean, report
    assert report.acknowledged > 0
    assert report.output == report.input > 0


@pytest.mark.timeout(600)
def test_a_cluster_with_tls_and_logins_on_every_connection_stays_exact_and_goes_on_under_faults() -> None:
    report = cluster.run(10, seed=2, outage_s=6, secured=True)
    assert report.is_clean, report
    assert report.acknowledged > 0
    assert report.output == report.input > 0


def test_bad_input_harms_nobody_else() -> None:
    report = fuzz.run(seconds=15, seed=1, p99_times_max=None)
    assert report.is_clean, report
    assert report.attacks > 20


@pytest.mark.timeout(600)
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_a_cluster_under_attack_loses_nothing_by_faults() -> None:
    report = siege.run(faults=3, seed=1)
    assert report.is_clean, report
    assert report.acknowledged > 0
    assert report.attacks > 10


def test_those_who_have_not_logged_in_get_nothing_and_disturb_nobody() -> None:
    report = strangers.run(seconds=6, seed=1)
    assert report.is_clean, report
    assert report.apis_asked > 200 and report.wrong_passwords_a_second > 0


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
def test_kafka_streams_counts_exactly_once_under_kills(java: None) -> None:
    report = streams.run(kills=2, seed=1)
    assert report.is_clean, report
    assert report.words > 0


@pytest.mark.oracle
def test_a_recorded_history_shows_no_anomaly(java: None) -> None:
    report = histories.run(seconds=25, seed=1)
    assert report.is_clean, report
    assert report.kills > 0


@pytest.mark.timeout(900)
def test_pipelines_count_exactly_once_under_kills() -> None:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from tests.soak import pipelines

    report = pipelines.run(kills=2, seed=1)
    assert report.is_clean, report


@pytest.mark.timeout(900)
def test_streams_join_and_count_exactly_once_under_kills() -> None:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from tests.soak import stream_joins

    report = stream_joins.run(kills=1, seed=1)
    assert report.is_clean, report


def test_change_capture_and_its_tables_are_exact_under_kills() -> None:
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    pytest.importorskip("starlette", reason="needs the extra connect")
    from tests.connect.databases import why_no_postgres
    from tests.soak import cdc

    reason = why_no_postgres()
    if reason:
        pytest.skip(reason)
    report = cdc.run(8_000, 3, seed=1)
    assert report.is_clean, report
    assert report.kills and report.events > 0


def test_a_record_that_a_share_group_accepted_does_not_come_again_after_kills() -> None:
    report = shares.run(kills=10, seed=1)
    assert report.is_clean, report


def test_delayed_records_come_when_they_are_due_also_after_a_kill() -> None:
    report = delays.run(records=2_000, seconds=6, kills=1, seed=1)
    assert report.is_clean, report
