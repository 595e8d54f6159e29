"""Three services without a boss: an order is paid and its goods are taken, or everything is undone.

python order_saga.py            # runs the three services until Ctrl-C; orders come in by `orders`
"""

import argparse
import json
import threading
from collections.abc import Iterator
from typing import Any

import ottla

ORDERS, PAYMENTS, STOCK = "orders", "payments", "stock"
Event = dict[str, Any]
Outgoing = Iterator[tuple[str, Event]]  # topic, event


class Service:
    """Hears topics, answers with events. What it heard and what it said to that is one transaction: a crash in between
    leaves neither half."""

    name: str
    hears: tuple[str, ...]

    def on_event(self, order: str, event: Event) -> Outgoing:
        raise NotImplementedError

    def run(self, bootstrap: str, ended: threading.Event) -> None:
        with (
            ottla.Producer(bootstrap_servers=bootstrap, transactional_id=f"{self.name}-service") as producer,
            ottla.Consumer(
                bootstrap_servers=bootstrap,
                group_id=f"{self.name}-service",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer,
        ):
            producer.init_transactions()
            consumer.subscribe(self.hears)
            while not ended.is_set():
                records = consumer.poll(0.1)
                if not records:
                    continue
                producer.begin_transaction()
                for record in records:
                    order = record.key.decode()
                    for topic, event in self.on_event(order, json.loads(record.value)):
                        producer.send(topic, json.dumps(event), key=order)
                positions = {(r.topic, r.partition): r.offset + 1 for r in records}
                offsets = {ottla.TopicPartition(*place): offset for place, offset in positions.items()}
                producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                producer.commit_transaction()


class Payments(Service):
    """Takes money; gives it back when the goods cannot be had: the compensation."""

    name, hears = "payments", (ORDERS, STOCK)

    def __init__(self, balances: dict[str, int]) -> None:
        self.balances = balances
        self._paid: dict[str, tuple[str, int]] = {}

    def on_event(self, order: str, event: Event) -> Outgoing:
        if event["event"] == "order placed":
            customer, amount = event["customer"], event["amount"]
            if self.balances.get(customer, 0) < amount:
                yield PAYMENTS, {"event": "payment refused", "reason": f"{customer} has too little"}
            else:
                self.balances[customer] -= amount
                self._paid[order] = customer, amount
                yield PAYMENTS, {"event": "paid", "article": event["article"]}
        elif event["event"] == "out of stock" and order in self._paid:
            customer, amount = self._paid.pop(order)
            self.balances[customer] += amount
            yield PAYMENTS, {"event": "refunded", "amount": amount}


class Stock(Service):
    """Takes an article once it is paid for."""

    name, hears = "stock", (PAYMENTS,)

    def __init__(self, articles: dict[str, int]) -> None:
        self.articles = articles

    def on_event(self, order: str, event: Event) -> Outgoing:
        if event["event"] == "paid":
            if self.articles.get(event["article"], 0) > 0:
                self.articles[event["article"]] -= 1
                yield STOCK, {"event": "reserved", "article": event["article"]}
            else:
                yield STOCK, {"event": "out of stock", "article": event["article"]}


ENDS = {"reserved": "confirmed", "payment refused": "rejected", "refunded": "cancelled"}


class Orders(Service):
    """Says how an order ended."""

    name, hears = "orders", (PAYMENTS, STOCK)

    def __init__(self) -> None:
        self.states: dict[str, str] = {}

    def on_event(self, order: str, event: Event) -> Outgoing:
        state = ENDS.get(event["event"])
        if state is not None:
            self.states[order] = state
            yield ORDERS, {"event": f"order {state}"}


def place(producer: ottla.Producer, order: str, customer: str, article: str, amount: int) -> None:
    event = {"event": "order placed", "customer": customer, "article": article, "amount": amount}
    producer.send(ORDERS, json.dumps(event), key=order).result(30)


def main() -> None:
    parser = argparse.ArgumentParser(description="an order saga by choreography")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    bootstrap, ended = parser.parse_args().bootstrap, threading.Event()
    services = [Orders(), Payments({"ada": 100, "bob": 5}), Stock({"apple": 1})]
    threads = [threading.Thread(target=each.run, args=(bootstrap, ended)) for each in services]
    for thread in threads:
        thread.start()
    try:
        threads[0].join()
    finally:
        ended.set()


if __name__ == "__main__":
    main()
