import threading

import pytest

import ottla
from examples.bridge.bridge import Bridge
from ottla.testing import Broker


@pytest.fixture
def target() -> Broker:
    with Broker() as broker:
        yield broker


def copy(source: Broker, target: Broker) -> int:
    bridge = Bridge(source.bootstrap, target.bootstrap, ["orders"])
    bridge.run(threading.Event(), once=True)
    return bridge.copied


def rows(broker: Broker) -> list[tuple[object, ...]]:
    return [(r.partition, r.key, r.value, r.headers, r.timestamp_ms) for r in broker.records("orders")]


def test_records_arrive_with_everything_and_once(ottla_broker: Broker, target: Broker) -> None:
    ottla_broker.create_topic("orders", partitions=2)
    for number in range(10):
        ottla_broker.send(
            "orders", str(number), key=str(number), headers=[("h", b"x")], timestamp_ms=1000 + number
        )
    assert copy(ottla_broker, target) == 10
    assert copy(ottla_broker, target) == 0
    ottla_broker.send("orders", "more", key="k")
    assert copy(ottla_broker, target) == 1
    assert rows(target) == rows(ottla_broker)


def test_after_a_failed_write_nothing_is_missing_or_twice(ottla_broker: Broker, target: Broker) -> None:
    ottla_broker.create_topic("orders", partitions=1)
    for number in range(10):
        ottla_broker.send("orders", str(number))
    target.create_topic("orders", partitions=1)
    with target.fail("EndTxn", "INVALID_TXN_STATE", times=1), pytest.raises(ottla.OttlaError):
        copy(ottla_broker, target)
    assert target.records("orders") == []
    copy(ottla_broker, target)
    assert [r.value for r in target.records("orders")] == [str(number).encode() for number in range(10)]
