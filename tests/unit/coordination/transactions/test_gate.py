import pytest

from ottla.coordination.transactions.gate import Gate, client_error
from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
)


@pytest.fixture
def gate() -> Gate:
    return Gate()


def test_who_has_a_transaction_open_here_need_not_ask(gate):
    assert gate.ask(7, 3, open_epoch=3) is None
    gate.check(7, 3, open_epoch=3, guard=None)


def test_the_first_record_passes_with_a_guard(gate):
    guard = gate.ask(7, 3, open_epoch=None)
    assert guard is not None
    gate.check(7, 3, None, guard)


def test_the_first_record_does_not_pass_without_a_guard(gate):
    with pytest.raises(InvalidTxnState):
        gate.check(7, 3, None, None)


def test_a_marker_while_the_coordinator_was_asked_closes_the_gate(gate):
    guard = gate.ask(7, 3, None)
    gate.on_marker(7)
    with pytest.raises(InvalidTxnState):
        gate.check(7, 3, None, guard)
    again = gate.ask(7, 3, None)
    assert again is not guard
    with pytest.raises(InvalidTxnState):
        gate.check(7, 3, None, guard)
    gate.check(7, 3, None, again)


def test_requests_in_flight_share_the_guard(gate):
    first, second = gate.ask(7, 3, None), gate.ask(7, 3, None)
    assert first is second
    gate.check(7, 3, None, first)
    gate.on_appended(7)
    gate.check(7, 3, 3, second)


def test_the_next_epoch_does_not_slip_into_a_transaction_whose_marker_is_still_to_come(gate):
    guard = gate.ask(7, 4, open_epoch=3)
    assert guard is not None
    with pytest.raises(InvalidTxnState):
        gate.check(7, 4, 3, guard)


def test_an_older_epoch_does_not_get_a_guard_beside_a_newer_one(gate):
    newer = gate.ask(7, 4, None)
    with pytest.raises(InvalidProducerEpoch):
        gate.ask(7, 3, None)
    gate.check(7, 4, None, newer)


def test_producers_have_guards_of_their_own(gate):
    one, two = gate.ask(7, 0, None), gate.ask(8, 0, None)
    gate.on_marker(7)
    gate.check(8, 0, None, two)
    with pytest.raises(InvalidTxnState):
        gate.check(7, 0, None, one)


@pytest.mark.parametrize(
    ("code", "old", "abortable", "adding"),
    [
        (ProducerFenced.code, *(InvalidProducerEpoch.code,) * 3),
        (TransactionAbortable.code, InvalidTxnState.code, *(TransactionAbortable.code,) * 2),
        (NotCoordinator.code, *(NotEnoughReplicas.code,) * 3),
        (ConcurrentTransactions.code, *(NotEnoughReplicas.code,) * 2, ConcurrentTransactions.code),
        (InvalidProducerIdMapping.code, *(InvalidProducerIdMapping.code,) * 3),
    ],
)
def test_a_client_is_told_what_it_understands(code, old, abortable, adding):
    assert client_error(code, knows_abortable=False, adds=False) == old
    assert client_error(code, knows_abortable=True, adds=False) == abortable
    assert client_error(code, knows_abortable=True, adds=True) == adding
