import json

import pytest

from examples.operational_metrics.operational_metrics import (
    ALERTS,
    METRICS,
    MINUTES,
    Rule,
    Watch,
    sample,
    watch,
)
from ottla.testing import Broker

RULES = (Rule("load", 4.0, hold_s=10),)
START_MS = 60_000


@pytest.fixture
def broker(ottla_broker: Broker) -> Broker:
    ottla_broker.create_topic(METRICS, partitions=1)
    return ottla_broker


def send(broker: Broker, host: str, second: int, load: float) -> None:
    value = json.dumps({"load": load})
    broker.send(METRICS, value, key=host, timestamp_ms=START_MS + second * 1000)


def alerts(broker: Broker) -> list[str]:
    return list(watch(broker.bootstrap, Watch(RULES, silent_s=30), once=True))


def test_an_alert_comes_when_a_number_stays_high_and_once(broker: Broker) -> None:
    for second in range(25):
        send(broker, "web-1", second, 9.0 if second >= 5 else 1.0)
    send(broker, "web-1", 25, 2.0)
    expected = ["ALERT web-1: load above 4 for 10 s (9)", "OK web-1: load is fine again (2)"]
    assert alerts(broker) == expected
    assert [record.value.decode() for record in broker.records(ALERTS)] == expected


def test_a_short_peak_is_no_alert(broker: Broker) -> None:
    for second in range(30):
        send(broker, "web-1", second, 9.0 if second % 9 else 1.0)
    assert alerts(broker) == []


def test_a_silent_machine_is_noticed_by_the_others_time(broker: Broker) -> None:
    send(broker, "db-1", 0, 1.0)
    for second in range(0, 50, 10):
        send(broker, "web-1", second, 1.0)
    send(broker, "db-1", 50, 1.0)
    assert alerts(broker) == ["ALERT db-1 is silent", "OK db-1 is back"]


def test_a_minute_becomes_one_row(broker: Broker) -> None:
    for second, load in ((0, 1.0), (30, 3.0), (60, 5.0)):
        send(broker, "web-1", second, load)
    alerts(broker)
    (row,) = broker.records(MINUTES)
    assert (row.key, json.loads(row.value)) == (b"web-1/load", {"minute": 1, "mean": 2.0, "max": 3.0})


def test_this_machine_has_numbers() -> None:
    assert set(sample()) == {"load", "disk_used"}
