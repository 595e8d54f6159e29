"""A short run of `make soak PART=mirror`: the mirror, both brokers and both connections killed and cut."""

from __future__ import annotations

import pytest

from tests.oracle.cluster import why_not
from tests.soak import mirror

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(600)]
KAFKA = pytest.mark.skipif(bool(why_not()), reason=why_not() or "")


@pytest.mark.parametrize("mode", ["compatible", "exact"])
def test_a_copy_stays_exact_whatever_is_killed_or_cut(mode: str) -> None:
    report = mirror.run(20_000, kills=5, seed=1, mode=mode)
    assert report.is_clean, report
    assert report.positions > 0


@pytest.mark.oracle
@pytest.mark.parametrize(
    "route",
    [pytest.param(each, marks=KAFKA, id="->".join(each)) for each in mirror.ROUTES if "kafka" in each],
)
def test_apache_kafka_may_be_on_either_side(route: tuple[str, str]) -> None:
    report = mirror.run(20_000, kills=3, seed=2, route=route)
    assert report.is_clean, report
    assert report.positions > 0
