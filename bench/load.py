"""Load by confluent-kafka, the fastest public client, so that the broker is what is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    size: int,
    partitions: int,
    codec: str = "none",
    client: Mapping[str, str] | None = None,
) -> float:
    """Write `count` records, acks=all, and give the seconds until the last is acknowledged. `client` is what it
    takes to get in, where that is more than an address."""
    producer = Producer(
        {
            **(client or {"bootstrap.servers": bootstrap}),
            "log_level": 0,
            "acks": "all",
            "linger.ms": 5,
            "compression.type": codec,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    producer.list_topics(topic, 30)  # the connection is not what is measured
    values = _values(size, codec)
    begun = time.perf_counter()
    for i in range(count):
        while True:
            try:
                producer.produce(topic, values[i & 63], partition=i % partitions)
                break
            except BufferError:
                producer.poll(0.01)
        if not i & 1023:
            producer.poll(0)
    if (left := producer.flush(600)) > 0:
        raise RuntimeError(f"{left} records were not acknowledged")
    return time.perf_counter() - begun


def consume(
    bootstrap: str, topic: str, count: int, partitions: int, client: Mapping[str, str] | None = None
) -> float:
    """Read `count` records from the start and give the seconds."""
    consumer = Consumer(
        {
            **(client or {"bootstrap.servers": bootstrap}),
            "log_level": 0,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 1 << 18,
            "fetch.max.bytes": 64 << 20,
            "max.partition.fetch.bytes": 8 << 20,
            "fetch.queue.backoff.ms": 1,  # else it rests for a second whenever its queue is full
        }
    )
    begun = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    read = 0
    while read < count:
        messages = consumer.consume(10_000, 30)
        if not messages:
            raise RuntimeError(f"only {read} of {count} records came")
        read += len(messages)
    took = time.perf_counter() - begun
    consumer.close()
    return took


def synchronous_sends(bootstrap: str, topic: str, count: int, size: int = 100) -> list[float]:
    """One record after another, each waited for; seconds of each."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": "all",
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )
    took = []
    for i in range(count + 50):
        begun = time.perf_counter()
        producer.produce(topic, b"v" * size, partition=0, on_delivery=_must_arrive)
        producer.flush(30)
        if i >= 50:
            took.append(time.perf_counter() - begun)
    return took


def _must_arrive(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _values(size: int, codec: str) -> list[bytes]:
    """Some variety, so that a codec has something to do and something to find."""
    words = [b"pressure", b"pulse", b"device", b"patient", b"heartbeat", b"battery", b"online", b"alert"]
    values = []
    for i in range(64):
        text = b" ".join(words[(i * 7 + j * j) % 8] + str(i * j * 31).encode() for j in range(size // 8 + 1))
        values.append(text[:size].ljust(size, b"."))
    return values
