"""aiokafka: coroutines under test, and a broker that crashes on them."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from ottla.testing import Broker


async def copy(bootstrap: str, source: str, target: str, count: int) -> None:
    """The code under test: copies records, in capitals."""
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id="copier",
        auto_offset_reset="earliest",
        retry_backoff_ms=20,
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, retry_backoff_ms=20)
    async with consumer, producer:
        for _ in range(count):
            record = await consumer.getone()
            await producer.send_and_wait(target, record.value.upper())


async def fill(bootstrap: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


def test_records_are_copied(ottla_broker: Broker) -> None:
    async def scenario() -> None:
        await fill(ottla_broker.bootstrap, "in", b"a", b"b")
        await copy(ottla_broker.bootstrap, "in", "out", 2)

    asyncio.run(scenario())
    assert [each.value for each in ottla_broker.records("out")] == [b"A", b"B"]


def test_a_restart_of_the_broker_is_survived(ottla_broker: Broker) -> None:
    async def scenario() -> None:
        bootstrap = ottla_broker.bootstrap
        copying = asyncio.create_task(copy(bootstrap, "in", "out", 2))
        await fill(bootstrap, "in", b"a")
        await ottla_broker.until(lambda: ottla_broker.topics().get("out") and ottla_broker.records("out"))
        await asyncio.to_thread(ottla_broker.crash)
        await asyncio.to_thread(ottla_broker.restart)
        await fill(bootstrap, "in", b"b")
        await asyncio.wait_for(copying, 30)

    asyncio.run(scenario())
    assert [each.value for each in ottla_broker.records("out")] == [b"A", b"B"]
