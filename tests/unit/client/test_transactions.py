"""The client's side of a transaction against a coordinator that refuses, forgets to answer and fences."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla import errors
from ottla.client.core.deliveries import Batch
from ottla.client.errors import IllegalState, TimedOut
from ottla.client.producer import Producer
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.api_versions import ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import Coordinator as Found
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.unit.client.scripted import ScriptedBroker, api_versions
from tests.unit.client.test_cluster import ID, told
from tests.unit.client.test_producer import serving, settings

P = TopicPartition("t", 0)
MEMBER = GroupMetadata("g", 1, "m")
PASSING = (
    errors.NotCoordinator.code,
    errors.CoordinatorNotAvailable.code,
    errors.CoordinatorLoadInProgress.code,
    errors.ConcurrentTransactions.code,
)


class Coordinator(ScriptedBroker):
    """One transactional id and one partition, as a broker keeps them. `refusals` come first, by request."""

    def __init__(self, *, second_generation: bool, seed: int = 0, failures: float = 0.0) -> None:
        super().__init__()
        self.second_generation = second_generation
        self._chance, self._failures = random.Random(seed), failures
        self.refusals: dict[str, list[int]] = {}
        self.epoch = 0
        self.committed: list[bytes | None] = []
        self.committed_offset = -1
        self._pending: list[bytes | None] = []
        self._pending_offset: int | None = None
        self._added = False
        self._ended: bool | None = None  # how the last one was, for those who ask again
        self._sequences: dict[tuple[int, int], int] = {}
        self._next_sequence = 0
        self.answers["ApiVersionsRequest"] = lambda _: self._versions()
        self.answers["MetadataRequest"] = lambda _: told(1, 0, port=self.port)
        self.answers["FindCoordinatorRequest"] = self._find
        self._answer_with(InitProducerIdRequest, self._init)
        self._answer_with(AddPartitionsToTxnRequest, self._add)
        self._answer_with(ProduceRequest, self._produce)
        self._answer_with(AddOffsetsToTxnRequest, lambda _, code: AddOffsetsToTxnResponse(error_code=code))
        self._answer_with(TxnOffsetCommitRequest, self._commit_offset)
        self._answer_with(EndTxnRequest, self._end)

    def _answer_with(self, request: type[Any], answer: Callable[[Any, int], Any]) -> None:
        """Refused, or carried out and lost on the way back, with some probability."""
        name = request.__name__

        def fated(asked: Any) -> Any:
            if self.refusals.get(name):
                return answer(asked, self.refusals[name].pop(0))
            fate = self._chance.random()
            if fate < self._failures / 2:
                return answer(asked, self._chance.choice(PASSING))
            answered = answer(asked, 0)
            if fate < self._failures:
                raise ConnectionError("carried out, but nobody hears of it")
            return answered

        self.answers[name] = fated

    def _versions(self) -> ApiVersionsResponse:
        answer = api_versions()
        level = 2 if self.second_generation else 0
        answer.finalized_features = [
            FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=0)
        ]
        return answer

    def _find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        key = request.coordinator_keys[0]
        return FindCoordinatorResponse(
            coordinators=[Found(key=key, node_id=1, host="127.0.0.1", port=self.port)]
        )

    def _init(self, _: InitProducerIdRequest, code: int) -> InitProducerIdResponse:
        if not code:
            self._begin_epoch()
        return InitProducerIdResponse(error_code=code, producer_id=9, producer_epoch=self.epoch)

    def _begin_epoch(self) -> None:
        self.epoch += 1
        self._next_sequence = 0
        self._pending, self._pending_offset, self._added = [], None, False

    def _add(self, _: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
        assert not self.second_generation
        self._added = self._added or not code
        result = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[result])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    def _produce(self, request: ProduceRequest, code: int) -> ProduceResponse:
        data = bytes(request.topic_data[0].partition_data[0].records or b"")
        answer = PartitionProduceResponse(index=0, error_code=code)
        if code in PASSING[:3]:
            answer.error_code = errors.NotLeaderOrFollower.code  # what a partition's leader says
        elif not code:
            answer.error_code = self._append(data)
        topic = TopicProduceResponse(name="t", topic_id=ID, partition_responses=[answer])
        return ProduceResponse(responses=[topic])

    def _append(self, data: bytes) -> int:
        header = batches.check(data)
        if header.producer_epoch != self.epoch:
            return errors.InvalidProducerEpoch.code
        if not self.second_generation and not self._added:
            return errors.InvalidTxnState.code
        if (header.producer_epoch, header.base_sequence) in self._sequences:
            return 0
        if header.base_sequence != self._next_sequence:
            return errors.OutOfOrderSequenceNumber.code
        self._sequences[header.producer_epoch, header.base_sequence] = header.count
        self._next_sequence += header.count
        self._pending += [record.value for record in records.read(data)]
        self._ended = None
        return 0

    def _commit_offset(self, request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
        if not code and request.producer_epoch != self.epoch:
            code = errors.InvalidProducerEpoch.code
        if not code:
            self._pending_offset = request.topics[0].partitions[0].committed_offset
            self._ended = None
        told_code = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = TxnOffsetCommitResponseTopic(name="t", partitions=[told_code])
        return TxnOffsetCommitResponse(topics=[topic])

    def _end(self, request: EndTxnRequest, code: int) -> EndTxnResponse:
        if code:
            return EndTxnResponse(error_code=code)
        again = self._ended == request.committed and not self._pending and self._pending_offset is None
        if self.second_generation and again and request.producer_epoch == self.epoch - 1:
            return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(error_code=errors.InvalidProducerEpoch.code)
        if request.committed:
            self.committed += self._pending
            if self._pending_offset is not None:
                self.committed_offset = self._pending_offset
        self._ended = request.committed
        self._pending, self._pending_offset, self._added = [], None, False
        if self.second_generation:
            self._begin_epoch()
        return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)


def a_producer(bootstrap: str, **more: Any) -> Producer:
    producer = Producer(settings(bootstrap, **more), transactional_id="x", linger_ms=0, batch_size=60)
    producer.init_transactions()
    return producer


@pytest.fixture(params=[1, 2], ids=["first generation", "second generation"])
def second_generation(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == 2)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_refused_or_lost_on_the_way_what_is_committed_is_there_once_and_in_order(
    second_generation: bool, seed: int
) -> None:
    coordinator = Coordinator(second_generation=second_generation, seed=seed, failures=0.3)
    chance = random.Random(seed)
    expected: list[bytes] = []
    with serving(coordinator) as bootstrap, a_producer(bootstrap) as producer:
        for number in range(15):
            values = [b"%d/%d" % (number, i) for i in range(chance.randrange(4))]
            producer.begin_transaction()
            for value in values:
                producer.send("t", value)
            if chance.random() < 0.7:
                producer.send_offsets_to_transaction({P: number}, MEMBER)
            if chance.random() < 0.3:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                expected += values
    assert coordinator.committed == expected


def test_a_refused_record_can_only_be_aborted_and_the_next_transaction_is_whole(
    second_generation: bool,
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    with serving(coordinator) as bootstrap, a_producer(bootstrap) as producer:
        coordinator.refusals["ProduceRequest"] = [errors.InvalidRecord.code]
        producer.begin_transaction()
        assert isinstance(producer.send("t", b"refused").exception(10), errors.InvalidRecord)
        with pytest.raises(IllegalState, match="must be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"fine")
        producer.commit_transaction()
    assert coordinator.committed == [b"fine"]


@pytest.mark.parametrize("error", [errors.StaleMemberEpoch, errors.IllegalGeneration, errors.UnknownMemberId])
def test_offsets_of_a_member_that_the_group_has_left_behind_abort_the_transaction_not_the_producer(
    second_generation: bool, error: type[errors.ProtocolError]
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    with serving(coordinator) as bootstrap, a_producer(bootstrap) as producer:
        coordinator.refusals["TxnOffsetCommitRequest"] = [error.code]
        producer.begin_transaction()
        producer.send("t", b"undone")
        with pytest.raises(error):
            producer.send_offsets_to_transaction({P: 5}, MEMBER)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"done")
        producer.send_offsets_to_transaction({P: 7}, MEMBER)
        producer.commit_transaction()
    assert (coordinator.committed, coordinator.committed_offset) == ([b"done"], 7)


@pytest.mark.parametrize(
    "error", [errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidTxnState]
)
@pytest.mark.parametrize("committed", [True, False])
def test_who_may_not_end_its_transaction_is_told_to_close(
    second_generation: bool, error: type[errors.ProtocolError], committed: bool
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    with serving(coordinator) as bootstrap:
        producer = a_producer(bootstrap)
        producer.begin_transaction()
        producer.send("t", b"x").result(60)
        coordinator.refusals["EndTxnRequest"] = [error.code]
        with pytest.raises(error):
            producer.commit_transaction() if committed else producer.abort_transaction()
        for call in (producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(IllegalState, match="close it"):
                call()
        with pytest.raises(IllegalState, match="close it"):
            producer.send("t", b"y")
        producer.close(0)
    assert coordinator.committed == []


def test_a_commit_that_the_coordinator_wants_aborted_is_and_the_next_one_is_taken(
    second_generation: bool,
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    with serving(coordinator) as bootstrap, a_producer(bootstrap) as producer:
        producer.begin_transaction()
        producer.send("t", b"undone")
        coordinator.refusals["EndTxnRequest"] = [errors.TransactionAbortable.code]
        with pytest.raises(errors.TransactionAbortable):
            producer.commit_transaction()
        with pytest.raises(IllegalState, match="must be aborted"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"done")
        producer.commit_transaction()
    assert coordinator.committed == [b"done"]


def test_an_abort_leaves_no_gap_in_the_sequences_of_what_had_to_be_sent_again(
    second_generation: bool,
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    slow = {"retry.backoff.ms": 300, "retry.backoff.max.ms": 300}
    with serving(coordinator) as bootstrap, a_producer(bootstrap, **slow) as producer:
        coordinator.refusals["ProduceRequest"] = [errors.NotCoordinator.code]
        producer.begin_transaction()
        producer.send("t", b"undone")
        while not producer.metrics()["record-retry-total"]:
            time.sleep(0.001)
        producer.abort_transaction()  # while the batch waits for its second try
        producer.begin_transaction()
        producer.send("t", b"done").result(60)
        producer.commit_transaction()
    assert coordinator.committed == [b"done"]


def test_a_record_that_expires_before_it_was_ever_sent_keeps_its_transaction_from_committing(
    second_generation: bool,
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    leaderless = MetadataResponsePartition(partition_index=1, leader_id=-1, leader_epoch=0)

    def metadata(_: object) -> MetadataResponse:
        answer = told(1, 0, port=coordinator.port)
        answer.topics[0].partitions.append(leaderless)
        return answer

    coordinator.answers["MetadataRequest"] = metadata
    limits = {"delivery.timeout.ms": 300, "request.timeout.ms": 300}
    with serving(coordinator) as bootstrap, a_producer(bootstrap, **limits) as producer:
        producer.begin_transaction()
        producer.send("t", b"acknowledged", partition=0).result(60)
        expired = producer.send("t", b"never sent", partition=1)
        with pytest.raises(IllegalState, match="must be aborted"):
            producer.commit_transaction()
        assert isinstance(expired.exception(0), TimedOut)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"fine", partition=0)
        producer.commit_transaction()
    assert coordinator.committed == [b"fine"]


def test_a_record_that_cannot_be_encoded_keeps_its_transaction_from_committing(
    second_generation: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(second_generation=second_generation)
    real = Batch.encode

    def encode(batch: Batch, *arguments: Any, **options: Any) -> Any:
        data = real(batch, *arguments, **options)
        if b"not encoded" in bytes(data):
            raise ValueError("no encoder takes this")
        return data

    monkeypatch.setattr(Batch, "encode", encode)
    with serving(coordinator) as bootstrap, a_producer(bootstrap) as producer:
        producer.begin_transaction()
        producer.send("t", b"acknowledged").result(60)
        refused = producer.send("t", b"not encoded")
        with pytest.raises(IllegalState, match="must be aborted"):
            producer.commit_transaction()
        assert isinstance(refused.exception(0), ValueError)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("t", b"fine")
        producer.commit_transaction()
    assert coordinator.committed == [b"fine"]
