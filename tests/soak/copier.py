"""Consume, transform, produce, exactly once, with random aborts: one process, made to be killed.

python -m tests.soak.copier CLIENT BOOTSTRAP INPUT OUTPUT GROUP TRANSACTIONAL_ID SEED
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

LOGIN = "COPIER_LOGIN"  # in the environment: what our own client sets besides, as JSON
_ABORTS = 0.2
_BATCH = 100


def confluent(bootstrap: str, source: str, target: str, group: str, name: str, chance: random.Random) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 10_000,
            "linger.ms": 2,
        }
        | {"reconnect.backoff.max.ms": 200, "log_level": 0}
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
        | {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "reconnect.backoff.max.ms": 200,
        }
        | {"heartbeat.interval.ms": 500, "log_level": 0}
    )
    producer.init_transactions(60)
    consumer.subscribe([source])

    def rewind() -> None:
        for each in consumer.committed(consumer.assignment(), 30):
            consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))

    while True:
        messages = [each for each in consumer.consume(_BATCH, 0.2) if not each.error()]
        if not messages:
            continue
        try:
            producer.begin_transaction()
            for each in messages:
                producer.produce(target, each.value(), partition=each.partition())
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(
                [each for each in offsets if each.offset >= 0], consumer.consumer_group_metadata(), 30
            )
            if chance.random() < _ABORTS:
                producer.abort_transaction(30)
                rewind()
            else:
                producer.commit_transaction(30)
        except KafkaException as error:
            if error.args[0].fatal() or not error.args[0].txn_requires_abort():
                raise  # the supervisor starts another one
            producer.abort_transaction(30)
            rewind()


def ottla(bootstrap: str, source: str, target: str, group: str, name: str, chance: random.Random) -> None:
    """Our own API."""
    from ottla import Consumer, OttlaError, Producer

    login = json.loads(os.environ.get(LOGIN, "{}"))
    settings = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, **login}
    producer = Producer(settings, transactional_id=name, transaction_timeout_ms=10_000, linger_ms=2)
    consumer = Consumer(
        settings,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    producer.init_transactions()
    consumer.subscribe(source)

    def rewind() -> None:
        committed = consumer.committed()
        for each in consumer.assignment():
            consumer.seek(each, committed[each].offset if each in committed else 0)

    while True:
        records = consumer.poll(0.2, max_records=_BATCH)
        if not records:
            continue
        try:
            producer.begin_transaction()
            for each in records:
                producer.send(target, each.value, partition=each.partition)
            positions = {p: consumer.position(p) for p in consumer.assignment()}
            producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            if chance.random() < _ABORTS:
                producer.abort_transaction()
                rewind()
            else:
                producer.commit_transaction()
        except OttlaError:
            producer.abort_transaction()  # raises where there is no going on: the supervisor starts another
            rewind()


def kafka_python(
    bootstrap: str, source: str, target: str, group: str, name: str, chance: random.Random
) -> None:
    import kafka

    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=10_000
    )
    consumer = kafka.KafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
        max_poll_records=_BATCH,
    )
    # It must not forget a join, or it copies again what the other one has: `tests.soak.member` says how.
    consumer.partitions_for_topic(source)
    producer.init_transactions()
    while True:
        polled = consumer.poll(2000)
        if not polled:
            continue
        producer.begin_transaction()
        offsets = {}
        for where, messages in polled.items():
            for each in messages:
                producer.send(target, each.value, partition=each.partition)
            offsets[where] = kafka.OffsetAndMetadata(messages[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        if chance.random() < _ABORTS:
            producer.abort_transaction()
            for where, messages in polled.items():
                consumer.seek(where, messages[0].offset)
        else:
            producer.commit_transaction()


def aiokafka(bootstrap: str, source: str, target: str, group: str, name: str, chance: random.Random) -> None:
    asyncio.run(_aiokafka(bootstrap, source, target, group, name, chance))


async def _aiokafka(
    bootstrap: str, source: str, target: str, group: str, name: str, chance: random.Random
) -> None:
    import aiokafka as client

    producer = client.AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=10_000
    )
    consumer = client.AIOKafkaConsumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=500,
    )
    await producer.start()
    await consumer.start()
    while True:
        polled: dict[Any, Any] = await consumer.getmany(timeout_ms=200, max_records=_BATCH)
        if not polled:
            continue
        await producer.begin_transaction()
        for messages in polled.values():
            for each in messages:
                await producer.send(target, each.value, partition=each.partition)
        offsets = {where: messages[-1].offset + 1 for where, messages in polled.items()}
        await producer.send_offsets_to_transaction(offsets, group)
        if chance.random() < _ABORTS:
            await producer.abort_transaction()
            for where, messages in polled.items():
                consumer.seek(where, messages[0].offset)
        else:
            await producer.commit_transaction()


CLIENTS: dict[str, Callable[[str, str, str, str, str, random.Random], None]] = {
    "ottla": ottla,
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
# aiokafka sends offsets without a generation, which cannot fence a copier that lost its partitions meanwhile.
JAVA = "java"  # its copier is a program of its own: Copier.java
COPIERS = {"ottla": 2, "confluent-kafka": 2, "kafka-python": 2, "aiokafka": 1, JAVA: 2}


if __name__ == "__main__":
    client, *names, seed = sys.argv[1:]
    faulthandler.register(signal.SIGUSR1)  # says where it is, if one seems stuck
    try:
        CLIENTS[client](*names, random.Random(int(seed)))  # type: ignore[arg-type, call-arg]
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # at once: closing in good order would wait for what just failed
