"""One consumer of a group that says what happens to it: a process, made to leave, to be killed and to be stopped.

    python -m tests.soak.member CLIENT NAME BOOTSTRAP GROUP TOPIC [property=value ...]

It leaves when its standard input ends. Lines are `TIME WHAT NUMBERS`, the time from the machine's monotonic
clock in nanoseconds, partitions as numbers:

    assigned P ...            new ones, besides those it has
    revoked P ...             taken; it still had them
    lost P ...                the group went on without it (aiokafka says revoked)
    read P FIRST LAST
    committed P OFFSET TIME   acknowledged; the request left after TIME
    refused REASON            a commit
    leaving, left, failed REASON
    stalled MILLISECONDS      the process did not run for so long
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

_BATCH = 50
_STALL_S = 1.0  # worth telling
# kafka-python drops a join that ends between two polls: it joins again, and reads on where it was before
# even if another member had the partition meanwhile, with any broker (docs/compatibility.md).
_JOINS_MS = 2000
Due = dict[int, int]  # by partition: read and not committed yet, as a commit amid a rebalance is refused
leaving = threading.Event()


def say(what: str, *rest: object) -> None:
    line = " ".join((str(time.monotonic_ns()), what, *map(str, rest)))
    os.write(1, line.encode() + b"\n")  # in one piece and at once


def said_commit(due: Due, partition: int, offset: int, begun: int) -> None:
    say("committed", partition, offset, begun)
    if due.get(partition) == offset:
        del due[partition]


def confluent(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    consumer = Consumer({**config, **settings})
    due: Due = {}
    rejoins = settings.get("partition.assignment.strategy") == "cooperative-sticky"
    incremental = rejoins or settings.get("group.protocol") == "consumer"

    def on_assign(_: Any, partitions: list[TopicPartition]) -> None:
        say("assigned", *(each.partition for each in partitions))
        (consumer.incremental_assign if incremental else consumer.assign)(partitions)

    def on_revoke(_: Any, partitions: list[TopicPartition]) -> None:
        say("revoked", *(each.partition for each in partitions))
        give_up(partitions)

    def on_lost(_: Any, partitions: list[TopicPartition]) -> None:
        say("lost", *(each.partition for each in partitions))
        give_up(partitions)

    def give_up(partitions: list[TopicPartition]) -> None:
        for each in partitions:
            due.pop(each.partition, None)
        if incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not leaving.is_set():
        messages = [each for each in consumer.consume(_BATCH, 0.05) if not each.error()]
        read: dict[int, list[int]] = {}
        for each in messages:
            read.setdefault(each.partition(), []).append(each.offset())
        for partition, offsets in read.items():
            say("read", partition, offsets[0], offsets[-1])
            due[partition] = offsets[-1] + 1
        if due:
            begun = time.monotonic_ns()
            wanted = [TopicPartition(topic, partition, offset) for partition, offset in due.items()]
            try:
                done = consumer.commit(offsets=wanted, asynchronous=False) or []
            except KafkaException as error:
                say("refused", error.args[0].name())
                continue
            for each in done:
                if each.error is None:
                    said_commit(due, each.partition, each.offset, begun)
    say("leaving")
    consumer.close()


def kafka_python(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    import kafka
    from kafka.errors import KafkaError

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=6000, heartbeat_interval_ms=500, max_poll_records=_BATCH, reconnect_backoff_max_ms=200,
        partition_assignment_strategy=[kafka.coordinator.assignors.range.RangePartitionAssignor],
    )  # fmt: skip

    due: Due = {}

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            say("revoked", *(each.partition for each in revoked))
            due.clear()

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            say("lost", *(each.partition for each in lost))
            due.clear()

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            say("assigned", *(each.partition for each in assigned))
            due.clear()

    consumer.subscribe([topic], listener=Listener())
    consumer.partitions_for_topic(topic)  # `tests.compat.members` says why
    while not leaving.is_set():
        polled = consumer.poll(_JOINS_MS)
        for where, messages in polled.items():
            say("read", where.partition, messages[0].offset, messages[-1].offset)
            due[where.partition] = messages[-1].offset + 1
        if wanted := dict(due):
            begun = time.monotonic_ns()
            offsets = {
                kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
                for partition, offset in wanted.items()
            }
            try:
                consumer.commit(offsets)
            except KafkaError as error:
                say("refused", type(error).__name__)
                continue
            for partition, offset in wanted.items():
                said_commit(due, partition, offset, begun)
    say("leaving")
    consumer.close(autocommit=False)


def aiokafka(bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
    asyncio.run(_aiokafka(bootstrap, group, topic))


async def _aiokafka(bootstrap: str, group: str, topic: str) -> None:
    import aiokafka as client
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    consumer = client.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        session_timeout_ms=6000, heartbeat_interval_ms=500, partition_assignment_strategy=(RangePartitionAssignor,),
    )  # fmt: skip

    due: Due = {}

    class Listener(client.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            say("revoked", *(each.partition for each in revoked))
            due.clear()

        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            say("assigned", *(each.partition for each in assigned))
            due.clear()

    consumer.subscribe([topic], listener=Listener())
    await consumer.start()
    while not leaving.is_set():
        polled = await consumer.getmany(timeout_ms=50, max_records=_BATCH)
        for where, messages in polled.items():
            say("read", where.partition, messages[0].offset, messages[-1].offset)
            due[where.partition] = messages[-1].offset + 1
        if wanted := dict(due):
            begun = time.monotonic_ns()
            try:
                await consumer.commit({client.TopicPartition(topic, each): due[each] for each in wanted})
            except KafkaError as error:
                say("refused", type(error).__name__)
                continue
            for partition, offset in wanted.items():
                said_commit(due, partition, offset, begun)
    say("leaving")
    await consumer.stop()


CLIENTS: dict[str, Callable[[str, str, str, dict[str, str]], None]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def _watch_time() -> None:
    last = time.monotonic()
    while True:
        time.sleep(0.1)
        now = time.monotonic()
        if now - last > _STALL_S:
            say("stalled", int((now - last) * 1000))
        last = now


def _watch_input() -> None:
    while os.read(0, 100):
        pass
    leaving.set()


if __name__ == "__main__":
    client, _, *names = sys.argv[1:5] + sys.argv[5:6]
    threading.Thread(target=_watch_input, daemon=True).start()
    threading.Thread(target=_watch_time, daemon=True).start()
    try:
        CLIENTS[client](*names, dict(each.split("=", 1) for each in sys.argv[6:]))  # type: ignore[arg-type, call-arg]
    except BaseException as error:
        say("failed", repr(error).replace("\n", " "))
        os._exit(1)
    say("left")
