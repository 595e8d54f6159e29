"""What a share group gives up, written to a topic: under the names and headers of Kafka 4.4 (KIP-1191).

At least once: a record stays in its group's state until its letter is committed in the topic.
"""

from collections.abc import Callable

from ottla import errors
from ottla.broker.cluster.metadata import Metadata
from ottla.broker.cluster.peers import Lane, Peers
from ottla.broker.partitions.replicas import Replicas
from ottla.broker.settings import Settings
from ottla.broker.waits import Ticket, Wait, woken
from ottla.config.topic import DEAD_LETTERS
from ottla.coordination.share.records import DELIVERY_LIMIT, REJECTED
from ottla.frozen import frozen
from ottla.metadata.image import TOPIC_RESOURCE
from ottla.metadata.internal import NewTopic, Setting
from ottla.metadata.names import is_internal
from ottla.ports import Clock
from ottla.wire import batch as batches
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.records import Header, Record

GROUP_ENABLE = DEAD_LETTERS.name
HEADER_PREFIX = "__dlq.errors."
REASONS = {
    REJECTED: "a consumer rejected the record",
    DELIVERY_LIMIT: "the record was delivered as often as share.delivery.count.limit allows",
}
_ACKS_ALL = -1
_PRODUCE_VERSION = 11


@frozen
class Letter:
    group_id: str
    topic: str
    partition: int
    offset: int
    delivery_count: int
    verdict: int
    record: Record | None  # None: not to be copied, or gone from the log

    def written(self, now_ms: int) -> Record:
        record = self.record
        headers: list[Header] = list(record.headers) if record is not None else []
        for name, value in (
            ("topic", self.topic),
            ("partition", self.partition),
            ("offset", self.offset),
            ("group", self.group_id),
            ("delivery.count", self.delivery_count),
            ("message", REASONS[self.verdict]),
        ):
            headers.append((HEADER_PREFIX + name, str(value).encode()))
        if record is None:
            return Record(-1, now_ms, None, None, tuple(headers))
        return Record(-1, now_ms, record.key, record.value, tuple(headers))


class DeadLetters:
    """Writes letters to the leader of their partition, which may be another broker."""

    def __init__(
        self,
        node_id: int,
        metadata: Metadata,
        replicas: Replicas,
        peers: Peers,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._node_id, self._metadata, self._replicas = node_id, metadata, replicas
        self._peers, self._clock, self._settings = peers, clock, settings

    async def write(self, topic: str, letters: list[Letter]) -> None:
        """All of one partition. They are committed when this returns; raises if they may not be."""
        await self._check_topic(topic)
        image = self._metadata.image
        number = letters[0].partition % len(image.topics[topic].partitions)
        now_ms = self._clock.now_ms()
        batch = batches.build([letter.written(now_ms) for letter in letters])
        state = image.partition(topic, number)
        leader = -1 if state is None else state.leader
        if leader == self._node_id:
            await self._append(topic, number, batch)
        elif leader < 0:
            raise errors.LeaderNotAvailable()
        else:
            await self._send(leader, topic, number, batch)

    async def _check_topic(self, topic: str) -> None:
        """A group's setting must not let its owner write wherever the broker may: the topic has to agree."""
        if is_internal(topic) or topic.startswith("__"):
            raise errors.InvalidTopicException(f"{topic} is no topic for dead letters")
        if topic not in self._metadata.image.topics:
            await self._create(topic)
        if self._metadata.image.settings(TOPIC_RESOURCE, topic).get(GROUP_ENABLE) != "true":
            raise errors.PolicyViolation(f"topic {topic} takes no dead letters: set {GROUP_ENABLE}=true")

    async def _create(self, topic: str) -> None:
        config = self._settings.now
        prefix = config.errors_deadletterqueue_topic_name_prefix
        if not config.errors_deadletterqueue_auto_create_topics_enable:
            raise errors.UnknownTopicOrPartition(
                f"topic {topic} does not exist, and errors.deadletterqueue.auto.create.topics.enable is not set"
            )
        if not topic.startswith(prefix):
            raise errors.PolicyViolation(
                f"topic {topic} is not created by itself: its name does not begin with {prefix}"
            )
        wanted = NewTopic(topic, -1, -1, configs=(Setting(GROUP_ENABLE, "true"),))
        error = (await self._metadata.create_topics([wanted])).get(topic)
        if error is not None and not isinstance(error, errors.TopicAlreadyExists):
            raise error

    async def _append(self, topic: str, number: int, batch: bytes) -> None:
        partition = self._replicas.partition(topic, number)
        appended = partition.append(batch, acks=_ACKS_ALL, now_ms=self._clock.now_ms())
        tenure, deadline_ms = partition.tenure, self._clock.monotonic_ms() + self._timeout_ms

        def listen(wake: Callable[[], None]) -> list[Ticket]:
            return [partition.committed.add(appended.next_offset, wake)]

        while not partition.is_committed(appended.next_offset, tenure):
            if not await woken(self._clock, deadline_ms, listen):
                raise errors.RequestTimedOut()

    async def _send(self, leader: int, topic: str, number: int, batch: bytes) -> None:
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=self._timeout_ms,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=number, records=batch)]
                )
            ],
        )
        wait: Wait[ProduceResponse] = Wait()
        self._peers.ask(
            leader, Lane.SHARES, request, _PRODUCE_VERSION, wait.set, timeout_ms=2 * self._timeout_ms
        )
        (answer,) = (await wait).responses[0].partition_responses
        if answer.error_code:
            raise errors.error_for(answer.error_code, answer.error_message)

    @property
    def _timeout_ms(self) -> int:
        return self._settings.now.request_timeout_ms
