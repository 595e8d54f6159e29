"""Our own API and confluent-kafka behind one face, so that a course's scenario is written once."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import confluent_kafka
import confluent_kafka.admin

import ottla
from ottla import errors

DEADLINE_S = 120.0
# Quick heartbeats: the scenarios are about who owns what, not about how long a busy group takes.
MEMBER = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "metadata.max.age.ms": 500}
CLASSIC = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 300}

Rows = Iterable[tuple[str | None, str | None]]
Choose = Callable[[str, bytes | None, int], int]  # of topic, key and how many partitions: a partitioner


class Seen(NamedTuple):
    partition: int
    offset: int
    key: str | None
    value: str | None
    topic: str = ""


class Member(Protocol):
    """One consumer of a group."""

    def poll(self, timeout: float = 0.2) -> list[Seen]: ...
    def owned(self) -> set[tuple[str, int]]: ...
    def commit(self) -> None: ...
    def commit_at(self, topic: str, partition: int, offset: int) -> None: ...
    def close(self) -> None: ...


class Api(Protocol):
    name: str
    bootstrap: str

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None: ...
    def grow(self, topic: str, partitions: int) -> None: ...
    def produce(self, topic: str, rows: Rows, *, at_ms: int | None = None, **settings: Any) -> list[int]: ...
    def records(self, topic: str, **settings: Any) -> list[Seen]: ...
    def member(self, group: str, topics: list[str], **settings: Any) -> Member: ...
    def committed(self, group: str, topic: str, partition: int) -> int | None: ...
    def ends(self, topic: str, partition: int) -> tuple[int, int]: ...


class Ours:
    name = "ottla-api"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        with self.admin() as admin:
            admin.create_topic(topic, partitions, 1, configs)
        until_seen(self.bootstrap, topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        with self.admin() as admin:
            admin.add_partitions(topic, partitions)
        until_seen(self.bootstrap, topic, partitions)

    def admin(self) -> ottla.Admin:
        return ottla.Admin(bootstrap_servers=self.bootstrap)

    def produce(self, topic: str, rows: Rows, *, at_ms: int | None = None, **settings: Any) -> list[int]:
        """The partition of each."""
        with ottla.Producer(settings, bootstrap_servers=self.bootstrap) as producer:
            sent = [producer.send(topic, value, key, timestamp=at_ms) for key, value in rows]
            return [each.result(DEADLINE_S).partition for each in sent]

    def records(self, topic: str, **settings: Any) -> list[Seen]:
        """All that can be read of partition 0 now."""
        where = ottla.TopicPartition(topic, 0)
        settings = {"auto.offset.reset": "earliest", **settings}
        with ottla.Consumer(settings, bootstrap_servers=self.bootstrap) as consumer:
            consumer.assign([where])
            end, seen = consumer.end_offsets([where])[where], list[Seen]()
            deadline = time.monotonic() + DEADLINE_S
            while consumer.position(where) < end:
                assert time.monotonic() < deadline, f"{topic} was not read to its end"
                seen += [_seen(record) for record in consumer.poll(0.5)]
            return seen

    def member(self, group: str, topics: list[str], **settings: Any) -> OurMember:
        return OurMember(
            {**MEMBER, **settings, "bootstrap.servers": self.bootstrap, "group.id": group}, topics
        )

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        with self.admin() as admin:
            where = ottla.TopicPartition(topic, partition)
            found = admin.group_offsets(group, [where], require_stable=True).get(where)
            return None if found is None else found.offset

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        with self.admin() as admin:
            where = ottla.TopicPartition(topic, partition)
            return tuple(admin.list_offsets({where: at})[where].offset for at in (-2, -1))  # type: ignore[return-value]


class OurMember:
    def __init__(self, settings: dict[str, Any], topics: list[str]) -> None:
        self.consumer = ottla.Consumer(settings)
        if topics[0].startswith("^"):
            # Evaluated by the client: Apache Kafka looks at its own only every 10 s.
            self.consumer.subscribe(pattern=re.compile(topics[0]))
        else:
            self.consumer.subscribe(topics)

    def poll(self, timeout: float = 0.2) -> list[Seen]:
        return [_seen(record) for record in self.consumer.poll(timeout)]

    def owned(self) -> set[tuple[str, int]]:
        return {(p.topic, p.partition) for p in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def commit_at(self, topic: str, partition: int, offset: int) -> None:
        self.consumer.commit({ottla.TopicPartition(topic, partition): offset})

    def close(self) -> None:
        self.consumer.close()


class Confluent:
    name = "confluent"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._base = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = confluent_kafka.admin.AdminClient(self._base)

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        new = confluent_kafka.admin.NewTopic(topic, partitions, 1, config=dict(configs or {}))
        self._admin.create_topics([new])[topic].result(DEADLINE_S)
        until_seen(self.bootstrap, topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        new = confluent_kafka.admin.NewPartitions(topic, partitions)
        self._admin.create_partitions([new])[topic].result(DEADLINE_S)
        until_seen(self.bootstrap, topic, partitions)

    def produce(
        self,
        topic: str,
        rows: Rows,
        *,
        at_ms: int | None = None,
        partitioner: str | Choose = "murmur2_random",
        **settings: Any,
    ) -> list[int]:
        """Java's partitioner, which is not librdkafka's default: keys must land where the course says.

        It knows no round-robin and no partitioner of one's own: who wants one chooses before each `produce`.
        """
        turns = itertools.count()
        if partitioner == "round_robin":
            partitioner = lambda topic, key, count: next(turns) % count  # noqa: E731
        choose = partitioner if callable(partitioner) else None
        base = {} if choose else {"partitioner": partitioner}
        producer = confluent_kafka.Producer({**self._base, **base, **settings})
        count = len(producer.list_topics(topic, DEADLINE_S).topics[topic].partitions) if choose else 0
        places: list[int] = []

        def delivered(error: Any, message: Any) -> None:
            assert error is None, error
            places.append(message.partition())

        for key, value in rows:
            more = {} if at_ms is None else {"timestamp": at_ms}
            if choose:
                more["partition"] = choose(topic, None if key is None else key.encode(), count)
            producer.produce(topic, value, key, on_delivery=delivered, **more)
            producer.flush(DEADLINE_S)  # in order: the callbacks of several partitions come mixed
        return places

    def records(self, topic: str, **settings: Any) -> list[Seen]:
        """All that can be read of partition 0 now."""
        config = {**self._base, **settings, "group.id": "nobody", "enable.partition.eof": True}
        consumer = confluent_kafka.Consumer({**config, "enable.auto.commit": False})
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
            seen: list[Seen] = []
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline:
                for message in consumer.consume(500, 0.2):
                    if message.error() is None:
                        seen.append(_of_confluent(message))
                    elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                        return seen
            raise AssertionError(f"{topic} was not read to its end")
        finally:
            consumer.close()

    def member(self, group: str, topics: list[str], **settings: Any) -> ConfluentMember:
        config = {**CLASSIC, **MEMBER, **self._base, **settings, "group.id": group}
        return ConfluentMember(config, topics)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        consumer = confluent_kafka.Consumer({**self._base, "group.id": group})
        try:
            found = consumer.committed([confluent_kafka.TopicPartition(topic, partition)], DEADLINE_S)[
                0
            ].offset
            return None if found < 0 else int(found)
        finally:
            consumer.close()

    def ends(self, topic: str, partition: int) -> tuple[int, int]:
        consumer = confluent_kafka.Consumer({**self._base, "group.id": "nobody"})
        try:
            where = confluent_kafka.TopicPartition(topic, partition)
            low, high = consumer.get_watermark_offsets(where, DEADLINE_S)
            return low, high
        finally:
            consumer.close()


class ConfluentMember:
    def __init__(self, settings: dict[str, Any], topics: list[str]) -> None:
        settings = {"max.poll.interval.ms": 300_000, **settings, "topic.metadata.refresh.interval.ms": 500}
        if settings["max.poll.interval.ms"] < settings["session.timeout.ms"]:  # which it does not take
            settings |= {"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000}
        self.consumer = confluent_kafka.Consumer(settings)
        self.consumer.subscribe(topics)

    def poll(self, timeout: float = 0.2) -> list[Seen]:
        return [_of_confluent(m) for m in self.consumer.consume(500, timeout) if not m.error()]

    def owned(self) -> set[tuple[str, int]]:
        return {(p.topic, p.partition) for p in self.consumer.assignment()}

    def commit(self) -> None:
        with contextlib.suppress(confluent_kafka.KafkaException):  # nothing new to commit
            self.consumer.commit(asynchronous=False)

    def commit_at(self, topic: str, partition: int, offset: int) -> None:
        at = confluent_kafka.TopicPartition(topic, partition, offset)
        self.consumer.commit(offsets=[at], asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


def until(condition: Callable[[], object], members: Iterable[Member] = (), what: str = "") -> list[Seen]:
    """Polls the members in turn until the condition holds; what they have read meanwhile."""
    deadline = time.monotonic() + DEADLINE_S
    seen: list[Seen] = []
    members = list(members)
    while not condition():
        assert time.monotonic() < deadline, what or f"not within {DEADLINE_S} s; seen {len(seen)} records"
        for each in members:
            seen += each.poll(0.1)
        if not members:
            time.sleep(0.1)
    return seen


def until_seen(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Apache Kafka's broker learns of changes in their order, a moment after their answers."""
    with ottla.Admin(bootstrap_servers=bootstrap) as admin:

        def is_seen() -> bool:
            try:
                return len(admin.describe_topics([topic])[topic].partitions) == partitions
            except errors.UnknownTopicOrPartition:
                return False

        until(is_seen, what=f"{topic} with {partitions} partitions")


def read(member: Member, count: int) -> list[Seen]:
    """Exactly so many records; more would be a mistake."""
    seen: list[Seen] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(seen) < count:
        assert time.monotonic() < deadline, f"only {len(seen)} of {count} records came"
        seen += member.poll(0.2)
    assert len(seen) == count, seen
    return seen


@contextlib.contextmanager
def members(*each: Member) -> Iterator[None]:
    try:
        yield
    finally:
        for member in each:
            with contextlib.suppress(errors.OttlaError, RuntimeError):
                member.close()


def _seen(record: ottla.ConsumerRecord) -> Seen:
    return Seen(record.partition, record.offset, _text(record.key), _text(record.value), record.topic)


def _of_confluent(message: Any) -> Seen:
    return Seen(
        message.partition(), message.offset(), _text(message.key()), _text(message.value()), message.topic()
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
