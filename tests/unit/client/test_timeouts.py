"""A timeout's unit is never guessed: seconds, a `timedelta`, or `timeout_ms`; `poll(100)` is refused."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import ottla
from ottla import aio
from ottla.client.errors import AmbiguousTimeout
from ottla.client.timeouts import seconds
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t", 1)
        yield running


@pytest.mark.parametrize(
    ("timeout", "timeout_ms", "expected"),
    [
        (1, None, 1.0),
        (0.25, None, 0.25),
        (100.0, None, 100.0),
        (timedelta(milliseconds=100), None, 0.1),
        (1.0, 250, 0.25),
        (None, None, None),
    ],
)
def test_what_is_clear_is_taken(timeout: Any, timeout_ms: float | None, expected: float | None) -> None:
    assert seconds("poll", timeout, timeout_ms) == expected


CALLS: list[Callable[[Any, Any], Any]] = [
    lambda consumer, producer: consumer.poll(100),
    lambda consumer, producer: consumer.poll(timeout=100),
    lambda consumer, producer: consumer.poll_arrow(1000),
    lambda consumer, producer: consumer.position(("t", 0), 100),
    lambda consumer, producer: consumer.lag(("t", 0), 100),
    lambda consumer, producer: producer.flush(5000),
    lambda consumer, producer: producer.close(5000),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_large_bare_number_is_refused_by_every_call(
    broker: Broker, call: Callable[[Any, Any], Any]
) -> None:
    with (
        ottla.Consumer(bootstrap_servers=broker.bootstrap) as consumer,
        ottla.Producer(bootstrap_servers=broker.bootstrap) as producer,
        pytest.raises(AmbiguousTimeout, match="timeout_ms="),
    ):
        call(consumer, producer)


@pytest.mark.parametrize("call", CALLS)
def test_a_large_bare_number_is_refused_with_await_too(
    broker: Broker, call: Callable[[Any, Any], Any]
) -> None:
    async def run() -> None:
        async with (
            aio.Consumer(bootstrap_servers=broker.bootstrap) as consumer,
            aio.Producer(bootstrap_servers=broker.bootstrap) as producer,
        ):
            with pytest.raises(AmbiguousTimeout, match="timeout_ms="):
                await call(consumer, producer)

    asyncio.run(run())


def test_milliseconds_and_timedeltas_work(broker: Broker) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("t", b"x")
        producer.flush(timeout_ms=30_000)
        producer.flush(timedelta(seconds=30))
    with ottla.Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        assert consumer.poll(timeout_ms=30_000)[0].value == b"x"
        assert consumer.position(("t", 0), timedelta(seconds=30)) == 1
