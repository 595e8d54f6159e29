"""Every setting that may change while a broker runs takes effect without a restart."""

import asyncio

import pytest

from ottla.broker.waits import Running
from ottla.config.broker import BROKER_KEYS
from ottla.config.definitions import Type, Update
from ottla.config.topic import TOPIC_KEYS
from ottla.storage.memory import MemoryDisk

from .nodes import BROKER, Client, broker, run

LENT = {key.synonyms[0].name for key in TOPIC_KEYS.values() if key.synonyms}
DYNAMIC = {name for name, key in BROKER_KEYS.items() if key.update is not Update.READ_ONLY}
OTHER = {
    Type.BOOLEAN: "true",
    Type.INT: "2000000",
    Type.LONG: "2000000",
    Type.DOUBLE: "0.25",
    Type.LIST: "compact",
}
OTHER_BY_NAME = {
    "compression.gzip.level": "5",
    "compression.lz4.level": "5",
    "compression.type": "lz4",
    "compression.zstd.level": "5",
    "log.message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "2",
}


async def changed(client, of="1", **settings):
    answer = await client.configure(BROKER, of, **settings)
    assert answer.error_code == 0, answer.error_message


async def a_second_client_is_refused(node, client):
    second = await Client.connect(node.listeners[0].port)
    try:
        assert await second.reader.read() == b""
    finally:
        await second.close()


async def a_shorter_pause_of_the_cleaner_is_felt_at_once(node, client):
    await changed(client, log_cleaner_backoff_ms="3600000")
    ran = asyncio.Event()
    housekeeping = node.broker.housekeeping
    interval_ms, _ = housekeeping._tasks["cleaner"]
    housekeeping._tasks["cleaner"] = interval_ms, ran.set
    await changed(client, log_cleaner_backoff_ms="1")
    await ran.wait()


async def a_topic_for_dead_letters_is_created(node, client, name="dlq.t"):
    checked = asyncio.get_running_loop().create_future()
    letters = node.broker.sharing.partitions._letters
    Running(letters._check_topic(name), lambda _, error: checked.set_result(error)).step()
    assert await checked is None
    assert name in node.broker.image.topics


async def a_topic_for_dead_letters_may_have_another_prefix(node, client):
    await changed(client, errors_deadletterqueue_auto_create_topics_enable="true")
    await a_topic_for_dead_letters_is_created(node, client, "late.t")


async def the_next_compaction_has_this_much_memory(node, client):
    node.broker.housekeeping.clean()
    assert node.broker.housekeeping._cleaner.key_map_bytes == 1 << 21


async def followers_are_throttled_at_this_rate(node, client):
    assert node.broker.throttles._following.rate == 1000


async def leaders_are_throttled_at_this_rate(node, client):
    assert node.broker.throttles._leading.rate == 1000


async def producers_are_forgotten_after_this(node, client):
    assert node.broker.replicas.partition("t", 0).log.config.producer_id_expiration_ms == 1000


async def connections_wait_for_their_turn(node, client):
    listener = node.listeners[0]
    assert any(listener._admission.admit(listener.name, "10.0.0.1").wait_ms for _ in range(100))


EFFECTS = {
    "errors.deadletterqueue.auto.create.topics.enable": ("true", a_topic_for_dead_letters_is_created),
    "errors.deadletterqueue.topic.name.prefix": (
        "late.",
        a_topic_for_dead_letters_may_have_another_prefix,
    ),
    "max.connections": ("1", a_second_client_is_refused),
    "max.connections.per.ip": ("1", a_second_client_is_refused),
    "max.connections.per.ip.overrides": ("127.0.0.1:1", a_second_client_is_refused),
    "max.connection.creation.rate": ("1", connections_wait_for_their_turn),
    "log.cleaner.backoff.ms": ("15000", a_shorter_pause_of_the_cleaner_is_felt_at_once),
    "log.cleaner.dedupe.buffer.size": (str(1 << 21), the_next_compaction_has_this_much_memory),
    "follower.replication.throttled.rate": ("1000", followers_are_throttled_at_this_rate),
    "leader.replication.throttled.rate": ("1000", leaders_are_throttled_at_this_rate),
    "producer.id.expiration.ms": ("1000", producers_are_forgotten_after_this),
}


def test_each_dynamic_setting_has_its_proof_here():
    assert set(EFFECTS) | LENT == DYNAMIC


@pytest.mark.parametrize("name", EFFECTS)
def test_a_change_takes_effect(name):
    value, check = EFFECTS[name]

    async def scenario():
        async with broker([MemoryDisk()]) as (node, client):
            await client.create("t")
            await changed(client, **{name.replace(".", "_"): value})
            await check(node, client)

    run(scenario())


def test_the_defaults_of_topics_change_under_open_logs():
    async def scenario():
        async with broker([MemoryDisk()]) as (node, client):
            await client.create("t")
            log = node.broker.replicas.partition("t", 0).log
            for name in sorted(LENT):
                before = log.config
                other = OTHER_BY_NAME.get(name) or OTHER[BROKER_KEYS[name].type]
                of = "" if name == "min.insync.replicas" else "1"  # brokers have none of their own
                await changed(client, of, **{name.replace(".", "_"): other})
                assert log.config != before, name

    run(scenario())
