"""Brokers and plain clients for the tests of the testing kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from ottla.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as made:
        yield made


@pytest.fixture
def produce() -> Callable[..., list[str | None]]:
    """Sends values and tells the name of each error, None where there was none."""

    def produce(
        broker: Broker, topic: str, *values: bytes, key: bytes | None = None, **more: Any
    ) -> list[Any]:
        settings = {name.replace("_", "."): value for name, value in more.items()}
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings})
        errors: list[str | None] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            errors.append(None if error is None else error.name())

        for value in values:
            producer.produce(topic, value, key=key, on_delivery=delivered)
        assert producer.flush(60) == 0
        return errors

    return produce


@pytest.fixture
def consumer() -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def consumer(broker: Broker, *topics: str, **more: Any) -> Consumer:
        settings = {name.replace("_", "."): value for name, value in more.items()}
        defaults = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        one = Consumer({"bootstrap.servers": broker.bootstrap, **defaults, **settings})
        one.subscribe(list(topics))
        made.append(one)
        return one

    yield consumer
    for each in made:
        each.close()
