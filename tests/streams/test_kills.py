"""Joins, windows and repartitioning on a broker: workers die at any place of a step, and outputs are exact."""

from __future__ import annotations

import json as text
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from ottla.streams import App, json, string, tumbling, within
from ottla.testing import Broker
from tests.pipelines.local import drained, fragile, query

CITIES = ["delft", "leiden", "gouda"]
WINDOW_MS = 10_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        for name in ("orders", "customers", "paid", "cities", "unpaid", "names"):
            running.create_topic(name, partitions=2)
        yield running


def application(broker: Broker) -> App:
    """Orders by city and window, with a table of customers and a global one of cities; orders that are not paid."""
    app = App("shop", broker.bootstrap)
    customers = app.table("customers", value=json, name="customers")
    orders, paid = app.stream("orders", value=json), app.stream("paid", value=json)
    names = app.global_table("names", value=string, name="names")
    with_city = orders.join(customers, lambda order, customer: {**order, "city": customer["city"]})
    with_name = with_city.join(
        names, lambda order, name: {**order, "name": name}, on=lambda key, v: v["city"]
    )
    by_city = with_name.group_by(lambda key, order: order["city"])
    by_city.window(tumbling(ms=WINDOW_MS, grace=30)).count("by-city").final().to_stream().to("cities")
    waiting = orders.left_join(paid, lambda order, payment: [order["id"], payment], within=within(seconds=5))
    waiting.filter(lambda key, both: both[1] is None).to("unpaid")
    return app


def test_workers_that_die_change_nothing(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    city_of = {f"c{number}": chance.choice(CITIES) for number in range(6)}
    for city in CITIES:
        broker.send("names", city.title(), key=city, timestamp_ms=0)
    for customer, city in city_of.items():
        broker.send("customers", text.dumps({"city": city}), key=customer, timestamp_ms=0)
    expected: Counter[tuple[str, int]] = Counter()
    unpaid: set[int] = set()
    with query(application(broker).pipeline(), workers=2) as running:
        running.drain()
        deaths = fragile(monkeypatch, chance)
        for number in range(60):
            customer, at = f"c{chance.randrange(6)}", 1_000 + number * 1_000
            broker.send("orders", text.dumps({"id": number}), key=customer, timestamp_ms=at)
            expected[city_of[customer], at // WINDOW_MS * WINDOW_MS] += 1
            if chance.random() < 0.6:
                broker.send("paid", "{}", key=customer, timestamp_ms=at + 10)
            else:
                unpaid.add(number)
            if number % 10 == 9:
                drained(running, chance)
        for partition in range(2):  # time moves on in both
            broker.send(
                "orders", text.dumps({"id": -1}), key="nobody", timestamp_ms=10**9, partition=partition
            )
            broker.send("paid", "{}", key="nobody", timestamp_ms=10**9, partition=partition)
        for customer in city_of:
            broker.send("orders", text.dumps({"id": -2}), key=customer, timestamp_ms=10**9)
        drained(running, chance)
    assert len(deaths) > 10
    check(broker, expected, unpaid)


def check(broker: Broker, expected: Counter[tuple[str, int]], unpaid: set[int]) -> None:
    """Each closed window once with its count; each order that found no payment once, if nobody of the same customer
    paid near it."""
    windows = [
        (record.key[:-8].decode(), int.from_bytes(record.key[-8:]), int.from_bytes(record.value))
        for record in broker.records("cities")
    ]
    closed = [window for window in windows if window[1] < 10**6]
    assert len({window[:2] for window in closed}) == len(closed)
    assert {(city, start): count for city, start, count in closed} == dict(expected)
    found = [text.loads(record.value)[0] for record in broker.records("unpaid")]
    real = [number for number in found if number >= 0]
    assert len(set(real)) == len(real)
    assert set(real) <= unpaid
