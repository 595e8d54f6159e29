"""InitProducerId. The expected answers are those of Apache Kafka 4.3.1 to the same requests."""

import pytest

from ottla.coordination.transactions.settings import Settings
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTransactionTimeout,
    PolicyViolation,
    ProducerFenced,
)
from tests.unit.coordination.transactions.coordinator import Coordinator

FENCED = (ProducerFenced.code, -1, -1)
REFUSED = InvalidTransactionTimeout.code
WAIT = (ConcurrentTransactions.code, -1, -1)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_new_transactional_id_gets_a_new_producer_id_with_epoch_0(coordinator):
    assert [coordinator.init("a", version=v) for v in range(6)] == [(0, 4, epoch) for epoch in range(6)]
    assert coordinator.init("b") == (0, 5, 0)
    described = coordinator.describe("a")
    assert (described.transaction_state, described.transaction_start_time_ms) == ("Empty", -1)
    assert described.transaction_timeout_ms == 60_000


def test_an_empty_transactional_id_is_refused(coordinator):
    assert coordinator.init("") == (InvalidRequest.code, -1, -1)


@pytest.mark.parametrize("holder", [(4, -1), (-1, 3)])
def test_a_producer_id_without_an_epoch_or_the_reverse_is_refused(coordinator, holder):
    assert coordinator.init("a", holder=holder)[0] == InvalidRequest.code


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [(0, REFUSED), (-1, REFUSED), (1, 0), (900_000, 0), (900_001, REFUSED), (2**31 - 1, REFUSED)],
)
def test_the_time_out_is_positive_and_at_most_the_brokers_maximum(coordinator, timeout_ms, code):
    assert coordinator.init("a", timeout_ms=timeout_ms)[0] == code


def test_a_producer_that_names_its_id_and_epoch_goes_on_with_the_next_epoch(coordinator):
    holder = coordinator.ready()
    assert coordinator.init("id", holder=holder) == (0, 4, 1)


def test_a_repeated_request_with_the_same_epoch_gets_the_same_answer(coordinator):
    holder = coordinator.ready()
    answers = {coordinator.init("id", holder=holder) for _ in range(3)}
    assert answers == {(0, 4, 1)}


def test_a_producer_with_an_epoch_from_before_is_fenced(coordinator):
    coordinator.ready()
    assert coordinator.init("id", holder=(4, 0)) == (0, 4, 1)
    assert coordinator.init("id", holder=(4, 1)) == (0, 4, 2)
    assert coordinator.init("id", holder=(4, 0)) == FENCED
    assert coordinator.init("id", version=3, holder=(4, 0)) == (InvalidProducerEpoch.code, -1, -1)
    assert coordinator.init("id", holder=(4, 99)) == FENCED
    assert coordinator.init("id", holder=(81, 0)) == FENCED
    assert coordinator.init("id", version=3, holder=(81, 0)) == (InvalidProducerEpoch.code, -1, -1)


def test_after_another_producer_took_over_a_repeated_request_is_fenced(coordinator):
    coordinator.ready()
    assert coordinator.init("id", holder=(4, 0)) == (0, 4, 1)
    assert coordinator.init("id") == (0, 4, 2)
    assert coordinator.init("id", holder=(4, 0)) == FENCED


def test_an_expired_id_may_be_taken_up_with_any_producer_id(coordinator):
    assert coordinator.init("unknown", holder=(4242, 7)) == (0, 4, 0)


def test_an_open_transaction_is_aborted_before_the_next_producer_gets_the_id(coordinator):
    holder = coordinator.ready()
    coordinator.add("id", holder, [0])
    assert coordinator.init("id") == WAIT
    assert (coordinator.state(), coordinator.transaction().producer_epoch) == ("PrepareAbort", 1)
    assert coordinator.init("id") == WAIT
    assert coordinator.init("id", holder=(99, 0)) == WAIT  # even before it is known who asks
    (markers,) = coordinator.write_markers()
    assert not markers.committed
    assert coordinator.init("id") == (0, 4, 2)


@pytest.mark.parametrize(("transaction_version", "epoch"), [(2, 1), (1, 2), (0, 2)])
def test_a_producer_that_aborts_its_own_transaction_by_init_keeps_the_id(transaction_version, epoch):
    """With version 2 the abort itself is the bump; with version 1 nobody remembers who held the old epoch."""
    coordinator = Coordinator(Settings(transaction_version=transaction_version))
    holder = coordinator.ready()
    coordinator.add("id", holder, [0])
    assert coordinator.init("id", holder=holder) == WAIT
    coordinator.write_markers()
    if transaction_version == 2:
        assert coordinator.init("id", holder=holder) == (0, 4, epoch)
    else:
        assert coordinator.init("id", holder=holder) == FENCED
        assert coordinator.init("id") == (0, 4, epoch)


def test_used_up_epochs_lead_to_a_new_producer_id(coordinator):
    coordinator.worn()
    assert coordinator.init("id") == (0, 5, 0)


def test_used_up_epochs_lead_to_a_new_producer_id_also_for_who_goes_on(coordinator):
    holder = coordinator.worn()
    assert coordinator.init("id", holder=holder) == (0, 5, 0)
    assert coordinator.init("id", holder=holder) == (0, 5, 0)
    assert coordinator.init("id", holder=(4, 32765)) == FENCED


def test_a_stale_epoch_is_fenced_when_epochs_are_used_up(coordinator):
    coordinator.worn()
    assert coordinator.init("id", holder=(4, 17)) == FENCED


def test_fencing_with_the_last_epoch_changes_the_producer_id_when_the_abort_is_complete(coordinator):
    holder = coordinator.worn()
    coordinator.add("id", holder, [0])
    assert coordinator.init("id") == WAIT
    (markers,) = coordinator.write_markers()
    assert (markers.producer_id, markers.producer_epoch) == (4, 32767)
    assert coordinator.init("id") == (0, 5, 1)


def test_with_version_1_the_last_epoch_fences_and_the_next_init_changes_the_id():
    coordinator = Coordinator(Settings(transaction_version=1))
    holder = coordinator.worn()
    coordinator.add("id", holder, [0])
    assert coordinator.init("id") == WAIT
    (markers,) = coordinator.write_markers()
    assert (markers.producer_id, markers.producer_epoch) == (4, 32767)
    assert coordinator.init("id") == (0, 5, 0)


def test_while_no_producer_id_is_to_be_had_clients_are_told_to_come_again(coordinator):
    coordinator.ids.refuses = True
    assert coordinator.init("a") == (CoordinatorLoadInProgress.code, -1, -1)
    assert not coordinator.machine.transactions
    coordinator.ids.refuses = False
    holder = coordinator.worn("b")
    coordinator.ids.refuses = True
    assert coordinator.init("b", holder=holder) == (CoordinatorLoadInProgress.code, -1, -1)
    coordinator.ids.refuses = False
    assert coordinator.init("b", holder=holder) == (0, 5, 0)


def test_the_number_of_transactional_ids_is_bounded():
    coordinator = Coordinator(Settings(ids_max=2))
    assert [coordinator.init(each)[0] for each in ("a", "b", "c", "a")] == [0, 0, PolicyViolation.code, 0]
