"""A tenth of `make soak PART=strangers`. By itself: it measures how late the event loop is."""

from __future__ import annotations

import pytest

from tests.soak import strangers

pytestmark = [pytest.mark.soak, pytest.mark.slow]


def test_those_who_have_not_logged_in_get_nothing_and_disturb_nobody() -> None:
    report = strangers.run(seconds=6, seed=1)
    assert report.is_clean, report
    assert report.apis_asked > 200 and report.wrong_passwords_a_second > 0
