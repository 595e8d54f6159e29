"""Groups and their offsets. The machines of `coordination.groups` decide; here requests find their shard."""

from collections.abc import Iterable

from ottla import errors
from ottla.broker.coordinators.shards import LocalShard
from ottla.broker.permits.authorized import NOT_ASKED, group_operations
from ottla.broker.requests.context import Context
from ottla.broker.requests.refusals import protocol_error
from ottla.broker.waits import pause
from ottla.coordination.groups.decision import GroupEffects
from ottla.coordination.groups.offsets import refuse_transactional
from ottla.coordination.groups.table import GroupTable
from ottla.effects import Token
from ottla.frozen import frozen
from ottla.metadata.names import CONSUMER_OFFSETS
from ottla.security.operations import DESCRIBE, TOPIC
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

GroupShard = LocalShard[GroupTable, GroupEffects]

GROUPS_FROM = 8  # OffsetFetch: several groups in one request
# librdkafka hangs in close() when the answer to its goodbye arrives while the application takes note of its last
# assignment, a millisecond or two after the goodbye was sent (docs/compatibility.md). So the answer comes later.
GOODBYE_MS = 10


@frozen
class Member:
    """A group member's client as Kafka shows it."""

    client_id: str
    host: str
    context: Context

    def may_see(self, topic: str) -> bool:
        return self.context.allows(DESCRIBE, TOPIC, topic)


def member_of(context: Context) -> Member:
    return Member(context.client_id, f"/{context.client.host}", context)


def check_room(group_id: str, context: Context) -> None:
    """Groups cost memory as long as they live: a new one has to find room."""
    state = context.groups.shard_of(group_id).machine.state
    if group_id in state.groups or group_id in state.share_groups:
        return
    most = context.config.ottla_groups_max
    if context.groups.count() >= most:
        raise errors.PolicyViolation(f"There may be no more than {most} groups (ottla.groups.max).")


async def join_group(request: JoinGroupRequest, context: Context) -> JoinGroupResponse:
    check_room(request.group_id, context)
    return await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_join_group(
            request, context.api_version, member_of(context), token, now_ms
        ),
    )


async def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    return await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_sync_group(request, context.api_version, token, now_ms),
    )


async def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    return await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_heartbeat(request, token, now_ms),
    )


async def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    response: LeaveGroupResponse = await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_leave_group(request, context.api_version, token, now_ms),
    )
    await _say_goodbye(context)
    return response


async def _say_goodbye(context: Context) -> None:
    context.appended()
    await pause(context.clock, GOODBYE_MS)


async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse:
    if "consumer" not in context.config.group_coordinator_rebalance_protocols:
        raise errors.UnsupportedVersion(
            "group.coordinator.rebalance.protocols leaves the consumer protocol out"
        )
    check_room(request.group_id, context)
    await _match_patterns(request, context)
    response: ConsumerGroupHeartbeatResponse = await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_consumer_group_heartbeat(
            request, context.api_version, member_of(context), token, now_ms
        ),
    )
    if request.member_epoch < 0:  # it leaves
        await _say_goodbye(context)
    return response


async def _match_patterns(request: ConsumerGroupHeartbeatRequest, context: Context) -> None:
    """Matches the patterns with all topics in a thread, because that takes too long for the loop, and hands the
    answers to the group."""
    machine = context.groups.shard_of(request.group_id).machine
    for question in machine.open_questions(request):
        try:
            fitting = await context.pattern_work.run(question.answer)
        except errors.InvalidRegularExpression:
            return  # the group says so
        machine.learn(question, fitting)


# -- offsets -------------------------------------------------------------------------------------


async def offset_commit(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    check_room(request.group_id, context)
    return await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_offset_commit(request, context.api_version, token, now_ms),
    )


async def txn_offset_commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    """The offsets' partition must be in the transaction: asked for, or from v5 on made so."""
    if not request.group_id:
        return refuse_transactional(request, errors.InvalidGroupId.code)
    partition = CONSUMER_OFFSETS, context.groups.index_of(request.group_id)
    admission = await context.transactions.admissions.admit_offsets(request, partition, context.api_version)

    def decide(machine: GroupTable, token: Token[TxnOffsetCommitResponse], now_ms: int) -> GroupEffects:
        admission.check(partition)  # appended at once: nothing can come in between
        return machine.on_txn_offset_commit(request, token, now_ms)

    try:
        response: TxnOffsetCommitResponse = await context.groups.call(request.group_id, decide)
        admission.on_appended(partition)
    finally:
        admission.close()
    return response


async def offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    if context.api_version >= GROUPS_FROM:
        return OffsetFetchResponse(
            groups=[
                await _fetched(group, request.require_stable, context) for group in _merged(request.groups)
            ]
        )
    group = OffsetFetchRequestGroup(group_id=request.group_id, member_epoch=-1)
    group.topics = None  # all; as an argument it would mean the default, which is none
    if request.topics is not None:
        group.topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    fetched = await _fetched(group, request.require_stable, context)
    if fetched.error_code and context.api_version < 2:  # v1 has no place for it but with each partition
        raise errors.error_for(fetched.error_code)
    return OffsetFetchResponse(
        error_code=fetched.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in fetched.topics
        ],
    )


def _merged(groups: Iterable[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Each group once, with all that is asked of it: a commit may be a thousand times as long as its index."""
    merged: dict[str, OffsetFetchRequestGroup] = {}
    for group in groups:
        known = merged.setdefault(group.group_id, group)
        if known is not group:
            if known.topics is None or group.topics is None:
                known.topics = None  # all of them
            else:
                known.topics += group.topics
    return list(merged.values())


def _each_once(topics: Iterable[OffsetFetchRequestTopics]) -> list[OffsetFetchRequestTopics]:
    merged: dict[tuple[str, bytes], dict[int, None]] = {}
    for topic in topics:
        merged.setdefault((topic.name, topic.topic_id), {}).update(dict.fromkeys(topic.partition_indexes))
    return [
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(indexes))
        for (name, topic_id), indexes in merged.items()
    ]


async def _fetched(
    group: OffsetFetchRequestGroup, require_stable: bool, context: Context
) -> OffsetFetchResponseGroup:
    if group.topics is not None:
        group.topics = _each_once(group.topics)
    try:
        response: OffsetFetchResponseGroup = await context.groups.call(
            group.group_id,
            lambda machine, token, now_ms: machine.on_offset_fetch(group, require_stable, token, now_ms),
        )
    except errors.ProtocolError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return response


async def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    return await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_offset_delete(request, token, now_ms),
    )


# -- administration ------------------------------------------------------------------------------


async def list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    response = ListGroupsResponse()
    for shard in list(context.groups.loaded()):
        part: ListGroupsResponse = await shard.call(
            lambda machine, token, now_ms: machine.on_list_groups(request, token, now_ms)
        )
        response.groups += part.groups
    return response


async def describe_groups(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    version = context.api_version
    response = DescribeGroupsResponse()
    shards, failed = _by_shard(request.groups, context)
    response.groups += [
        DescribedGroup(group_id=group_id, error_code=error.code) for group_id, error in failed
    ]
    for shard, group_ids in shards:
        response.groups += await _describe(shard, group_ids, version)
    for group in response.groups:
        group.authorized_operations = _operations(
            group.group_id, request.include_authorized_operations, context
        )
    return response


async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse:
    response = ConsumerGroupDescribeResponse()
    shards, failed = _by_shard(request.group_ids, context)
    response.groups += [
        DescribedConsumerGroup(group_id=group_id, error_code=error.code) for group_id, error in failed
    ]
    for shard, group_ids in shards:
        response.groups += await _describe_consumer_groups(shard, group_ids)
    for group in response.groups:
        group.authorized_operations = _operations(
            group.group_id, request.include_authorized_operations, context
        )
    return response


async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    shards, failed = _by_shard(request.groups_names, context)
    response.results += [
        DeletableGroupResult(group_id=group_id, error_code=error.code) for group_id, error in failed
    ]
    for shard, group_ids in shards:
        try:
            await _delete_share_states(shard, group_ids, context)
            response.results += await _delete(shard, group_ids)
        except Exception as failure:  # groups of other shards may be deleted already
            code = protocol_error(failure, "deleting groups").code
            response.results += [DeletableGroupResult(group_id=name, error_code=code) for name in group_ids]
    return response


async def _describe(shard: GroupShard, group_ids: list[str], version: int) -> list[DescribedGroup]:
    return await shard.call(
        lambda machine, token, now_ms: machine.on_describe_groups(group_ids, version, token, now_ms)
    )


async def _describe_consumer_groups(shard: GroupShard, group_ids: list[str]) -> list[DescribedConsumerGroup]:
    return await shard.call(
        lambda machine, token, now_ms: machine.on_consumer_group_describe(group_ids, token, now_ms)
    )


async def _delete_share_states(shard: GroupShard, group_ids: list[str], context: Context) -> None:
    """Before the groups themselves: a new group of the same name must not go on where an old one was."""
    for group_id in group_ids:
        group = shard.machine.state.share_groups.get(group_id)
        if group is not None and group.is_empty:
            from ottla.broker.handlers.share_groups import forget_states

            await forget_states(group, group.initialized, context)


async def _delete(shard: GroupShard, group_ids: list[str]) -> list[DeletableGroupResult]:
    return await shard.call(lambda machine, token, now_ms: machine.on_delete_groups(group_ids, token, now_ms))


def _by_shard(
    group_ids: Iterable[str], context: Context
) -> tuple[list[tuple[GroupShard, list[str]]], list[tuple[str, errors.ProtocolError]]]:
    """The groups of each shard, and those that none of ours has; a group that is named twice is there once."""
    shards: dict[int, tuple[GroupShard, list[str]]] = {}
    failed: list[tuple[str, errors.ProtocolError]] = []
    for group_id in dict.fromkeys(group_ids):
        try:
            shard = context.groups.shard_of(group_id)
        except errors.ProtocolError as error:
            failed.append((group_id, error))
        else:
            shards.setdefault(id(shard), (shard, []))[1].append(group_id)
    return list(shards.values()), failed


def _operations(group_id: str, asked: bool, context: Context) -> int:
    return group_operations(group_id, context) if asked else NOT_ASKED
