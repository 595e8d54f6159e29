"""confluent-kafka: a service that turns orders into invoices, and what its users fear most."""

import json

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from ottla.testing import Broker


class Shop:
    """The code under test: sends orders."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self._failed: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "retry.backoff.ms": 10, "linger.ms": 0, **settings}
        )

    def order(self, number: int) -> None:
        self._producer.produce(
            "orders", json.dumps({"order": number}), str(number), on_delivery=self._delivered
        )

    def close(self) -> list[str]:
        """What could not be delivered."""
        self._producer.flush(60)
        return self._failed

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._failed.append(str(error))


def bill_one(bootstrap: str) -> None:
    """The code under test: reads an order and writes its invoice, both or neither."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["orders"])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "billing"})
    producer.init_transactions(60)
    try:
        order = consumer.poll(60)
        producer.begin_transaction()
        producer.produce("invoices", order.value())
        position = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata())
        producer.commit_transaction(60)
    finally:
        consumer.close()


@pytest.fixture
def broker(ottla_broker: Broker) -> Broker:
    ottla_broker.create_topic("orders")
    ottla_broker.create_topic("invoices")
    return ottla_broker


def test_orders_arrive(broker: Broker) -> None:
    shop = Shop(broker.bootstrap)
    shop.order(7)
    assert shop.close() == []
    (order,) = broker.records("orders", key=bytes.decode, value=json.loads)
    assert (order.key, order.value) == ("7", {"order": 7})


def test_a_leader_that_moves_costs_no_order(broker: Broker) -> None:
    broker.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3)
    shop = Shop(broker.bootstrap)
    shop.order(7)
    assert shop.close() == []
    assert len(broker.records("orders")) == 1


def test_a_lost_answer_doubles_the_order_of_a_careless_shop(broker: Broker) -> None:
    broker.disconnect("Produce", after_effect=True)
    shop = Shop(broker.bootstrap)
    shop.order(7)
    shop.close()
    assert len(broker.records("orders")) == 2


def test_idempotence_keeps_it_to_one(broker: Broker) -> None:
    broker.disconnect("Produce", after_effect=True)
    shop = Shop(broker.bootstrap, **{"enable.idempotence": True})
    shop.order(7)
    shop.close()
    assert len(broker.records("orders")) == 1


def test_an_order_is_billed_once_though_the_biller_dies_in_the_middle(broker: Broker) -> None:
    shop = Shop(broker.bootstrap)
    shop.order(7)
    shop.close()
    broker.fail("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")  # as good a moment to die as any
    with pytest.raises(KafkaException):
        bill_one(broker.bootstrap)
    assert broker.records("invoices") == []
    bill_one(broker.bootstrap)
    assert len(broker.records("invoices")) == 1
    assert broker.group("billing").lag == 0


def test_old_orders_are_forgotten(broker: Broker) -> None:
    shop = Shop(broker.bootstrap)
    shop.order(7)
    shop.close()
    broker.advance(days=8)  # the default retention is a week
    assert broker.records("orders") == []
