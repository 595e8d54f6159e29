"""A few of the kills that `make soak PART=spark` does fifty of."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the extra spark")

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_output_equals_input_after_drivers_were_killed_on_ottla() -> None:
    from tests.soak import spark_exactly_once

    report = spark_exactly_once.run(kills=3, seed=2)
    assert report.is_clean, report
    assert report.output > 0


@pytest.mark.oracle
def test_output_equals_input_after_drivers_were_killed_on_apache_kafka(java: None) -> None:
    from tests.soak import spark_exactly_once

    report = spark_exactly_once.run(kills=3, seed=3, server=spark_exactly_once.SERVERS[1])
    assert report.is_clean, report
    assert report.output > 0
