"""The new protocol (KIP-848): one kind of request; the broker assigns, members let go and take on."""

import base64
from collections.abc import Callable

from ottla import errors
from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.group.member import Member
from ottla.client.core.retries import is_retriable
from ottla.client.core.runtime import Task
from ottla.client.errors import NotSupported
from ottla.client.values import GroupMetadata, TopicPartition
from ottla.errors import OttlaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ResponseTopicPartitions,
    TopicPartitions,
)

LEAVE, LEAVE_STATIC = -1, -2


class ConsumerMember(Member):
    """Heartbeats at the broker's pace; sends only what changed since the broker last heard it."""

    def __init__(self, cluster: Cluster, notify: Callable[[], None]) -> None:
        super().__init__(cluster, notify)
        # Kafka's form: a UUID in URL-safe base64.
        self.member_id = base64.urlsafe_b64encode(cluster.runtime.token()).rstrip(b"=").decode()
        self.epoch = 0
        self._interval_s = 5.0
        self._target: frozenset[TopicPartition] = frozenset()
        self._sent: tuple[object, ...] | None = None
        self._beat = self._runtime.event()
        self._task: Task[None] | None = None
        self._watch: Task[None] | None = None

    @property
    def is_member(self) -> bool:
        return self.epoch > 0

    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group, self.epoch, self.member_id, self._settings.group_instance_id)

    def subscribe(self, topics: frozenset[str], pattern: str | None) -> None:
        self.topics, self.pattern = topics, pattern
        self._beat.set()
        if self._task is None:
            self._task = self._start(self._run())
            self._watch = self._start(self._watch_polls())

    @property
    def is_settled(self) -> bool:
        steady = self.epoch > 0 and not self.lost and self.failure is None
        return steady and self._target == self.owned

    async def target(self, timeout_s: float) -> frozenset[TopicPartition] | None:
        if self.epoch == 0 and self._task is not None and not self.lost:
            self._beat.set()
        return self._target if self._target != self.owned and not self.lost else None

    def reached(self, owned: frozenset[TopicPartition]) -> None:
        self.owned = owned
        if self.lost:
            self.lost = False
            self.epoch = 0
            self._target = frozenset()
        self._beat.set()

    async def leave(self) -> None:
        for task in (self._task, self._watch):
            if task is not None:
                task.cancel()
        self._task = self._watch = None
        await self._leave_late()

    async def _leave_late(self) -> None:
        joined, self.epoch = self.epoch > 0, 0
        self._sent = None
        if joined:
            static = self._settings.group_instance_id is not None
            await self._send_leave(LEAVE_STATIC if static else LEAVE)

    async def _run(self) -> None:
        while self.failure is None:
            if not self.lost:
                await self._once()
            try:
                async with self._runtime.timeout(self._interval_s):
                    await self._beat.wait()
            except TimeoutError:
                pass
            self._beat.clear()

    async def _once(self) -> None:
        try:
            await self._heartbeat()
        except (errors.FencedMemberEpoch, errors.UnknownMemberId):
            self._sent = None
            self.lost = bool(self.owned)
            self.epoch = 0
            self._target = frozenset()
            self._notify()
            if not self.lost:
                self._beat.set()
        except OttlaError as error:
            self._sent = None
            self._cluster.forget_stale(error)
            if is_retriable(error) or isinstance(error, errors.UnreleasedInstanceId):
                await self._runtime.sleep(self._settings.retry_backoff_ms / 1000)
                self._beat.set()
            else:
                self.failure = error
                self._notify()

    async def _heartbeat(self) -> None:
        request, sent = self._request()
        answer = await self._cluster.ask_coordinator(
            GROUP, self.group, request, at_least=1 if self.pattern is not None else 0
        )
        if self.lost or request.member_epoch != self.epoch:
            return  # this member has left or was fenced since: the answer is about its former membership
        check(answer)
        self._sent = sent
        self.epoch = answer.member_epoch
        self.member_id = answer.member_id or self.member_id
        self._interval_s = max(answer.heartbeat_interval_ms, 10) / 1000
        if answer.assignment is not None:
            self._target = await self._named(answer.assignment.topic_partitions)
        if self._target != self.owned:
            self._notify()

    def _request(self) -> tuple[ConsumerGroupHeartbeatRequest, tuple[object, ...]]:
        current = (self.topics, self.pattern, self.owned)
        full = self._sent is None or self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch, rebalance_timeout_ms=-1
        )
        request.instance_id = self._settings.group_instance_id
        request.rack_id = request.server_assignor = request.subscribed_topic_regex = None
        request.subscribed_topic_names = request.topic_partitions = None
        if full:
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.server_assignor = self._settings.group_remote_assignor
            request.rack_id = self._settings.client_rack or None
        if full or self._sent is None or self._sent[:2] != current[:2]:
            request.subscribed_topic_names = sorted(self.topics)
            forgotten = self._sent is not None and self._sent[1] is not None and self.pattern is None
            request.subscribed_topic_regex = "" if forgotten else self.pattern
        if full or self._sent is None or self._sent[2] != self.owned:
            request.topic_partitions = self._owned_by_id()
        return request, current

    def _owned_by_id(self) -> list[TopicPartitions]:
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            topics.setdefault(topic, []).append(partition)
        known = self._cluster.image.topics
        return [TopicPartitions(topic_id=known[t].id, partitions=p) for t, p in topics.items() if t in known]

    async def _named(self, assigned: list[ResponseTopicPartitions]) -> frozenset[TopicPartition]:
        if any(topic.topic_id not in self._cluster.image.names for topic in assigned):
            await self._cluster.refresh(None)
        names = self._cluster.image.names
        return frozenset(
            TopicPartition(names[topic.topic_id], p)
            for topic in assigned
            if topic.topic_id in names
            for p in topic.partitions
        )

    async def _send_leave(self, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=epoch
        )
        request.instance_id = self._settings.group_instance_id
        request.subscribed_topic_names = request.topic_partitions = None
        request.rack_id = request.server_assignor = request.subscribed_topic_regex = None
        request.rebalance_timeout_ms = -1
        try:
            await self._cluster.ask_coordinator(GROUP, self.group, request, timeout_ms=5_000)
        except OttlaError:
            return  # the session will end by itself


async def served_version(cluster: Cluster) -> int | None:
    """The version in which the cluster speaks the new protocol, if it does."""
    connection = await cluster.any_connection()
    if connection.dialogue.features.get("group.version", 0) < 1:
        return None
    try:
        return connection.dialogue.version_for(ConsumerGroupHeartbeatRequest)
    except NotSupported:
        return None


def pattern_is_served(version: int) -> bool:
    """Regular expressions, evaluated by the broker in RE2's language, came with version 1."""
    return version >= 1
