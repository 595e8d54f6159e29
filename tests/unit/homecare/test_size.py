"""Sizing: more of anything never needs less, and the courses' figures give sensible answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import figures
from ottla.homecare import commands
from ottla.homecare.figures import CORES, MEASURED
from ottla.homecare.size import Assumed, Measured, size


def test_a_million_patients_at_ten_a_second() -> None:
    answer = size(10_000_000, 1_000_000)
    assert answer.mb_s == 1_000
    assert 3 <= answer.brokers <= 200
    assert answer.partitions >= sum(answer.spark_cores.values())


def test_rates_in_bytes_count_as_bytes() -> None:
    answer = size(13_000_000, 1_000_000, bytes_s=2_750_000_000)
    assert answer.mb_s == 2_750
    assert answer.brokers > size(13_000_000, 1_000_000).brokers


@pytest.mark.parametrize("factor", [2, 10, 100])
def test_more_never_needs_less(factor: int) -> None:
    small, large = size(1_000, 100), size(1_000 * factor, 100 * factor)
    assert large.brokers >= small.brokers
    assert large.partitions >= small.partitions
    assert large.disk_tb > small.disk_tb


def test_a_small_start_is_as_many_brokers_as_copies() -> None:
    assert size(1_000, 100).brokers == 3
    assert size(1_000, 100, assumed=Assumed(replication=1)).brokers == 1


def test_a_slower_machine_needs_more() -> None:
    assert (
        size(10**7, 10**6, Measured(nurse_rows_s=10_000)).spark_cores["nurse"]
        > size(10**7, 10**6).spark_cores["nurse"]
    )


def test_the_figures_are_those_of_the_page_of_benchmarks() -> None:
    assert figures.of_the_page() == (CORES, MEASURED), "python -m bench.figures copies them"
    page = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text()
    (line,) = [line for line in page.splitlines() if "home care: nurse, 1,000,000 devices" in line]
    both_cores = float(line.split("|")[4].replace(",", ""))
    assert Measured().nurse_rows_s == round(both_cores / 2)


def test_records_are_kept_as_long_as_their_topics_say() -> None:
    assert (Assumed().heartbeat_days, Assumed().vitals_days, Assumed().billing_days) == (1, 3, 400)
    days = 0.1 * 1 + 0.899 * 3 + 0.001 * 400
    answer = size(10_000_000, 1_000_000)
    assert answer.disk_tb == pytest.approx(answer.wire_mb_s * 1e6 * 86_400 * days * 3 / 1e12)
    assert size(10**7, 10**6, assumed=Assumed(vitals_days=6)).disk_tb > 1.5 * answer.disk_tb


def test_the_command_answers_as_text_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run("size", ["--patients", "1000", "--rate", "10"]) == 0
    assert "brokers       3" in capsys.readouterr().out
    assert (
        commands.run("size", ["--messages-per-second", "13e6", "--bytes-per-second", "2.75e9", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["mb_s"] == 2_750
