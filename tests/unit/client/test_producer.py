from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from ottla import errors
from ottla.client.blocking.deliveries import Delivery
from ottla.client.blocking.engine import Engine
from ottla.client.core.deliveries import Batch
from ottla.client.core.identity import EPOCH_MAX
from ottla.client.errors import BufferFull, IllegalState, TimedOut
from ottla.client.producer import Producer
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponsePartition
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.unit.client.scripted import ScriptedBroker
from tests.unit.client.test_cluster import ID, told


class Leader(ScriptedBroker):
    """One partition's log as a leader keeps it: sequences checked, duplicates known, failures by a seed."""

    def __init__(self, *, seed: int = 0, failures: float = 0.0) -> None:
        super().__init__()
        self.log: list[bytes | None] = []
        self.offsets: dict[tuple[int, int], int] = {}  # (epoch, sequence) -> offset
        self.next_sequence: dict[int, int] = {}  # by epoch
        self._chance = random.Random(seed)
        self._failures = failures
        self.answers["MetadataRequest"] = lambda _: told(1, 0, port=self.port)
        self.answers["InitProducerIdRequest"] = lambda _: InitProducerIdResponse(
            producer_id=9, producer_epoch=0
        )
        self.answers["ProduceRequest"] = self._produce

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        data = request.topic_data[0].partition_data[0]
        answer = PartitionProduceResponse(index=0)
        fate = self._chance.random()
        if fate < self._failures / 2:
            answer.error_code = errors.NotLeaderOrFollower.code
        else:
            answer.error_code, answer.base_offset = self._append(bytes(data.records or b""))
            if fate < self._failures:
                raise ConnectionError("appended, but nobody hears of it")
        topic = TopicProduceResponse(name="t", topic_id=ID, partition_responses=[answer])
        return ProduceResponse(responses=[topic])

    def _append(self, data: bytes) -> tuple[int, int]:
        header = batches.check(data)
        if self.next_sequence and header.producer_epoch < max(self.next_sequence):
            return errors.InvalidProducerEpoch.code, -1
        known = self.offsets.get((header.producer_epoch, header.base_sequence))
        if known is not None:
            return 0, known
        # As Apache Kafka: a producer that is not known may begin with any sequence.
        first = 0 if self.next_sequence else header.base_sequence
        if header.base_sequence != self.next_sequence.setdefault(header.producer_epoch, first):
            return errors.OutOfOrderSequenceNumber.code, -1
        offset = len(self.log)
        self.log += [record.value for record in records.read(data)]
        self.offsets[header.producer_epoch, header.base_sequence] = offset
        self.next_sequence[header.producer_epoch] += header.count
        return 0, offset


class Leaders(ScriptedBroker):
    """Several partitions' logs on one broker. `fate` decides about every batch that arrives."""

    def __init__(self, count: int, fate: Callable[[int, bytes], Fate]) -> None:
        super().__init__()
        self.fate = fate
        self.partitions = [Leader() for _ in range(count)]
        self.answers["MetadataRequest"] = self._describe
        self.answers["InitProducerIdRequest"] = lambda _: InitProducerIdResponse(
            producer_id=9, producer_epoch=0
        )
        self.answers["ProduceRequest"] = self._produce

    def _describe(self, _: object) -> MetadataResponse:
        metadata = told(1, 0, port=self.port)
        metadata.topics[0].partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=1, leader_epoch=0)
            for index in range(len(self.partitions))
        ]
        return metadata

    def _produce(self, request: ProduceRequest) -> ProduceResponse:
        responses, is_cut = [], False
        for produced in request.topic_data[0].partition_data:
            data = bytes(produced.records or b"")
            fate = self.fate(produced.index, data)
            code, offset = fate.code, -1
            if fate.appends:
                refusal, offset = self.partitions[produced.index]._append(data)
                code = refusal or fate.code
            is_cut = is_cut or fate.cuts
            responses.append(
                PartitionProduceResponse(index=produced.index, error_code=code, base_offset=offset)
            )
        if is_cut:
            raise ConnectionError("nobody hears of it")
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", topic_id=ID, partition_responses=responses)]
        )


class Fate(NamedTuple):
    """Of one batch: whether it is appended, what is answered, whether the answer is lost with its connection."""

    appends: bool = True
    code: int = 0
    cuts: bool = False


@contextmanager
def serving(broker: ScriptedBroker) -> Iterator[str]:
    engine = Engine("scripted")
    engine.run(broker.__aenter__())
    try:
        yield f"127.0.0.1:{broker.port}"
    finally:
        engine.run(broker.__aexit__())
        engine.close()


def settings(bootstrap: str, **more: Any) -> dict[str, object]:
    quick = {"retry.backoff.ms": 2, "retry.backoff.max.ms": 10, "reconnect.backoff.ms": 1}
    return {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 5, **quick, **more}


@pytest.mark.parametrize("seed", range(5))
def test_lost_answers_and_moved_leaders_cost_neither_order_nor_a_record(seed: int) -> None:
    leader = Leader(seed=seed, failures=0.4)
    with (
        serving(leader) as bootstrap,
        Producer(settings(bootstrap, batch_size=150, linger_ms=0)) as producer,
    ):
        sent = [b"%d" % i for i in range(200)]
        deliveries = [producer.send("t", value) for value in sent]
        offsets = [delivery.result(60).offset for delivery in deliveries]
    assert leader.log == sent
    assert offsets == list(range(200))


def test_the_first_batch_is_refused_by_a_leader_to_be_and_none_behind_it_is_taken_instead() -> None:
    """A topic just made: the leader does not know yet that it leads, and then knows nothing of the producer."""
    leader = Leader(seed=0, failures=0)
    refused = [errors.NotLeaderOrFollower.code]
    all_sent = threading.Event()

    def produce(request: ProduceRequest) -> ProduceResponse:
        if not refused:
            return leader._produce(request)
        assert all_sent.wait(30)
        answer = PartitionProduceResponse(index=0, error_code=refused.pop())
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", topic_id=ID, partition_responses=[answer])]
        )

    leader.answers["ProduceRequest"] = produce
    with (
        serving(leader) as bootstrap,
        Producer(settings(bootstrap, batch_size=1, linger_ms=0)) as producer,
    ):
        sent = [b"%d" % i for i in range(20)]
        deliveries = [producer.send("t", value) for value in sent]
        all_sent.set()
        assert [delivery.result(60).offset for delivery in deliveries] == list(range(20))
    assert leader.log == sent


def test_acks_0_does_not_wait_for_anybody() -> None:
    leader = Leader()
    with serving(leader) as bootstrap, Producer(settings(bootstrap, acks="0")) as producer:
        assert producer.send("t", b"x").result(60).offset == -1


def test_a_broker_that_is_away_fails_sends_in_time_and_memory_stays_bounded() -> None:
    leader = Leader()
    with serving(leader) as bootstrap:
        limits = {"buffer.memory": 2000, "max.block.ms": 1000, "delivery.timeout.ms": 3000, "linger.ms": 0}
        with Producer(settings(bootstrap, **limits)) as producer:
            producer.send("t", b"first").result(60)
            leader.answers["ProduceRequest"] = _away
            deliveries = []
            with pytest.raises(BufferFull):
                for _ in range(100):
                    deliveries.append(producer.send("t", b"x" * 100))
            assert 5 < len(deliveries) < 20
            assert all(isinstance(each.exception(60), TimedOut) for each in deliveries)
            leader.answers["ProduceRequest"] = leader._produce
            assert producer.send("t", b"back").result(60).offset >= 1
    assert leader.log[-1] == b"back"


def _away(_: object) -> ProduceResponse:
    raise ConnectionError("away")


def test_what_cannot_be_sent_is_said_at_once() -> None:
    with (
        serving(Leader()) as bootstrap,
        Producer(settings(bootstrap, max_request_size=100)) as producer,
    ):
        with pytest.raises(errors.MessageTooLarge, match=r"max\.request\.size"):
            producer.send("t", b"x" * 200)
        with pytest.raises(errors.UnknownTopicOrPartition, match="1 partitions"):
            producer.send("t", b"x", partition=7)
        with pytest.raises(IllegalState, match=r"transactional\.id"):
            producer.begin_transaction()
    for _ in range(2):  # the first must not leave a batch behind that takes the second
        with pytest.raises(IllegalState, match="closed"):
            producer.send("t", b"x")


def test_whoever_sends_while_another_closes_is_answered_or_refused() -> None:
    leader = Leader()
    with serving(leader) as bootstrap:
        limits = {"buffer.memory": 5000, "batch.size": 500, "linger.ms": 1000, "max.block.ms": 60_000}
        producer = Producer(settings(bootstrap, **limits))
        deliveries: list[list[Delivery]] = [[] for _ in range(3)]
        refused: list[str] = []

        def send(mine: list[Delivery]) -> None:
            try:
                while True:
                    mine.append(producer.send("t", b"x" * 50))
            except IllegalState as error:
                refused.append(str(error))

        threads = [threading.Thread(target=send, args=(mine,)) for mine in deliveries]
        for thread in threads:
            thread.start()
        while min(map(len, deliveries)) < 20:
            time.sleep(0.001)
        producer.close(0)
        for thread in threads:
            thread.join(60)
        assert refused == ["the producer is closed"] * 3
        assert all(each.done() for mine in deliveries for each in mine)


def test_callbacks_hear_of_success_and_failure_and_may_fail_themselves() -> None:
    heard: list[object] = []
    leader = Leader()
    with serving(leader) as bootstrap, Producer(settings(bootstrap, **{"linger.ms": 0})) as producer:
        producer.send("t", b"a", callback=lambda metadata, error: 1 / 0).result(60)
        producer.send("t", b"b", callback=lambda metadata, error: heard.append(metadata.offset)).result(60)
        leader.answers["ProduceRequest"] = lambda _: ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name="t",
                    topic_id=ID,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=0, error_code=errors.InvalidRecord.code, error_message="bad key"
                        )
                    ],
                )
            ]
        )
        failed = producer.send("t", b"c", callback=lambda metadata, error: heard.append(type(error)))
        with pytest.raises(errors.InvalidRecord, match="t-0: bad key"):
            failed.result(60)
    assert heard == [1, errors.InvalidRecord]


def test_a_batch_that_cannot_be_encoded_leaves_no_gap_in_the_sequences(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Batch.encode

    def encode(batch: Batch, *arguments: Any, **options: Any) -> Any:
        data = real(batch, *arguments, **options)
        if b"not encoded" in bytes(data):
            raise ValueError("no encoder takes this")
        return data

    monkeypatch.setattr(Batch, "encode", encode)
    leader = Leader()
    with serving(leader) as bootstrap, Producer(settings(bootstrap, linger_ms=0)) as producer:
        producer.send("t", b"before").result(60)
        assert isinstance(producer.send("t", b"not encoded").exception(60), ValueError)
        assert producer.send("t", b"after").result(60).offset == 1
    assert leader.log == [b"before", b"after"]


def test_a_failure_in_one_partition_does_not_write_what_another_one_has_twice() -> None:
    """Its answer was lost: under a new epoch its leader would take it as new."""
    fates = {b"lost answer": Fate(cuts=True), b"bad": Fate(appends=False, code=errors.InvalidRecord.code)}
    leaders = Leaders(2, lambda index, data: fates.pop(_values(data)[0], Fate()))
    slow = {"retry.backoff.ms": 500, "retry.backoff.max.ms": 500, "linger.ms": 0}
    with serving(leaders) as bootstrap, Producer(settings(bootstrap, **slow)) as producer:
        unheard = producer.send("t", b"lost answer", partition=1)
        while not producer.metrics()["record-retry-total"]:
            time.sleep(0.001)
        assert isinstance(producer.send("t", b"bad", partition=0).exception(60), errors.InvalidRecord)
        assert producer.send("t", b"good", partition=0).result(60).offset == 0
        assert unheard.result(60).offset == 0
        assert producer.send("t", b"next", partition=1).result(60).offset == 1
    assert [leader.log for leader in leaders.partitions] == [[b"good"], [b"lost answer", b"next"]]


@pytest.mark.parametrize("appended", [True, False], ids=["appended", "not appended"])
def test_what_was_sent_behind_a_batch_that_expires_is_written_once(appended: bool) -> None:
    both_sent, expired = threading.Event(), threading.Event()
    tries = dict.fromkeys((b"expires", b"behind"), 0)

    def fate(index: int, data: bytes) -> Fate:
        (value,) = _values(data)
        if value not in tries or expired.is_set():
            return Fate()
        tries[value] += 1
        if value == b"expires":
            assert both_sent.wait(30)  # the second is on the wire before the first is answered
        code = errors.NotEnoughReplicasAfterAppend.code if appended else errors.NotEnoughReplicas.code
        return Fate(appends=appended and tries[value] == 1, code=code)

    leaders = Leaders(1, fate)
    with serving(leaders) as bootstrap, Producer(settings(bootstrap, linger_ms=0)) as producer:
        producer.send("t", b"first").result(60)
        first = producer.send("t", b"expires")
        while not producer.metrics()["requests-in-flight"]:
            time.sleep(0.001)
        second = producer.send("t", b"behind")
        while producer.metrics()["requests-in-flight"] < 2:
            time.sleep(0.001)
        first.batch.created_ms -= producer.settings.delivery_timeout_ms
        both_sent.set()
        assert isinstance(first.exception(60), TimedOut)
        expired.set()
        end = 2 if appended else 1
        assert second.result(60).offset == end
        assert producer.send("t", b"next").result(60).offset == end + 1
    lost = [b"expires"] if appended else []
    assert leaders.partitions[0].log == [b"first", *lost, b"behind", b"next"]


def test_what_was_sent_behind_a_batch_that_is_refused_does_not_fail_with_it() -> None:
    both_sent = threading.Event()

    def fate(index: int, data: bytes) -> Fate:
        if _values(data) != [b"bad"]:
            return Fate()
        assert both_sent.wait(30)
        return Fate(appends=False, code=errors.InvalidRecord.code)

    leaders = Leaders(1, fate)
    with serving(leaders) as bootstrap, Producer(settings(bootstrap, linger_ms=0)) as producer:
        producer.send("t", b"first").result(60)
        refused = producer.send("t", b"bad")
        while not producer.metrics()["requests-in-flight"]:
            time.sleep(0.001)
        behind = producer.send("t", b"behind")
        while producer.metrics()["requests-in-flight"] < 2:
            time.sleep(0.001)
        both_sent.set()
        assert isinstance(refused.exception(60), errors.InvalidRecord)
        assert behind.result(60).offset == 1
    assert leaders.partitions[0].log == [b"first", b"behind"]


def test_a_partition_whose_epochs_are_used_up_goes_on_under_a_new_producer_id() -> None:
    seen: list[tuple[int, int, int, int]] = []

    def fate(index: int, data: bytes) -> Fate:
        header = batches.check(data)
        seen.append((index, header.producer_id, header.producer_epoch, header.base_sequence))
        refused = _values(data) == [b"bad"]
        return Fate(appends=False, code=errors.InvalidRecord.code if refused else 0)

    leaders = Leaders(2, fate)
    producers = [(9, EPOCH_MAX), (10, 0)]

    def next_producer(_: object) -> InitProducerIdResponse:
        producer_id, epoch = producers.pop(0)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)

    leaders.answers["InitProducerIdRequest"] = next_producer
    with serving(leaders) as bootstrap, Producer(settings(bootstrap, linger_ms=0)) as producer:
        for index, value in ((0, b"a"), (1, b"a"), (0, b"bad"), (0, b"b"), (1, b"b")):
            producer.send("t", value, partition=index).exception(60)
    first = [(0, 9, EPOCH_MAX, 0), (1, 9, EPOCH_MAX, 0), (0, 9, EPOCH_MAX, 1)]
    assert seen == [*first, (0, 10, 0, 0), (1, 9, EPOCH_MAX, 1)]


@pytest.mark.parametrize("seed", range(8))
def test_refusals_lost_answers_and_expiry_together_write_nothing_twice_or_out_of_order(seed: int) -> None:
    chance = random.Random(seed)
    fates = [
        Fate(appends=False, code=errors.NotEnoughReplicas.code),
        Fate(code=errors.NotEnoughReplicasAfterAppend.code),
        Fate(cuts=True),
        Fate(appends=False, cuts=True),
        Fate(appends=False, code=errors.InvalidRecord.code),
    ]
    weights = [6, 6, 2, 2, 1]

    def fate(index: int, data: bytes) -> Fate:
        if len(_values(data)) > 2:
            return Fate(appends=False, code=errors.MessageTooLarge.code)
        return chance.choices(fates, weights)[0] if chance.random() < 0.6 else Fate()

    leaders = Leaders(3, fate)
    limits = {"delivery.timeout.ms": 60, "linger.ms": 0, "batch.size": 90}
    with serving(leaders) as bootstrap, Producer(settings(bootstrap, **limits)) as producer:
        deliveries: list[list[tuple[bytes, Delivery]]] = [[], [], []]
        for number in range(300):
            value = b"%d" % number
            deliveries[number % 3].append((value, producer.send("t", value, partition=number % 3)))
            if number % 20 == 0:
                time.sleep(0.01)
        producer.flush(60)
        leaders.fate = lambda index, data: Fate()
        for index, sent in enumerate(deliveries):
            sent.append((b"last", producer.send("t", b"last", partition=index)))
            sent[-1][1].result(60)
    for leader, sent in zip(leaders.partitions, deliveries, strict=True):
        written = iter(value for value, _ in sent)
        assert all(value in written for value in leader.log)  # each once, and in the order of the sends
        acknowledged = [(value, each.result(0).offset) for value, each in sent if each.exception(0) is None]
        assert [(leader.log[offset], offset) for _, offset in acknowledged] == acknowledged


def _values(data: bytes) -> list[bytes | None]:
    return [record.value for record in records.read(data)]
