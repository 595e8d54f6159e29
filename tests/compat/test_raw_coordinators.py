"""Groups and transactions by raw requests, answered by both servers and compared field by field."""

from __future__ import annotations

import pytest

from tests.compat import answers
from tests.compat.scenarios import groups, streams_groups, transactions
from tests.compat.test_raw import compare_scenario, scenarios_of
from tests.conftest import Target


@pytest.mark.parametrize("scenario", scenarios_of(groups), ids=lambda each: each.__name__)
def test_groups_are_answered_alike(scenario: answers.Scenario, both: dict[str, Target]) -> None:
    compare_scenario(scenario, both)


@pytest.mark.parametrize("scenario", scenarios_of(streams_groups), ids=lambda each: each.__name__)
def test_streams_groups_are_answered_alike(scenario: answers.Scenario, both: dict[str, Target]) -> None:
    compare_scenario(scenario, both)


@pytest.mark.parametrize("scenario", scenarios_of(transactions), ids=lambda each: each.__name__)
def test_transactions_are_answered_alike(scenario: answers.Scenario, both: dict[str, Target]) -> None:
    compare_scenario(scenario, both)
