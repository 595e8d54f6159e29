"""A tenth of what `make soak` runs at length: clusters, pipelines, connectors, the console."""

from __future__ import annotations

import pytest

from ottla.ensemble import why_not
from tests.soak import cluster, console, siege

pytestmark = [pytest.mark.soak, pytest.mark.slow]


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


@pytest.mark.timeout(600)
@pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
def test_a_cluster_under_attack_loses_nothing_by_faults() -> None:
    report = siege.run(faults=3, seed=1)
    assert report.is_clean, report
    assert report.acknowledged > 0
    assert report.attacks > 10


@pytest.mark.timeout(900)
def test_pipelines_count_exactly_once_under_kills() -> None:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from tests.soak import pipelines

    report = pipelines.run(kills=2, seed=1)
    assert report.is_clean, report


@pytest.mark.timeout(900)
def test_streams_join_and_count_exactly_once_under_kills() -> None:
    pytest.importorskip("pyarrow", reason="needs the extra arrow")
    from tests.soak import pipeline_processes

    report = pipeline_processes.run(kills=3, seed=1, story="joins")
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


def test_change_capture_from_mariadb_is_exact_under_kills() -> None:
    pytest.importorskip("pymysql", reason="needs the extra mariadb")
    pytest.importorskip("starlette", reason="needs the extra connect")
    from tests.connect.databases import why_no_mariadb
    from tests.soak import cdc_mariadb

    reason = why_no_mariadb()
    if reason:
        pytest.skip(reason)
    report = cdc_mariadb.run(1_500, 3, seed=1)
    assert report.is_clean, report
    assert report.kills and report.events > 0


def test_every_sink_holds_what_its_topic_holds_after_kills() -> None:
    pytest.importorskip("starlette", reason="needs the extra connect")
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    pytest.importorskip("pymysql", reason="needs the extra mariadb")
    from tests.soak import sinks

    report = sinks.run(3_000, 2, seed=1)
    assert report.is_clean, report


@pytest.mark.skipif(console.why_not() is not None, reason=console.why_not() or "")
def test_the_consoles_live_pages_go_on_in_flat_memory() -> None:
    report = console.run(seconds=12)
    assert report.is_clean, report
    assert report.records > 0
