"""The same waits with aiokafka: one send after the other, and 1,000 records a second to a consumer that waits."""

from __future__ import annotations

import asyncio
import time

import aiokafka  # type: ignore[import-untyped]

from bench.measure import Benchmark, Measured, Metric, Peer, Scale, cpu_seconds, make_topic, percentile

RATE = 1000  # records a second
TIMEOUT_S = 60


def aiokafka_client(peer: Peer, scale: Scale) -> Measured:
    with peer.running() as server:
        for topic in ("warm-up", "sync", "e2e"):
            make_topic(server.bootstrap, topic, 1)
        asyncio.run(
            _synchronous_sends(server.bootstrap, "warm-up", scale(10_000, 2000))
        )  # a cold JVM is slow
        before_s = cpu_seconds(server.pid())
        count = scale(5000, 500)
        sends = asyncio.run(_synchronous_sends(server.bootstrap, "sync", count))
        used_s = cpu_seconds(server.pid()) - before_s
        before_s, began_s = cpu_seconds(server.pid()), time.perf_counter()
        trips = asyncio.run(_end_to_end(server.bootstrap, "e2e", scale(20_000, 3000)))
        share = (cpu_seconds(server.pid()) - before_s) / (time.perf_counter() - began_s)
    settled = trips[len(trips) // 10 :]
    return {
        Metric("aiokafka: one synchronous send p50", "ms", "lower"): percentile(sends, 0.5) * 1000,
        Metric("aiokafka: one synchronous send p99", "ms", "lower", "<= 0.7"): percentile(sends, 0.99) * 1000,
        Metric("aiokafka: one synchronous send, broker CPU", "ms", "lower", "<= 0.5"): used_s / count * 1000,
        Metric("aiokafka: end to end at 1,000 msg/s p50", "ms", "lower"): percentile(settled, 0.5) * 1000,
        Metric("aiokafka: end to end at 1,000 msg/s p99", "ms", "lower", "<= 0.5"): percentile(settled, 0.99)
        * 1000,
        Metric("aiokafka: end to end at 1,000 msg/s, broker CPU", "% of a core", "lower", "<= 0.4"): share
        * 100,
    }


async def _synchronous_sends(bootstrap: str, topic: str, count: int) -> list[float]:
    took_s = []
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for _ in range(count):
            began_s = time.perf_counter()
            await producer.send_and_wait(topic, b"v" * 100, partition=0)
            took_s.append(time.perf_counter() - began_s)
    return took_s


async def _end_to_end(bootstrap: str, topic: str, count: int) -> list[float]:
    is_reading = asyncio.Event()
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        await producer.send_and_wait(topic, b"0", partition=0)
        reader = asyncio.create_task(_read_times(bootstrap, topic, count, is_reading))
        await asyncio.wait_for(is_reading.wait(), TIMEOUT_S)
        began_s = time.perf_counter()
        for number in range(count):
            wait_s = began_s + number / RATE - time.perf_counter()
            await asyncio.sleep(max(wait_s, 0))
            await producer.send(topic, str(time.perf_counter()).encode(), partition=0)
        await producer.flush()
        return await asyncio.wait_for(reader, TIMEOUT_S)


async def _read_times(bootstrap: str, topic: str, count: int, is_reading: asyncio.Event) -> list[float]:
    took_s: list[float] = []
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        async for record in consumer:
            if is_reading.is_set():
                took_s.append(time.perf_counter() - float(record.value))
            is_reading.set()
            if len(took_s) == count:
                return took_s
    raise RuntimeError(f"only {len(took_s)} of {count} records came")


BENCHMARKS = (Benchmark("aiokafka", aiokafka_client),)
