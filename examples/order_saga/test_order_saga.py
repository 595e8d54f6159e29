import json
import threading
from collections.abc import Iterator

import pytest

import ottla
from examples.order_saga.order_saga import ORDERS, PAYMENTS, STOCK, Orders, Payments, Service, Stock, place
from ottla.testing import Broker


class Running:
    def __init__(self, bootstrap: str) -> None:
        self.payments, self.stock, self.orders = (
            Payments({"ada": 100, "bob": 5}),
            Stock({"apple": 1}),
            Orders(),
        )
        self._ended = threading.Event()
        services: list[Service] = [self.payments, self.stock, self.orders]
        self._threads = [
            threading.Thread(target=each.run, args=(bootstrap, self._ended)) for each in services
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def services(ottla_broker: Broker) -> Iterator[Running]:
    for topic in (ORDERS, PAYMENTS, STOCK):
        ottla_broker.create_topic(topic, partitions=1)
    running = Running(ottla_broker.bootstrap)
    yield running
    running.stop()


def test_orders_are_confirmed_cancelled_with_a_refund_or_rejected(
    services: Running, ottla_broker: Broker
) -> None:
    with ottla.Producer(bootstrap_servers=ottla_broker.bootstrap) as producer:
        place(producer, "1", "ada", "apple", 30)
        place(producer, "2", "ada", "apple", 30)  # there is only one apple
        place(producer, "3", "bob", "apple", 30)
    ottla_broker.wait_for_records(ORDERS, 6, timeout=60)
    assert services.orders.states == {"1": "confirmed", "2": "cancelled", "3": "rejected"}
    assert services.payments.balances == {"ada": 70, "bob": 5}
    events = [json.loads(record.value)["event"] for record in ottla_broker.records(PAYMENTS)]
    assert sorted(events) == ["paid", "paid", "payment refused", "refunded"]
