"""EndTxn. The expected answers are those of Apache Kafka 4.3.1 to the same requests."""

import pytest

from ottla.coordination.transactions import timers
from ottla.coordination.transactions.settings import Settings
from ottla.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
)
from tests.unit.coordination.transactions.coordinator import Coordinator

FENCED, WAIT, MAPPING = ProducerFenced.code, ConcurrentTransactions.code, InvalidProducerIdMapping.code
STATE, EPOCH = InvalidTxnState.code, InvalidProducerEpoch.code
COMMIT, ABORT = True, False


def nothing(code: int) -> tuple[int, int, int]:
    return code, -1, -1


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def holder(coordinator) -> tuple[int, int]:
    """Of an open transaction on t-0 and t-1, with epoch 1."""
    coordinator.ready()
    holder = coordinator.ready()
    assert coordinator.add("id", holder, [0, 1]) == [0, 0]
    return holder


@pytest.mark.parametrize("commit", [COMMIT, ABORT])
def test_a_transaction_is_decided_at_once_and_complete_with_the_last_marker(coordinator, holder, commit):
    assert coordinator.end("id", holder, commit) == 0
    assert coordinator.state() == ("PrepareCommit" if commit else "PrepareAbort")
    (markers,) = coordinator.write_markers()
    assert (markers.producer_id, markers.producer_epoch, markers.committed) == (*holder, commit)
    assert markers.partitions == {("t", 0), ("t", 1)}
    assert markers.transaction_version == 0
    assert coordinator.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert not coordinator.transaction().partitions


def test_v0_to_v4_answer_a_repeated_request_and_refuse_the_opposite(coordinator, holder):
    coordinator.end("id", holder, COMMIT)
    assert [coordinator.end("id", holder, each) for each in (COMMIT, ABORT)] == [WAIT, WAIT]
    coordinator.write_markers()
    assert [coordinator.end("id", holder, each) for each in (COMMIT, ABORT)] == [0, STATE]


@pytest.mark.parametrize("version", range(5))
def test_v0_to_v4_that_come_late_end_the_next_transaction_of_the_epoch(coordinator, holder, version):
    """They do not say which one they are for; epochs that rise with every transaction came with v5."""
    coordinator.end("id", holder, COMMIT, version)
    coordinator.write_markers()
    coordinator.add("id", holder, [0])
    assert coordinator.end("id", holder, COMMIT, version) == 0
    assert coordinator.state() == "PrepareCommit"


def test_v5_that_comes_late_does_not_end_the_next_transaction(coordinator, holder):
    _, *following = coordinator.end_bumping("id", holder, COMMIT)
    coordinator.write_markers()
    coordinator.add("id", tuple(following), [0])
    assert coordinator.end_bumping("id", holder, COMMIT) == nothing(FENCED)
    assert coordinator.state() == "Ongoing"


def test_nothing_to_end_is_an_invalid_state_for_v0_to_v4(coordinator):
    holder = coordinator.ready()
    codes = {coordinator.end("id", holder, each, v) for each in (COMMIT, ABORT) for v in range(5)}
    assert codes == {STATE}


def test_the_wrong_producer_is_told_so(coordinator, holder):
    producer_id, epoch = holder
    older = [coordinator.end("id", (producer_id, epoch - 1), COMMIT, v) for v in range(5)]
    assert older == [EPOCH, EPOCH, FENCED, FENCED, FENCED]
    assert coordinator.end("id", (producer_id, epoch + 1), COMMIT) == FENCED
    assert coordinator.end("id", (producer_id + 1, epoch), COMMIT) == MAPPING
    for version in (4, 5):
        assert coordinator.end("other", holder, COMMIT, version) == MAPPING
        assert coordinator.end("", holder, COMMIT, version) == InvalidRequest.code
    assert coordinator.state() == "Ongoing"


def test_who_ends_it_does_not_matter_if_id_and_epoch_are_right(coordinator, holder):
    """The Spark sink's tasks write, its driver commits: the machine knows no connections."""
    assert coordinator.end("id", holder, COMMIT, 2) == 0
    coordinator.restart()
    coordinator.write_markers()
    assert coordinator.end("id", holder, COMMIT, 2) == 0


def test_v5_takes_the_next_epoch_and_writes_it_in_the_markers(coordinator, holder):
    producer_id, epoch = holder
    assert coordinator.end_bumping("id", holder, COMMIT) == (0, producer_id, epoch + 1)
    (markers,) = coordinator.write_markers()
    assert (markers.producer_epoch, markers.transaction_version) == (epoch + 1, 2)
    assert coordinator.state() == "CompleteCommit"


def test_v5_answers_a_repeated_request_with_the_same_epoch(coordinator, holder):
    answer = coordinator.end_bumping("id", holder, COMMIT)
    assert coordinator.end_bumping("id", holder, COMMIT) == nothing(WAIT)
    coordinator.write_markers()
    assert coordinator.end_bumping("id", holder, COMMIT) == answer
    assert coordinator.end_bumping("id", holder, ABORT) == nothing(STATE)
    coordinator.restart()
    assert coordinator.end_bumping("id", holder, COMMIT) == answer
    assert coordinator.end("id", holder, COMMIT) == FENCED
    assert coordinator.end("id", answer[1:], COMMIT) == 0


def test_v5_has_nothing_to_commit_but_always_something_to_abort(coordinator):
    """What the producer sent and believes lost may yet arrive: the next epoch keeps it out."""
    holder = coordinator.ready()
    assert coordinator.end_bumping("id", holder, COMMIT) == nothing(STATE)
    assert coordinator.end_bumping("id", holder, ABORT) == (0, 4, 1)
    assert (coordinator.state(), coordinator.sends) == ("CompleteAbort", [])
    assert coordinator.end_bumping("id", holder, ABORT) == (0, 4, 1)
    assert coordinator.end_bumping("id", holder, COMMIT) == nothing(STATE)
    assert coordinator.end_bumping("id", (4, 1), COMMIT) == nothing(STATE)
    assert coordinator.end_bumping("id", (4, 1), ABORT) == (0, 4, 2)
    assert coordinator.end_bumping("id", (4, 0), ABORT) == nothing(FENCED)
    assert coordinator.end_bumping("id", (4, 7), ABORT) == nothing(FENCED)
    assert coordinator.end_bumping("id", (13, 1), ABORT) == nothing(MAPPING)


def test_a_zombie_of_version_2_does_not_get_the_epoch_of_a_version_1_producer(coordinator, holder):
    """Apache Kafka takes the zombie's EndTxn v5 for a repeated one, and hands it (producer id, epoch)."""
    producer_id, epoch = holder
    coordinator.end("id", holder, COMMIT)
    coordinator.write_markers()
    assert coordinator.end_bumping("id", holder, COMMIT) == nothing(STATE)
    for commit in (COMMIT, ABORT):
        assert coordinator.end_bumping("id", (producer_id, epoch - 1), commit) == nothing(FENCED)


def test_v5_with_the_last_epoch_hands_out_a_new_producer_id(coordinator):
    holder = coordinator.worn()
    coordinator.add_batched("id", holder, [0])
    assert coordinator.end_bumping("id", holder, COMMIT) == (0, 5, 0)
    assert coordinator.add_batched("id", (5, 0), [0]) == [WAIT]  # early, not fenced
    (markers,) = coordinator.write_markers()
    assert (markers.producer_id, markers.producer_epoch) == (4, 32767)
    assert (coordinator.transaction().producer_id, coordinator.transaction().producer_epoch) == (5, 0)
    assert coordinator.end_bumping("id", holder, COMMIT) == (0, 5, 0)
    assert coordinator.end_bumping("id", holder, ABORT) == nothing(STATE)
    assert coordinator.end_bumping("id", (4, 32765), COMMIT) == nothing(MAPPING)
    assert coordinator.add_batched("id", (5, 0), [0]) == [0]


def test_v5_with_the_last_epoch_waits_for_a_producer_id(coordinator):
    holder = coordinator.worn()
    coordinator.add_batched("id", holder, [0])
    coordinator.ids.refuses = True
    assert coordinator.end_bumping("id", holder, COMMIT) == nothing(CoordinatorLoadInProgress.code)
    assert coordinator.state() == "Ongoing"
    coordinator.ids.refuses = False
    assert coordinator.end_bumping("id", holder, COMMIT) == (0, 5, 0)


@pytest.mark.parametrize("end", [4, 5])
def test_while_markers_are_written_everybody_is_told_to_wait_or_is_fenced(coordinator, holder, end):
    """Every request, with each epoch, in PrepareCommit: (EndTxn v4, v5, AddPartitions v3, v5, verify, ...)"""
    producer_id, _ = holder
    coordinator.end("id", holder, COMMIT, end)
    current = coordinator.transaction().producer_epoch
    for asked in (current - 1, current, current + 1):
        who = producer_id, asked
        old = {WAIT} if asked == current else {FENCED}
        assert {coordinator.end("id", who, each, 4) for each in (COMMIT, ABORT)} == old
        assert {coordinator.end("id", who, each, 5) for each in (COMMIT, ABORT)} == {WAIT}
        assert set(coordinator.add("id", who, [1]) + coordinator.add_batched("id", who, [1])) == {WAIT}
        assert set(coordinator.verify("id", who, [1])) == old
        assert coordinator.add_offsets("id", who) == WAIT
        assert coordinator.init("id", holder=who) == nothing(WAIT)
    stranger = producer_id + 99, current
    assert [coordinator.end("id", stranger, COMMIT, v) for v in (4, 5)] == [MAPPING, WAIT]
    assert coordinator.add("id", stranger, [1]) + coordinator.verify("id", stranger, [1]) == [WAIT, MAPPING]


def test_a_zombie_is_fenced_in_every_way(coordinator, holder):
    coordinator.init("id")
    coordinator.write_markers()
    assert coordinator.init("id")[0] == 0
    assert coordinator.end("id", holder, COMMIT) == FENCED
    assert {coordinator.end_bumping("id", holder, each) for each in (COMMIT, ABORT)} == {nothing(FENCED)}
    assert coordinator.add("id", holder, [0]) + coordinator.add_batched("id", holder, [0]) == [FENCED] * 2
    assert coordinator.verify("id", holder, [0]) == [FENCED]
    assert coordinator.add_offsets("id", holder) == FENCED


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_what_a_dead_producer_left_is_aborted_and_fenced_after_its_time(transaction_version):
    coordinator = Coordinator(Settings(transaction_version=transaction_version))
    holder = coordinator.ready(timeout_ms=3000)
    coordinator.add("id", holder, [0])
    coordinator.advance(2000)
    coordinator.add("id", holder, [1])  # more work does not give more time
    coordinator.advance(999)
    assert coordinator.state() == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state() == "PrepareAbort"
    coordinator.write_markers()
    assert (coordinator.state(), coordinator.transaction().producer_epoch) == ("CompleteAbort", 1)
    assert {coordinator.end("id", holder, each) for each in (COMMIT, ABORT)} == {FENCED}
    if transaction_version == 2:
        assert coordinator.end_bumping("id", holder, COMMIT) == nothing(STATE)
        assert coordinator.end_bumping("id", holder, ABORT) == (0, 4, 1)
        assert coordinator.init("id", holder=holder) == (0, 4, 1)


def test_the_clock_of_an_open_transaction_runs_on_after_a_restart(coordinator):
    holder = coordinator.ready(timeout_ms=3000)
    coordinator.add("id", holder, [0])
    coordinator.advance(1000)
    coordinator.restart()
    coordinator.advance(1999)
    assert coordinator.state() == "Ongoing"
    coordinator.advance(1)
    assert coordinator.state() == "PrepareAbort"


def test_an_ended_transaction_has_no_clock(coordinator, holder):
    coordinator.end("id", holder, COMMIT)
    coordinator.write_markers()
    coordinator.advance(100_000)
    assert coordinator.state() == "CompleteCommit"


def test_a_time_out_at_the_last_epoch_waits_for_a_producer_id(coordinator):
    holder = coordinator.worn()
    coordinator.add("id", holder, [0])
    coordinator.ids.refuses = True
    coordinator.advance(70_000)
    assert coordinator.state() == "Ongoing"
    coordinator.ids.refuses = False
    coordinator.advance(1000)
    assert coordinator.state() == "PrepareAbort"
    coordinator.write_markers()
    assert coordinator.end_bumping("id", holder, ABORT) == (0, 5, 0)


def test_a_wall_clock_that_was_set_back_makes_nobody_wait_for_ever(coordinator):
    holder = coordinator.ready(timeout_ms=3000)
    coordinator.add("id", holder, [0])
    effects = coordinator.machine.on_timer(timers.timeout("id"), coordinator.now_ms - 1_000_000)
    (timer,) = effects.timers
    assert timer.name == timers.timeout("id") and 0 < timer.delay_ms <= 3000
