"""Record by record: `ottla.Producer` and `ottla.Consumer` beside the public clients, on one Ottla broker.

    python -m bench.api [--records N] [--size BYTES] [--rounds N] [--clients NAME ...] [--write]

Every client sends and reads the same records one at a time, as a course's loop does, with its own defaults but
acks=all, no compression, and batches of the same size. Only the ratio within one run counts: the machine is shared.
The processor time of the client, all its threads, depends on others' load the least. `--write` puts the table
into docs/benchmarks.md; under five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench import conditions, document
from bench.measure import make_topic
from tests.oracle.ottla import Ottla

PARTITIONS = 4
BATCH_BYTES = 131_072
LINGER_MS = 5
ARROW_TIMES = 10  # as many records for Arrow, which would be done before the clock has moved
Run = Callable[[str, str, int, int], float]  # bootstrap, topic, records, size -> seconds
_HEAD = ("client", "produce, k/s", "consume, k/s", "us of processor a send", "us of processor a read")
_INTRO = """Records of {size} bytes, one by one, to and from one Ottla broker with {partitions} partitions; medians of
{rounds} rounds of {records:,} records. "Arrow" is `send_batch` and `poll_arrow`."""


@dataclass(slots=True)
class Figures:
    rates: list[float] = field(default_factory=list)  # records a second
    costs: list[float] = field(default_factory=list)  # seconds of processor a record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS), default=list(CLIENTS))
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    figures = {name: (Figures(), Figures()) for name in options.clients}
    conditions.prepare()
    with conditions.watched() as others, Ottla(options=["--memory"]) as server:
        for turn in range(options.rounds):
            for name in options.clients:
                topic = f"bench-{list(CLIENTS).index(name)}-{turn}"
                make_topic(server.bootstrap, topic, PARTITIONS)
                records = options.records * (ARROW_TIMES if "Arrow" in name else 1)
                for run, kept in zip(CLIENTS[name], figures[name], strict=True):
                    begun = time.process_time()
                    took = run(server.bootstrap, topic, records, options.size)
                    kept.rates.append(records / took)
                    kept.costs.append((time.process_time() - begun) / records)
    rows = [_row(name, *measured) for name, measured in figures.items()]
    print(document.table(_HEAD, rows))
    if options.write and conditions.may_write(others, options.rounds):
        intro = _INTRO.format(
            size=options.size, partitions=PARTITIONS, rounds=options.rounds, records=options.records
        )
        document.write("api", intro, _HEAD, rows)


def _row(name: str, wrote: Figures, read: Figures) -> tuple[str, ...]:
    rates = [f"{statistics.median(each.rates) / 1000:,.0f}" for each in (wrote, read)]
    costs = [f"{statistics.median(each.costs) * 1e6:.2f}" for each in (wrote, read)]
    return (name, *rates, *costs)


def _timed(work: Callable[[], None]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


# -- ours ------------------------------------------------------------------------------------------


def ottla_produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    import ottla

    value = b"x" * size
    with ottla.Producer(bootstrap_servers=bootstrap, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
        producer.partitions_for(topic)

        def work() -> None:
            for _ in range(records):
                producer.send(topic, value)
            producer.flush()

        return _timed(work)


def ottla_consume(bootstrap: str, topic: str, records: int, size: int) -> float:
    import ottla

    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:

        def work() -> None:
            consumer.assign([(topic, p) for p in range(PARTITIONS)])
            seen = 0
            while seen < records:
                for record in consumer.poll(1.0):
                    seen += record.value is not None

        return _timed(work)


def ottla_aio_produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    from ottla import aio

    value = b"x" * size

    async def run() -> float:
        settings = {"bootstrap.servers": bootstrap, "batch.size": BATCH_BYTES, "linger.ms": LINGER_MS}
        async with aio.Producer(settings) as producer:
            await producer.partitions_for(topic)
            begun = time.perf_counter()
            for _ in range(records):
                await producer.send(topic, value)
            await producer.flush()
            return time.perf_counter() - begun

    return asyncio.run(run())


def ottla_aio_consume(bootstrap: str, topic: str, records: int, size: int) -> float:
    from ottla import aio

    async def run() -> float:
        async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            begun = time.perf_counter()
            await consumer.assign([(topic, p) for p in range(PARTITIONS)])
            seen = 0
            while seen < records:
                for record in await consumer.poll(1.0):
                    seen += record.value is not None
            return time.perf_counter() - begun

    return asyncio.run(run())


def arrow_produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    import pyarrow as pa

    import ottla

    step = min(records, 50_000)
    rows = pa.record_batch({"value": pa.array([b"x" * size] * step, pa.binary())})
    with ottla.Producer(bootstrap_servers=bootstrap) as producer:
        producer.partitions_for(topic)

        def work() -> None:
            for first in range(0, records, step):
                producer.send_batch(rows.slice(0, min(step, records - first)), topic)
            producer.flush()

        return _timed(work)


def arrow_consume(bootstrap: str, topic: str, records: int, size: int) -> float:
    import ottla

    with ottla.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:

        def work() -> None:
            consumer.assign([(topic, p) for p in range(PARTITIONS)])
            seen = 0
            while seen < records:
                seen += consumer.poll_arrow(1.0).num_rows

        return _timed(work)


# -- the public clients ----------------------------------------------------------------------------


def confluent_produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    import confluent_kafka

    value = b"x" * size
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": BATCH_BYTES,
            "linger.ms": LINGER_MS,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(topic, 10)

    def work() -> None:
        for _ in range(records):
            producer.produce(topic, value)
            producer.poll(0)
        producer.flush()

    return _timed(work)


def confluent_consume(bootstrap: str, topic: str, records: int, size: int) -> float:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "auto.offset.reset": "earliest"}
    )

    def work() -> None:
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        seen = 0
        while seen < records:
            message = consumer.poll(1.0)
            seen += message is not None and message.value() is not None

    took = _timed(work)
    consumer.close()
    return took


def kafka_python_produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    import kafka

    value = b"x" * size
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, batch_size=BATCH_BYTES, linger_ms=LINGER_MS, acks="all"
    )
    producer.partitions_for(topic)

    def work() -> None:
        for _ in range(records):
            producer.send(topic, value)
        producer.flush()

    took = _timed(work)
    producer.close()
    return took


def kafka_python_consume(bootstrap: str, topic: str, records: int, size: int) -> float:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")

    def work() -> None:
        consumer.assign([kafka.TopicPartition(topic, p) for p in range(PARTITIONS)])
        seen = 0
        while seen < records:
            for batch in consumer.poll(1_000).values():
                for record in batch:
                    seen += record.value is not None

    took = _timed(work)
    consumer.close()
    return took


def aiokafka_produce(bootstrap: str, topic: str, records: int, size: int) -> float:
    import aiokafka

    value = b"x" * size

    async def run() -> float:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            max_batch_size=BATCH_BYTES,
            linger_ms=LINGER_MS,
            enable_idempotence=True,
        )
        await producer.start()
        begun = time.perf_counter()
        for _ in range(records):
            await producer.send(topic, value)
        await producer.flush()
        took = time.perf_counter() - begun
        await producer.stop()
        return took

    return asyncio.run(run())


def aiokafka_consume(bootstrap: str, topic: str, records: int, size: int) -> float:
    import aiokafka

    async def run() -> float:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        begun = time.perf_counter()
        consumer.assign([aiokafka.TopicPartition(topic, p) for p in range(PARTITIONS)])
        seen = 0
        while seen < records:
            for batch in (await consumer.getmany(timeout_ms=1_000)).values():
                for record in batch:
                    seen += record.value is not None
        took = time.perf_counter() - begun
        await consumer.stop()
        return took

    return asyncio.run(run())


CLIENTS: dict[str, tuple[Run, Run]] = {
    "ottla": (ottla_produce, ottla_consume),
    "ottla.aio": (ottla_aio_produce, ottla_aio_consume),
    "ottla, Arrow": (arrow_produce, arrow_consume),
    "confluent-kafka": (confluent_produce, confluent_consume),
    "kafka-python": (kafka_python_produce, kafka_python_consume),
    "aiokafka": (aiokafka_produce, aiokafka_consume),
}


if __name__ == "__main__":
    main()
