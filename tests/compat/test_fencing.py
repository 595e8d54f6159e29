"""Two producers with one transactional id: the older one gets the error that Apache Kafka gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.compat.clients import Confluent
from tests.conftest import Target
from tests.oracle.transactions import wait_for_markers
from tests.soak.kills import read_all

Unique = Callable[[str], str]
Fence = Callable[[str, str, str], str]


def _by_confluent(bootstrap: str, name: str, topic: str) -> str:
    def producer() -> confluent_kafka.Producer:
        made = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        made.init_transactions(60)
        return made

    old = producer()
    old.begin_transaction()
    old.produce(topic, b"old", partition=0)
    old.flush(60)
    new = producer()
    try:
        old.commit_transaction(60)
    except confluent_kafka.KafkaException as error:
        new.begin_transaction()
        new.produce(topic, b"new", partition=0)
        new.commit_transaction(60)
        return f"{error.args[0].name()} fatal={error.args[0].fatal()}"
    return "nothing"


def _by_kafka_python(bootstrap: str, name: str, topic: str) -> str:
    def producer() -> kafka.KafkaProducer:
        made = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
        made.init_transactions()
        return made

    old = producer()
    old.begin_transaction()
    old.send(topic, b"old", partition=0).get(30)
    new = producer()
    try:
        old.commit_transaction()
    except kafka.errors.KafkaError as error:
        new.begin_transaction()
        new.send(topic, b"new", partition=0)
        new.commit_transaction()
        return type(error).__name__
    finally:
        old.close(1)
        new.close()
    return "nothing"


def _by_aiokafka(bootstrap: str, name: str, topic: str) -> str:
    async def run() -> str:
        old, new = (
            aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) for _ in "12"
        )
        await old.start()
        await old.begin_transaction()
        await old.send_and_wait(topic, b"old", partition=0)
        await new.start()
        try:
            await old.commit_transaction()
        except aiokafka.errors.KafkaError as error:
            await new.begin_transaction()
            await new.send_and_wait(topic, b"new", partition=0)
            await new.commit_transaction()
            return type(error).__name__
        finally:
            await old.stop()
            await new.stop()
        return "nothing"

    return asyncio.run(run())


CLIENTS: dict[str, Fence] = {
    "confluent-kafka": _by_confluent,
    "kafka-python": _by_kafka_python,
    "aiokafka": _by_aiokafka,
}


@pytest.mark.parametrize("fence", CLIENTS.values(), ids=CLIENTS.keys())
def test_the_older_producer_hears_the_same_on_both(
    both: dict[str, Target], fence: Fence, unique: Unique
) -> None:
    topic, name, heard = unique("fencing"), unique("producer"), {}
    for server, target in both.items():
        Confluent(target.bootstrap).create(topic)
        heard[server] = fence(target.bootstrap, name, topic)
        wait_for_markers(target.bootstrap, topic)
        committed = read_all(target.bootstrap, topic, 0, **{"isolation.level": "read_committed"})
        assert committed == [b"new"], heard
    assert len(set(heard.values())) == 1, heard
    assert "nothing" not in heard.values()
