"""DescribeTransactions and ListTransactions, with Apache Kafka 4.3.1's answers."""

import pytest

from ottla.coordination.transactions.listing import merged
from ottla.errors import InvalidRegularExpression, InvalidRequest, TransactionalIdNotFound
from ottla.wire.messages.list_transactions import ListTransactionsResponse
from tests.unit.coordination.transactions.coordinator import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    """b1 is empty, b2 open for 5 s, c1 committed."""
    coordinator = Coordinator()
    coordinator.ready("b1")
    coordinator.add("b2", coordinator.ready("b2"), [0])
    holder = coordinator.ready("c1")
    coordinator.add("c1", holder, [0])
    coordinator.end("c1", holder, True)
    coordinator.write_markers()
    coordinator.advance(5000)
    return coordinator


def found(answer: ListTransactionsResponse) -> list[tuple[str, int, str]]:
    assert answer.error_code == 0
    return [
        (each.transactional_id, each.producer_id, each.transaction_state)
        for each in answer.transaction_states
    ]


ALL = [("b1", 4, "Empty"), ("b2", 5, "Ongoing"), ("c1", 6, "CompleteCommit")]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ALL),
        ({"state_filters": ["Ongoing", "Empty"]}, ALL[:2]),
        ({"state_filters": ["Dead"]}, []),
        ({"producer_id_filters": [6, 99]}, ALL[2:]),
        ({"state_filters": ["Ongoing"], "producer_id_filters": [6]}, []),
        ({"duration_filter": 4999}, ALL),
        ({"duration_filter": 5000}, ALL[:1]),  # an id without a transaction counts as older than all
        ({"transactional_id_pattern": "b.*"}, ALL[:2]),
        ({"transactional_id_pattern": "b"}, []),  # the whole id has to match
        ({"transactional_id_pattern": ""}, ALL),
    ],
)
def test_filters_narrow_the_list(coordinator, filters, expected):
    assert found(coordinator.list(**filters)) == expected


def test_unknown_states_match_nothing_and_are_named(coordinator):
    answer = coordinator.list(state_filters=["ongoing", "Nope", "Empty"])
    assert (found(answer), answer.unknown_state_filters) == (ALL[:1], ["ongoing", "Nope"])
    assert found(coordinator.list(state_filters=["Nope"])) == []


def test_a_pattern_that_is_none_is_refused(coordinator):
    assert coordinator.list(transactional_id_pattern="([").error_code == InvalidRegularExpression.code


def test_ids_that_are_not_there_are_described_as_such(coordinator):
    assert coordinator.describe("zz").error_code == TransactionalIdNotFound.code
    assert coordinator.describe("").error_code == InvalidRequest.code


def test_the_answers_of_shards_become_one(coordinator):
    other = Coordinator()
    other.ready("x")
    filters = {"state_filters": ["Empty", "Nope"]}
    answer = merged([coordinator.list(**filters), other.list(**filters)])
    assert [each.transactional_id for each in answer.transaction_states] == ["b1", "x"]
    assert answer.unknown_state_filters == ["Nope"]
    refused = ListTransactionsResponse(error_code=14)
    assert merged([answer, refused]) is refused
