"""A short run of `make soak PART=mirror`, which also has Apache Kafka on either side: everything is killed and cut."""

from __future__ import annotations

import pytest

from tests.soak import mirror

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.mark.parametrize("mode", ["compatible", "exact"])
def test_a_copy_stays_exact_whatever_is_killed_or_cut(mode: str) -> None:
    report = mirror.run(20_000, kills=5, seed=1, mode=mode)
    assert report.is_clean, report
    assert report.positions > 0
