"""AddPartitionsToTxn and AddOffsetsToTxn. The expected answers are those of Apache Kafka 4.3.1."""

import pytest

from ottla.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    ProducerFenced,
    TransactionAbortable,
)
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.unit.coordination.transactions.coordinator import START_MS, Coordinator

FENCED, MAPPING, EPOCH = ProducerFenced.code, InvalidProducerIdMapping.code, InvalidProducerEpoch.code
ABORTABLE = TransactionAbortable.code


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def holder(coordinator) -> tuple[int, int]:
    coordinator.ready()
    return coordinator.ready()


def test_the_first_partition_begins_the_transaction(coordinator, holder):
    coordinator.advance(500)
    assert coordinator.add("id", holder, [0, 1]) == [0, 0]
    coordinator.advance(500)
    assert coordinator.add("id", holder, [2]) == [0]
    described = coordinator.describe("id")
    assert (described.transaction_state, described.transaction_start_time_ms) == ("Ongoing", START_MS + 500)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0, 1, 2])]


def test_a_partition_that_is_in_already_costs_no_record(coordinator, holder):
    coordinator.add("id", holder, [0, 1])
    before = coordinator.log.end
    assert coordinator.add("id", holder, [1]) + coordinator.add_batched("id", holder, [0]) == [0, 0]
    assert coordinator.log.end == before


def test_the_next_transaction_begins_with_no_partitions(coordinator, holder):
    coordinator.add("id", holder, [0, 1])
    coordinator.end("id", holder, True)
    coordinator.write_markers()
    coordinator.advance(700)
    assert coordinator.verify("id", holder, [0]) == [ABORTABLE]
    assert coordinator.add("id", holder, [0]) == [0]
    assert coordinator.transaction().partitions == {("t", 0)}
    assert coordinator.transaction().start_ms == START_MS + 700


@pytest.mark.parametrize("version", range(6))
def test_the_wrong_producer_adds_nothing(coordinator, holder, version):
    producer_id, epoch = holder

    def add(transactional_id: str, who: tuple[int, int]) -> int:
        if version < 4:
            return coordinator.add(transactional_id, who, [0], version)[0]
        return coordinator.add_batched(transactional_id, who, [0])[0]

    fenced = EPOCH if version < 2 else FENCED
    assert [add("id", (producer_id, each)) for each in (epoch - 1, epoch + 1)] == [fenced, fenced]
    assert add("id", (producer_id + 1, epoch)) == MAPPING
    assert add("other", holder) == MAPPING
    assert add("", holder) == InvalidRequest.code
    assert coordinator.state() == "Empty"


def test_the_group_offsets_of_a_transaction_are_one_more_partition(coordinator, holder):
    producer_id, epoch = holder
    assert [coordinator.add_offsets("id", holder, v) for v in range(5)] == [0] * 5
    assert coordinator.transaction().partitions == {("__consumer_offsets", 42)}
    older = [coordinator.add_offsets("id", (producer_id, epoch - 1), v) for v in range(5)]
    assert older == [EPOCH, EPOCH, FENCED, FENCED, FENCED]
    assert coordinator.add_offsets("", holder) == InvalidRequest.code
    assert coordinator.add_offsets("other", holder) == MAPPING


def test_verifying_changes_nothing_and_tells_partitions_apart(coordinator, holder):
    producer_id, epoch = holder
    coordinator.add("id", holder, [0, 1])
    before = coordinator.log.end
    assert coordinator.verify("id", holder, [0, 1, 2]) == [0, 0, ABORTABLE]
    assert coordinator.verify("id", (producer_id, epoch - 1), [0]) == [FENCED]
    assert coordinator.verify("id", (producer_id + 1, epoch), [0]) == [MAPPING]
    assert coordinator.verify("other", holder, [0]) == [MAPPING]
    assert coordinator.verify("", holder, [0]) == [InvalidRequest.code]
    assert coordinator.log.end == before


def test_who_adds_tells_the_version_of_the_client(coordinator, holder):
    coordinator.add("id", holder, [0])
    assert coordinator.transaction().client_version == 0
    coordinator.add_batched("id", holder, [1])
    assert coordinator.transaction().client_version == 2
    coordinator.add_offsets("id", holder)
    assert coordinator.transaction().client_version == 0


def test_one_request_may_speak_for_several_transactions(coordinator):
    holders = {each: coordinator.ready(each) for each in ("a", "b")}

    def entry(transactional_id: str, partition: int, epoch: int = 0) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=holders[transactional_id][0],
            producer_epoch=epoch,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[partition])],
        )

    request = AddPartitionsToTxnRequest(transactions=[entry("a", 0), entry("b", 1, 9), entry("a", 2)])
    answer = coordinator.ask(
        lambda token, now_ms: coordinator.machine.on_add_partitions_to_txn(request, 5, token, now_ms)
    )
    codes = [
        (result.transactional_id, each.partition_error_code)
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    ]
    assert codes == [("a", 0), ("b", FENCED), ("a", ConcurrentTransactions.code)]
    assert coordinator.transaction("a").partitions == {("t", 0)}
    assert coordinator.state("b") == "Empty"
