"""One process leaves a transaction open, another ends it; the next owner of the id fences the previous one."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

import ottla
from ottla.client.columnar import ColumnarProducer
from ottla.client.settings import ProducerSettings
from ottla.client.transactions import FENCED, OpenTransaction, TransactionEnder
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.testing import Broker

ROWS = pa.record_batch({"value": [b"a", b"b"]})
MARK = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", 1)
        yield running


@pytest.fixture
def ender(broker: Broker) -> Iterator[TransactionEnder]:
    ending = TransactionEnder(ProducerSettings.parse({"bootstrap.servers": broker.bootstrap}))
    yield ending
    ending.close()


def written(broker: Broker, name: str) -> OpenTransaction:
    producer = ColumnarProducer(bootstrap_servers=broker.bootstrap, transactional_id=name)
    producer.take_over()
    producer.write(ROWS, "t")
    producer.flush()
    left = OpenTransaction(name, producer.producer_id_and_epoch)
    producer.abandon()
    producer._engine.run(producer._stop())  # dies: its transaction stays open
    producer._engine.close()
    return left


def test_many_are_committed_with_their_offsets(broker: Broker, ender: TransactionEnder) -> None:
    left = [written(broker, f"task-{number}") for number in range(3)]
    assert broker.records("t") == []
    ender.commit(left, {MARK: OffsetAndMetadata(7, "batch")})
    assert len(broker.records("t")) == 6
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        for number in range(3):
            assert admin.group_offsets(f"task-{number}")[MARK].offset == 7


def test_an_abort_leaves_nothing_and_may_be_repeated(broker: Broker, ender: TransactionEnder) -> None:
    left = written(broker, "task")
    ender.abort([left])
    ender.abort([left])
    assert broker.records("t") == []
    assert [each.state for each in _transactions(broker)] == ["CompleteAbort"]


def test_who_was_fenced_cannot_commit(broker: Broker, ender: TransactionEnder) -> None:
    left = written(broker, "task")
    with ColumnarProducer(bootstrap_servers=broker.bootstrap, transactional_id="task") as successor:
        successor.take_over()
        with pytest.raises(FENCED):
            ender.commit([left])
        successor.abort()
    assert broker.records("t") == []


def _transactions(broker: Broker) -> list[object]:
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        return list(admin.list_transactions())
