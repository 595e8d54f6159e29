"""A group coordinator in a test: the real machine and shard, a log in memory, a clock that the test moves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.coordination.groups.codec import GroupCodec
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.settings import GroupSettings
from ottla.coordination.groups.table import GroupTable
from ottla.coordination.shard import Shard
from ottla.effects import Token
from ottla.testing.world.time import Time
from ottla.wire import codec
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.consumer_protocol_subscription import TopicPartition as OwnedTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordination.shard_log import MemoryShardLog


class FakeTopics:
    def __init__(self, **counts: int) -> None:
        self._ids: dict[str, bytes] = {}
        self._counts: dict[str, int] = {}
        self._made = itertools.count(1)
        for name, count in counts.items():
            self.create(name, count)

    def create(self, name: str, count: int) -> bytes:
        self._ids[name] = next(self._made).to_bytes(16, "big")
        self._counts[name] = count
        return self._ids[name]

    def grow(self, name: str, count: int) -> None:
        self._counts[name] = count

    def delete(self, name: str) -> None:
        del self._ids[name], self._counts[name]

    def names(self) -> Iterable[str]:
        return list(self._ids)

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, each in self._ids.items() if each == topic_id), None)

    def partition_count(self, name: str) -> int:
        return self._counts.get(name, 0)

    def racks(self, name: str, partition: int) -> frozenset[str]:
        return frozenset()

    def partitions(self, *names: str) -> set[tuple[bytes, int]]:
        return {(self._ids[name], each) for name in names for each in range(self._counts[name])}


@dataclass(frozen=True)
class FakeClient:
    client_id: str = "client"
    host: str = "/127.0.0.1"
    hidden: frozenset[str] = frozenset()

    def may_see(self, topic: str) -> bool:
        return topic not in self.hidden


@dataclass
class Call:
    """A request on its way; `answer` is None until it is answered."""

    answer: Any = None
    strict: bool = True  # an error instead of an answer fails the test

    @property
    def is_waiting(self) -> bool:
        return self.answer is None

    def take(self, value: Any) -> None:
        assert self.answer is None, "answered twice"
        if self.strict and isinstance(value, Exception):
            raise value
        self.answer = value


class GroupCoordinator:
    def __init__(
        self, settings: GroupSettings | None = None, clock: Time | None = None, **topics: Any
    ) -> None:
        self.clock = clock or Time()
        self.log = MemoryShardLog()
        self.topics = FakeTopics(**topics)
        self.settings = settings or GroupSettings()
        self.overrides: dict[str, dict[str, str]] = {}
        self.lines: list[str] = []
        self.calls: list[Call] = []
        self.strict = True
        self._ids = itertools.count(1)
        self.shard: Shard = None
        self.restart()

    @property
    def groups(self) -> dict[str, Any]:
        return self.table.state.groups

    def restart(self) -> None:
        """The broker dies; its successor replays the log."""
        if self.shard is not None:
            self.shard.close()
        self.table, self.shard = self._replayed()
        self.shard.loaded()

    def replica(self) -> GroupTable:
        """What the log alone says."""
        return self._replayed()[0]

    def _replayed(self) -> tuple[GroupTable, Shard]:
        environment = Environment(
            self.topics,
            lambda: f"{next(self._ids):04}",
            self.settings,
            lambda group_id: self.overrides.get(group_id, {}),
            self.lines.append,
        )
        table = GroupTable(environment)
        shard = Shard(table, GroupCodec(), self.log, self.clock)
        events: dict[int, Callable[[], None]] = {}
        for records, producer in self.log.batches:
            events[records[0].offset] = partial(shard.replay, records, producer)
        for offset, (producer_id, epoch, committed) in self.log.markers.items():
            events[offset] = partial(shard.on_marker, producer_id, epoch, committed, offset)
        for offset in sorted(events):
            events[offset]()
        return table, shard

    def call(self, decide: Callable[[Token[Any], int], Any]) -> Call:
        call = Call(strict=self.strict)
        self.calls.append(call)
        self.shard.handle(decide, call.take)
        return call

    def ask(self, decide: Callable[[Token[Any], int], Any]) -> Any:
        answer = self.call(decide).answer
        assert answer is not None, "still waiting"
        return answer

    # The classic protocol

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 5,
        protocols: dict[str, bytes] | None = None,
        protocol_type: str = "consumer",
        instance: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        client: str = "client",
        topics: tuple[str, ...] = ("t",),
    ) -> Call:
        offered = {"range": subscription(*topics)} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=each) for name, each in offered.items()],
        )
        who = FakeClient(client)
        return self.call(lambda token, now: self.table.on_join_group(request, version, who, token, now))

    def enter(self, **options: Any) -> tuple[str, Call]:
        """Joins as a client does: asks for an id first."""
        refused = self.join(**options).answer
        assert refused.error_code == 79
        return refused.member_id, self.join(refused.member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        version: int = 4,
    ) -> Call:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=each)
                for name, each in (assignments or {}).items()
            ],
        )
        return self.call(lambda token, now: self.table.on_sync_group(request, version, token, now))

    def heartbeat(
        self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None
    ) -> int:
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        code: int = self.ask(lambda token, now: self.table.on_heartbeat(request, token, now)).error_code
        return code

    def leave(self, *members: str | tuple[str, str | None], group: str = "g", version: int = 3) -> Any:
        identities = [each if isinstance(each, tuple) else (each, None) for each in members]
        request = LeaveGroupRequest(
            group_id=group,
            member_id=identities[0][0],
            members=[MemberIdentity(member_id=each, group_instance_id=at) for each, at in identities],
        )
        return self.ask(lambda token, now: self.table.on_leave_group(request, version, token, now))

    def stable_group(self, count: int, **options: Any) -> list[str]:
        """So many members in a stable generation; the leader comes first."""
        pending = [self.enter(**options)]
        if count > 1:
            leader, first = pending[0]
            self.sync(leader, first.answer.generation_id, {})
            pending += [self.enter(**options) for _ in range(count - 1)]
            pending[0] = (leader, self.join(leader, **options))
        generation = pending[0][1].answer.generation_id
        ids = [member_id for member_id, _ in pending]
        group = options.get("group", "g")
        for member_id in ids[1:]:
            self.sync(member_id, generation, group=group)
        self.sync(ids[0], generation, {each: b"of " + each.encode() for each in ids}, group=group)
        return ids

    # The consumer protocol

    def beat(
        self,
        member_id: str,
        epoch: int,
        *,
        group: str = "g",
        version: int = 1,
        topics: list[str] | None = None,
        regex: str | None = None,
        client: FakeClient | None = None,
        owned: Iterable[tuple[bytes, int]] | None = None,
        instance: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
    ) -> Any:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in owned or ():
            by_topic.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms,
            subscribed_topic_names=topics,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
        )
        request.topic_partitions = (
            None
            if owned is None
            else [TopicPartitions(topic_id=each, partitions=numbers) for each, numbers in by_topic.items()]
        )
        return self.ask(
            lambda token, now: self.table.on_consumer_group_heartbeat(
                request, version, client or FakeClient(), token, now
            )
        )

    def subscribe(self, member_id: str, topics: list[str] | None = None, **options: Any) -> Any:
        """The first heartbeat."""
        options = {"rebalance_ms": 60_000, "owned": (), **options}
        if topics is None and "regex" not in options:
            topics = ["t"]
        return self.beat(member_id, 0, topics=topics, **options)

    # Offsets

    def commit(
        self,
        offset: int,
        *,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        metadata: str | None = "",
        version: int = 9,
        topic_id: bytes = bytes(16),
        retention_ms: int = -1,
    ) -> int:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    topic_id=topic_id,
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=3,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        answer = self.ask(lambda token, now: self.table.on_offset_commit(request, version, token, now))
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def commit_in_transaction(
        self, offset: int, producer_id: int, *, group: str = "g", member_id: str = "", generation: int = -1
    ) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id="x",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
                )
            ],
        )
        answer = self.ask(lambda token, now: self.table.on_txn_offset_commit(request, token, now))
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.log.markers[self.log.end] = (producer_id, 0, committed)
        self.shard.on_marker(producer_id, 0, committed, self.log.end)
        self.log.end += 1

    def fetch(
        self,
        *,
        group: str = "g",
        topics: dict[str, list[int]] | None = None,
        stable: bool = False,
        member_id: str | None = None,
        epoch: int = -1,
        topic_id: bytes = bytes(16),
    ) -> Any:
        wanted = (
            None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=each)
                for name, each in topics.items()
            ]
        )
        request = OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=epoch)
        request.topics = wanted
        return self.ask(lambda token, now: self.table.on_offset_fetch(request, stable, token, now))

    def committed(self, *, group: str = "g", topic: str = "t", partition: int = 0) -> int:
        answer = self.fetch(group=group, topics={topic: [partition]})
        offset: int = answer.topics[0].partitions[0].committed_offset
        return offset


def subscription(
    *topics: str,
    version: int = 1,
    owned: dict[str, list[int]] | None = None,
    generation: int = -1,
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[OwnedTopic(topic=name, partitions=each) for name, each in (owned or {}).items()],
        generation_id=generation,
    )
    return version.to_bytes(2, "big") + bytes(codec.write(message, version))


def assignment(**partitions: list[int]) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[AssignedTopic(topic=name, partitions=each) for name, each in partitions.items()]
    )
    return b"\0\1" + bytes(codec.write(message, 1))


def partitions_of(answer: Any) -> set[tuple[bytes, int]] | None:
    if answer.assignment is None:
        return None
    return {
        (each.topic_id, number) for each in answer.assignment.topic_partitions for number in each.partitions
    }
