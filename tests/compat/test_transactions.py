"""Transactions through the public clients, on both servers alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.compat.clients import Confluent
from tests.conftest import Target
from tests.oracle.cluster import run_tool
from tests.oracle.transactions import wait_for_markers
from tests.soak.kills import read_all

Unique = Callable[[str], str]
Transact = Callable[[str, str, str, bytes, bool], None]


def _by_confluent(bootstrap: str, name: str, topic: str, value: bytes, commit: bool) -> None:
    producer = _producer(bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    producer.flush(60)
    if commit:
        producer.commit_transaction(60)
    else:
        producer.abort_transaction(60)


def _by_kafka_python(bootstrap: str, name: str, topic: str, value: bytes, commit: bool) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value, partition=0).get(30)
    if commit:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    producer.close()


def _by_aiokafka(bootstrap: str, name: str, topic: str, value: bytes, commit: bool) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait(topic, value, partition=0)
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
        await producer.stop()

    asyncio.run(run())


CLIENTS: dict[str, Transact] = {
    "confluent-kafka": _by_confluent,
    "kafka-python": _by_kafka_python,
    "aiokafka": _by_aiokafka,
}


@pytest.mark.parametrize("transact", CLIENTS.values(), ids=CLIENTS.keys())
def test_only_what_was_committed_is_read(target: Target, transact: Transact, unique: Unique) -> None:
    topic, name = unique("committed"), unique("producer")
    Confluent(target.bootstrap).create(topic)
    for value, commit in ((b"one", True), (b"two", False), (b"three", True)):
        transact(target.bootstrap, name, topic, value, commit)
    wait_for_markers(target.bootstrap, topic)
    assert read_all(target.bootstrap, topic, 0, **{"isolation.level": "read_committed"}) == [b"one", b"three"]
    uncommitted = read_all(target.bootstrap, topic, 0, **{"isolation.level": "read_uncommitted"})
    assert uncommitted == [b"one", b"two", b"three"]


def test_the_older_of_two_producers_is_fenced(target: Target, unique: Unique) -> None:
    topic, name = unique("fenced"), unique("producer")
    Confluent(target.bootstrap).create(topic)
    old = _producer(target.bootstrap, name)
    old.begin_transaction()
    old.produce(topic, b"late")
    old.flush(60)
    new = _producer(target.bootstrap, name)
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(60)
    assert caught.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    new.begin_transaction()
    new.produce(topic, b"new")
    new.commit_transaction(60)
    wait_for_markers(target.bootstrap, topic)
    assert read_all(target.bootstrap, topic, 0, **{"isolation.level": "read_committed"}) == [b"new"]


def test_offsets_are_part_of_the_transaction(target: Target, unique: Unique) -> None:
    topic, group = unique("offsets"), unique("group")
    Confluent(target.bootstrap).create(topic)
    producer = _producer(target.bootstrap, unique("producer"))
    consumer = confluent_kafka.Consumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    where = confluent_kafka.TopicPartition(topic, 0, 5)
    for commit, expected in ((False, -1001), (True, 5)):
        producer.begin_transaction()
        producer.produce(topic, b"v")
        producer.send_offsets_to_transaction([where], consumer.consumer_group_metadata(), 30)
        if commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
        assert consumer.committed([confluent_kafka.TopicPartition(topic, 0)], 30)[0].offset == expected
    consumer.close()


def test_an_open_transaction_holds_readers_back_and_times_out(target: Target, unique: Unique) -> None:
    topic = unique("timeout")
    client = Confluent(target.bootstrap)
    client.create(topic)
    plain = confluent_kafka.Producer({"bootstrap.servers": target.bootstrap})
    held, forgotten = (_producer(target.bootstrap, unique("producer"), ms) for ms in (300_000, 1000))
    for producer in (held, forgotten):
        producer.begin_transaction()
        producer.produce(topic, b"hanging")
        producer.flush(60)
        plain.produce(topic, b"behind")
        plain.flush(60)
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": target.bootstrap, "group.id": unique("g"), "isolation.level": "read_committed"}
    )
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    assert reader.poll(0.3) is None, "nothing passes an open transaction"
    held.abort_transaction(60)
    behind = [reader.poll(120) for _ in range(2)]
    assert [each and each.value() for each in behind] == [b"behind"] * 2, (
        "the coordinator aborts the other one"
    )
    reader.close()


@pytest.mark.slow
def test_kafka_transactions_lists_and_describes(target: Target, java: None, unique: Unique) -> None:
    topic, name = unique("tool"), unique("producer")
    Confluent(target.bootstrap).create(topic)
    producer = _producer(target.bootstrap, name, timeout_ms=600_000)  # two JVMs start while it is open
    producer.begin_transaction()
    producer.produce(topic, b"v")
    producer.flush(60)
    listed = run_tool("kafka-transactions", "--bootstrap-server", target.bootstrap, "list")
    (row,) = [line.split() for line in listed.splitlines() if line.startswith(name)]
    assert row[-1] == "Ongoing"
    described = run_tool(
        "kafka-transactions", "--bootstrap-server", target.bootstrap, "describe", "--transactional-id", name
    )
    assert f"{topic}-0" in described
    producer.abort_transaction(60)


def _producer(bootstrap: str, name: str, timeout_ms: int = 30_000) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": timeout_ms}
    )
    producer.init_transactions(60)
    return producer
