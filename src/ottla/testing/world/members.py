"""Members of groups, of both protocols: they join, own partitions, commit, dawdle, leave."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from ottla import errors
from ottla.coordination.groups.subscription import parse_assignment, parse_subscription, write_assignment
from ottla.testing.world.client import GROUP, Script, Send, Sleep, find_coordinator, send
from ottla.testing.world.ledger import TopicPartition
from ottla.testing.world.network import LOST
from ottla.wire import codec
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from ottla.testing.world.world import World

Step = Generator[Send | Sleep, Any, Any]

COMMIT_VERSION = 9
SESSION_MS, REBALANCE_MS = 10_000, 15_000
PROTOCOL_VERSION = 0


def commit(world: World, group: str, member_id: str, epoch: int, name: TopicPartition) -> Step:
    """A number nobody else commits, so that it can be told apart."""
    offset = world.next_number()
    world.checks.watch_commits(group, name)
    partition = OffsetCommitRequestPartition(partition_index=name[1], committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=name[0], partitions=[partition])],
    )
    answer = yield send(request, COMMIT_VERSION)
    if answer is not LOST and answer.topics[0].partitions[0].error_code == errors.NONE:
        world.ledger.on_commit_acknowledged(group, name, offset)


# -- the consumer protocol ---------------------------------------------------------------------------------


def consumer_member(world: World, name: str, group: str, topic: str, beats: int) -> Script:
    epoch, owned, unsure = 0, frozenset[int](), True
    topic_id = world.topic_id(topic)
    yield from find_coordinator(group, GROUP)
    while beats > 0 and not world.finishing:
        beats -= 1
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=name, member_epoch=epoch)
        # A list that is not given is null here: nothing has changed.
        request.topic_partitions = [TopicPartitions(topic_id=topic_id, partitions=sorted(owned))]
        request.subscribed_topic_names = [topic] if unsure or epoch == 0 else None
        if unsure or epoch == 0:
            request.rebalance_timeout_ms = REBALANCE_MS
        if epoch == 0:
            request.topic_partitions = []
        answer = yield send(request)
        unsure = answer is LOST
        if answer is not LOST and answer.error_code == errors.NONE:
            world.on_member_epoch(group, name, epoch, answer.member_epoch)
            epoch = answer.member_epoch
            if answer.assignment is not None:
                owned = frozenset(
                    index
                    for topic_partition in answer.assignment.topic_partitions
                    for index in topic_partition.partitions
                )
            if owned and world.random.random() < 0.5:
                index = world.random.choice(sorted(owned))
                yield from commit(world, group, name, epoch, (topic, index))
        elif answer is not LOST and not errors.error_for(answer.error_code).retriable:
            epoch, owned, unsure = 0, frozenset(), True
        yield Sleep(world.random.uniform(100, 1_500))
    if world.random.random() < 0.5 or world.finishing:
        yield from _leave_consumer_group(group, name)


def _leave_consumer_group(group: str, name: str) -> Step:
    for _ in range(3):
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=name, member_epoch=-1)
        if (yield send(request)) is not LOST:
            return


# -- the classic protocol ----------------------------------------------------------------------------------


def classic_member(world: World, name: str, group: str, topic: str, rounds: int) -> Script:
    member_id = ""
    yield from find_coordinator(group, GROUP)
    while rounds > 0 and not world.finishing:
        rounds -= 1
        joined = yield from _join(group, member_id, topic)
        if joined is LOST or joined.error_code:
            if joined is not LOST:
                known = joined.error_code == errors.MemberIdRequired.code
                member_id = joined.member_id if known else ""
            yield Sleep(world.random.uniform(10, 300))
            continue
        member_id = joined.member_id
        owned = yield from _sync(world, group, joined, topic)
        if owned is not None:
            yield from _work(world, group, joined, [(topic, index) for index in owned])
        yield Sleep(world.random.uniform(0, 100))
    if member_id and (world.random.random() < 0.5 or world.finishing):
        yield send(LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]))


def _join(group: str, member_id: str, topic: str) -> Step:
    subscription = ConsumerProtocolSubscription(topics=[topic])
    metadata = PROTOCOL_VERSION.to_bytes(2, "big") + bytes(codec.write(subscription, PROTOCOL_VERSION))
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    return (yield send(request, timeout_ms=REBALANCE_MS + 5_000))


def _sync(world: World, group: str, joined: JoinGroupResponse, topic: str) -> Step:
    assignments = []
    if joined.leader == joined.member_id:
        for member_id, indexes in _plan(joined, len(world.partitions(topic))).items():
            data = write_assignment({topic: indexes}, PROTOCOL_VERSION)
            assignments.append(SyncGroupRequestAssignment(member_id=member_id, assignment=data))
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    answer = yield send(request, timeout_ms=REBALANCE_MS + 5_000)
    if answer is LOST or answer.error_code:
        return None
    return parse_assignment(answer.assignment).get(topic, [])


def _plan(joined: JoinGroupResponse, partitions: int) -> dict[str, list[int]]:
    members = [member.member_id for member in joined.members if parse_subscription(member.metadata).topics]
    plan: dict[str, list[int]] = {member: [] for member in members}
    for index in range(partitions):
        plan[members[index % len(members)]].append(index)
    return plan


def _work(world: World, group: str, joined: JoinGroupResponse, owned: list[TopicPartition]) -> Step:
    """Heartbeats and commits, until a rebalance or an error ends the generation for this member."""
    owner = (group, joined.generation_id)
    world.on_owned(owner, joined.member_id, owned)
    for _ in range(world.random.randint(2, 8)):
        beat = HeartbeatRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
        )
        answer = yield send(beat)
        if world.finishing or (answer is not LOST and answer.error_code):
            return
        if owned:
            name = world.random.choice(owned)
            yield from commit(world, group, joined.member_id, joined.generation_id, name)
        yield Sleep(world.random.uniform(50, 1_000))
