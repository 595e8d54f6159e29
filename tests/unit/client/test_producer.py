import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla import errors
from ottla.client.blocking.deliveries import Delivery
from ottla.client.blocking.engine import Engine
from ottla.client.errors import BufferFull, IllegalState, TimedOut
from ottla.client.producer import Producer
from ottla.wire import batch as batches
from ottla.wire import records
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
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
        assert producer.send("t", b"x").result(10).offset == -1


def test_a_broker_that_is_away_fails_sends_in_time_and_memory_stays_bounded() -> None:
    leader = Leader()
    with serving(leader) as bootstrap:
        limits = {"buffer.memory": 2000, "max.block.ms": 50, "delivery.timeout.ms": 300, "linger.ms": 0}
        with Producer(settings(bootstrap, **limits)) as producer:
            producer.send("t", b"first").result(10)
            leader.answers["ProduceRequest"] = _away
            deliveries = []
            with pytest.raises(BufferFull):
                for _ in range(100):
                    deliveries.append(producer.send("t", b"x" * 100))
            assert 5 < len(deliveries) < 20
            assert all(isinstance(each.exception(10), TimedOut) for each in deliveries)
            leader.answers["ProduceRequest"] = leader._produce
            assert producer.send("t", b"back").result(10).offset >= 1
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
            thread.join(10)
        assert refused == ["the producer is closed"] * 3
        assert all(each.done() for mine in deliveries for each in mine)


def test_callbacks_hear_of_success_and_failure_and_may_fail_themselves() -> None:
    heard: list[object] = []
    leader = Leader()
    with serving(leader) as bootstrap, Producer(settings(bootstrap, **{"linger.ms": 0})) as producer:
        producer.send("t", b"a", callback=lambda metadata, error: 1 / 0).result(10)
        producer.send("t", b"b", callback=lambda metadata, error: heard.append(metadata.offset)).result(10)
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
            failed.result(10)
    assert heard == [1, errors.InvalidRecord]
