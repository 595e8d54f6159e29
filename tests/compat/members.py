"""Consumers of a group in threads, one class per client, for scenarios that watch who owns and reads what."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiokafka
import confluent_kafka
import kafka

from tests.oracle.cluster import start_tool

SETTLE_S = 120.0
SESSION_MS = 45_000  # a member that waits for the processor is not a member that is gone


class Member(threading.Thread):
    """Reads and commits until told to leave, or to crash: then it goes without a word."""

    client = ""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **settings: Any) -> None:
        super().__init__(name=f"{self.client} in {group}")
        self.address, self.group, self.topics, self.settings = bootstrap, group, topics, settings
        self.leaving = threading.Event()
        self.crashing = threading.Event()
        self.owned: frozenset[tuple[str, int]] = frozenset()
        self.read: list[tuple[str, int, int]] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failed = error
        self.owned = frozenset()

    def work(self) -> None:
        raise NotImplementedError

    @property
    def is_asked_to_end(self) -> bool:
        return self.leaving.is_set() or self.crashing.is_set()

    def leave(self) -> None:
        self.leaving.set()
        self.join(SETTLE_S)


class ConfluentMember(Member):
    client = "confluent-kafka"

    def work(self) -> None:
        config = {
            "bootstrap.servers": self.address,
            "group.id": self.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
            "metadata.max.age.ms": 1000,
        }
        if self.settings.get("group.protocol") != "consumer":
            config |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 300}
        consumer = confluent_kafka.Consumer({**config, **self.settings})
        consumer.subscribe(self.topics)
        while not self.is_asked_to_end:
            message = consumer.poll(0.02)
            self.owned = frozenset((each.topic, each.partition) for each in consumer.assignment())
            if message is not None and not message.error():
                self.read.append((message.topic(), message.partition(), message.offset()))
                consumer.commit(message, asynchronous=True)
        if self.crashing.is_set():
            return
        consumer.close()


class KafkaPythonMember(Member):
    """Knows the partitions before it joins, or it may be lost, with any broker (docs/compatibility.md).

    kafka-python 3.0.12 joins again when the leader learns of partitions after it has assigned; a poll whose
    time ends between that assignment and the answer to SyncGroup forgets the join: heartbeats stay off.
    """

    client = "kafka-python"

    def work(self) -> None:
        consumer = kafka.KafkaConsumer(
            *self.topics,
            bootstrap_servers=self.address,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            metadata_max_age_ms=1000,
            **self.settings,
        )
        for topic in self.topics:
            consumer.partitions_for_topic(topic)
        while not self.is_asked_to_end:
            polled = consumer.poll(200)  # a join that ends between two polls is dropped and made again
            self.owned = frozenset((each.topic, each.partition) for each in consumer.assignment())
            self.read += [(m.topic, m.partition, m.offset) for messages in polled.values() for m in messages]
            if polled:
                consumer.commit_async()
        consumer.close(autocommit=False)


class AioKafkaMember(Member):
    client = "aiokafka"

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            *self.topics,
            bootstrap_servers=self.address,
            group_id=self.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
            metadata_max_age_ms=1000,
            **self.settings,
        )
        await consumer.start()
        while not self.is_asked_to_end:
            polled: dict[Any, Any] = await consumer.getmany(timeout_ms=20)
            self.owned = frozenset((each.topic, each.partition) for each in consumer.assignment())
            self.read += [(m.topic, m.partition, m.offset) for messages in polled.values() for m in messages]
            if polled:
                await consumer.commit()
        await consumer.stop()


PYTHON = (ConfluentMember, KafkaPythonMember, AioKafkaMember)


@contextmanager
def group_of(*members: Member) -> Iterator[list[Member]]:
    """Started, and ended whatever happens; whoever failed is told."""
    everyone = list(members)
    for each in everyone:
        each.start()
    try:
        yield everyone
    finally:
        for each in everyone:
            each.leaving.set()
        for each in everyone:
            each.join(SETTLE_S)
    failures = [f"{each.name}: {each.failed!r}" for each in everyone if each.failed]
    assert not failures, failures


def wait_until(holds: Callable[[], bool], what: str, seconds: float = SETTLE_S) -> float:
    """Seconds it took; polling, as a group cannot be asked to call back."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return time.monotonic() - begun


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """What the group's coordinator knows, by partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    asked = [confluent_kafka.TopicPartition(topic, partition) for partition in range(partitions)]
    offsets = [each.offset for each in consumer.committed(asked, SETTLE_S)]
    consumer.close()
    return offsets


def is_spread(members: list[Member], partitions: int) -> bool:
    """Every partition has one owner, and nobody has many more than another."""
    owned = [each.owned for each in members]
    counts = sorted(map(len, owned))
    return sum(counts) == len(frozenset().union(*owned)) == partitions and counts[-1] - counts[0] <= 1


@contextmanager
def java_consumer(
    bootstrap: str, group: str, topic: str, **properties: str
) -> Iterator[subprocess.Popen[str]]:
    """The console consumer, which prints what it reads."""
    options = [
        each for name, value in properties.items() for each in ("--command-property", f"{name}={value}")
    ]
    process = start_tool(
        "kafka-console-consumer", "--bootstrap-server", bootstrap, "--group", group, "--topic", topic,
        "--from-beginning", *options, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)
        if process.stdout is not None:
            process.stdout.close()
