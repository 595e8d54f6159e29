"""A small run of what `make soak` does with 5 GB."""

import pytest

from tests.soak import lag


@pytest.mark.slow
def test_the_loop_is_not_late_while_large_logs_are_worked_on():
    report = lag.run(megabytes=240)
    assert report.is_clean, report
