"""FastStream: the application as it is, on a real broker instead of a mock of one."""

import asyncio

import pytest

pytest.importorskip("faststream")

from faststream.confluent import KafkaBroker

from ottla.testing import Broker


def application(bootstrap: str) -> KafkaBroker:
    """The code under test: doubles numbers."""
    app = KafkaBroker(bootstrap, logger=None)

    @app.subscriber("numbers", group_id="doublers", auto_offset_reset="earliest")
    @app.publisher("doubles")
    async def double(number: int) -> int:
        return number * 2

    return app


def test_numbers_are_doubled(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("numbers")
    ottla_broker.create_topic("doubles")

    async def scenario() -> None:
        async with application(ottla_broker.bootstrap) as app:
            await app.start()
            await app.publish(21, "numbers")
            await ottla_broker.until(lambda: ottla_broker.records("doubles"), 20)

    asyncio.run(scenario())
    (found,) = ottla_broker.records("doubles", value=int)
    assert found.value == 42
    assert ottla_broker.group("doublers").assigned == {} or ottla_broker.group("doublers").lag == 0
