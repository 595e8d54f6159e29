import json

import pytest

from examples.event_patterns.event_patterns import ALERTS, EVENTS, watch
from ottla.testing import Broker


@pytest.fixture
def broker(ottla_broker: Broker) -> Broker:
    ottla_broker.create_topic(EVENTS, partitions=1)
    ottla_broker.create_topic(ALERTS, partitions=1)
    return ottla_broker


def send(broker: Broker, card: str, at: int, kind: str, amount: float = 0, country: str = "AT") -> None:
    event = {"kind": kind, "amount": amount, "country": country, "at": at}
    broker.send(EVENTS, json.dumps(event), key=card)


def alerts(broker: Broker) -> list[tuple[str, str]]:
    watch(broker.bootstrap, once=True)
    found = broker.records(ALERTS)
    return [(record.key.decode(), json.loads(record.value)["pattern"].split(":")[0]) for record in found]


def test_three_small_payments_and_a_large_one_are_an_alarm(broker: Broker) -> None:
    for at, amount in ((0, 1), (10, 1), (15, 40), (20, 1), (30, 900)):
        send(broker, "card-1", at, "payment", amount)
        send(broker, "card-2", at, "payment", 40)
    assert alerts(broker) == [("card-1", "card testing")]


def test_the_same_too_slowly_is_none(broker: Broker) -> None:
    for at, amount in ((0, 1), (300, 1), (500, 1), (700, 900)):
        send(broker, "card-1", at, "payment", amount)
    assert alerts(broker) == []


def test_what_does_not_come_is_an_alarm(broker: Broker) -> None:
    send(broker, "card-1", 0, "withdrawal")
    send(broker, "card-2", 0, "withdrawal")
    send(broker, "card-2", 60, "receipt")
    send(broker, "card-3", 200, "payment", 5)  # time goes on
    assert alerts(broker) == [("card-1", "no receipt for a withdrawal")]


def test_a_restart_in_the_middle_of_a_pattern_neither_misses_nor_repeats(broker: Broker) -> None:
    send(broker, "card-1", 0, "payment", 5, "AT")
    send(broker, "card-1", 60, "payment", 5, "JP")
    assert alerts(broker) == [("card-1", "two countries within an hour")]
    send(broker, "card-2", 100, "payment", 5, "AT")
    assert len(alerts(broker)) == 1
    send(broker, "card-2", 160, "payment", 5, "JP")
    assert alerts(broker)[1:] == [("card-2", "two countries within an hour")]
