"""Members and administrators of share groups: heartbeats, description, where the groups stand."""

from collections.abc import Iterable

from ottla import errors
from ottla.broker.handlers.groups import check_room, member_of
from ottla.broker.permits.authorized import NOT_ASKED, group_operations
from ottla.broker.requests.context import Context
from ottla.broker.sharing.persister import STATE_UNITS
from ottla.coordination.groups.share_group import ShareGroup
from ottla.coordination.share.records import NO_OFFSET, ShareKey, ShareState
from ottla.security.operations import DESCRIBE, GROUP, READ, TOPIC
from ottla.wire.messages import alter_share_group_offsets as alter
from ottla.wire.messages import delete_share_group_offsets as delete
from ottla.wire.messages import describe_share_group_offsets as offsets
from ottla.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


async def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse:
    check_room(request.group_id, context)
    member = member_of(context)
    return await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_share_group_heartbeat(request, member, token, now_ms),
    )


async def share_group_describe(
    request: ShareGroupDescribeRequest, context: Context
) -> ShareGroupDescribeResponse:
    groups = []
    for group_id in dict.fromkeys(request.group_ids):
        try:
            (described,) = await context.groups.call(
                group_id,
                lambda machine, token, now_ms, asked_id=group_id: machine.on_share_group_describe(
                    [asked_id], token
                ),  # type: ignore[misc]
            )
        except errors.ProtocolError as error:
            described = DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
        if not described.error_code:
            asked = request.include_authorized_operations
            described.authorized_operations = group_operations(group_id, context) if asked else NOT_ASKED
        groups.append(described)
    return ShareGroupDescribeResponse(groups=groups)


# -- where groups stand --------------------------------------------------------------------------------------


async def describe_offsets(
    request: offsets.DescribeShareGroupOffsetsRequest, context: Context
) -> offsets.DescribeShareGroupOffsetsResponse:
    groups = []
    for asked in {
        group.group_id: group for group in request.groups
    }.values():  # once, however often it is named
        try:
            context.require(DESCRIBE, GROUP, asked.group_id)
            topics = await _described_topics(asked, context)
            groups.append(
                offsets.DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=topics)
            )
        except errors.ProtocolError as error:
            groups.append(
                offsets.DescribeShareGroupOffsetsResponseGroup(
                    group_id=asked.group_id, error_code=error.code, error_message=error.message
                )
            )
    return offsets.DescribeShareGroupOffsetsResponse(groups=groups)


async def _described_topics(
    asked: offsets.DescribeShareGroupOffsetsRequestGroup, context: Context
) -> list[offsets.DescribeShareGroupOffsetsResponseTopic]:
    group = _group(asked.group_id, context, may_be_missing=asked.topics is not None)
    image = context.metadata.image
    if asked.topics is None:
        wanted = [
            (name, list(numbers))
            for name, numbers in group.initialized.values()
            if context.allows(DESCRIBE, TOPIC, name)
        ]
    else:
        wanted = [(topic.topic_name, list(dict.fromkeys(topic.partitions))) for topic in asked.topics]
    topics = []
    for name, numbers in wanted:
        known = image.topics.get(name) if context.allows(DESCRIBE, TOPIC, name) else None
        topic_id = bytes(16) if known is None else known.topic_id  # an id would tell that the topic exists
        rows = [await _described(asked.group_id, name, topic_id, number, context) for number in numbers]
        topics.append(
            offsets.DescribeShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=topic_id, partitions=rows
            )
        )
    return topics


async def _described(
    group_id: str, name: str, topic_id: bytes, number: int, context: Context
) -> offsets.DescribeShareGroupOffsetsResponsePartition:
    row = offsets.DescribeShareGroupOffsetsResponsePartition(partition_index=number, start_offset=NO_OFFSET)
    await context.pace(STATE_UNITS)
    if not context.allows(DESCRIBE, TOPIC, name):
        row.error_code = errors.TopicAuthorizationFailed.code
        row.error_message = errors.TopicAuthorizationFailed().message
        return row
    if context.metadata.image.partition(name, number) is None:
        row.error_code = errors.UnknownTopicOrPartition.code
        row.error_message = errors.UnknownTopicOrPartition().message
        return row
    try:
        state = await context.sharing.persister.summary(ShareKey(group_id, topic_id, number))
    except errors.ProtocolError as error:
        row.error_code, row.error_message = error.code, error.message
        return row
    if state is not None:
        row.start_offset, row.leader_epoch = state.start_offset, state.leader_epoch
        row.lag = _lag(name, number, state, context)
    return row


async def forget_states(group: ShareGroup, topic_ids: Iterable[bytes], context: Context) -> None:
    """Of all partitions of these topics."""
    try:
        for topic_id in list(topic_ids):
            _, numbers = group.initialized.get(topic_id, ("", ()))  # a topic may be deleted meanwhile
            for number in numbers:
                await context.pace(STATE_UNITS)
                await context.sharing.persister.delete(ShareKey(group.group_id, topic_id, number))
    finally:  # also when the connection is gone: some of them are deleted
        context.sharing.partitions.forget_group(group.group_id)


def _lag(name: str, number: int, state: ShareState, context: Context) -> int:
    """Known where the partition is led. What is done with behind the start does not count."""
    try:
        log = context.replicas.partition(name, number).leader_log()
    except errors.ProtocolError:
        return -1
    if state.start_offset == NO_OFFSET:
        return -1
    start = max(0, state.start_offset)  # anybody may have asked for a start below the first record
    return max(0, log.high_watermark - start - max(0, state.delivery_complete_count))


async def alter_offsets(
    request: alter.AlterShareGroupOffsetsRequest, context: Context
) -> alter.AlterShareGroupOffsetsResponse:
    """The group begins again where it is told to; only while nobody is in it."""
    try:
        _group(request.group_id, context, must_be_empty=True, may_be_missing=True)
    except errors.ProtocolError as error:
        return alter.AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    try:
        topics = [await _altered(request.group_id, topic, context) for topic in request.topics]
    finally:  # also when the connection is gone: some of them are altered
        context.sharing.partitions.forget_group(request.group_id)
    names = {topic.topic_name for topic in topics if any(not part.error_code for part in topic.partitions)}
    if names:
        await _note(request.group_id, names, set(), context)
    return alter.AlterShareGroupOffsetsResponse(responses=topics)


async def _altered(
    group_id: str, topic: alter.AlterShareGroupOffsetsRequestTopic, context: Context
) -> alter.AlterShareGroupOffsetsResponseTopic:
    known = context.metadata.image.topics.get(topic.topic_name)
    rows = []
    for part in topic.partitions:
        row = alter.AlterShareGroupOffsetsResponsePartition(partition_index=part.partition_index)
        await context.pace(STATE_UNITS)
        try:
            if known is None or not 0 <= part.partition_index < len(known.partitions):
                raise errors.UnknownTopicOrPartition()
            key = ShareKey(group_id, known.topic_id, part.partition_index)
            state = await context.sharing.persister.summary(key)
            epoch = 0 if state is None else state.state_epoch + 1
            await context.sharing.persister.initialize(key, epoch, part.start_offset)
        except errors.ProtocolError as error:
            row.error_code, row.error_message = error.code, error.message
        rows.append(row)
    return alter.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=bytes(16) if known is None else known.topic_id,
        partitions=rows,
    )


async def delete_offsets(
    request: delete.DeleteShareGroupOffsetsRequest, context: Context
) -> delete.DeleteShareGroupOffsetsResponse:
    try:
        group = _group(request.group_id, context, must_be_empty=True)
    except errors.ProtocolError as error:
        return delete.DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    known = {name: (topic_id, numbers) for topic_id, (name, numbers) in group.initialized.items()}
    rows = []
    for topic in request.topics:
        row = delete.DeleteShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        try:
            context.require(READ, TOPIC, topic.topic_name)
            if topic.topic_name not in known:
                raise errors.UnknownTopicOrPartition()
            row.topic_id, _ = known[topic.topic_name]
            await forget_states(group, [row.topic_id], context)
        except errors.ProtocolError as error:
            row.error_code, row.error_message = error.code, error.message
        rows.append(row)
    await _note(request.group_id, set(), {row.topic_name for row in rows if not row.error_code}, context)
    return delete.DeleteShareGroupOffsetsResponse(responses=rows)


async def _note(group_id: str, added: set[str], removed: set[str], context: Context) -> None:
    """Which topics the group has states of, from now on."""
    await context.groups.call(
        group_id,
        lambda machine, token, now_ms: machine.on_share_states(group_id, added, removed, token),
    )


def _group(
    group_id: str, context: Context, *, must_be_empty: bool = False, may_be_missing: bool = False
) -> ShareGroup:
    state = context.groups.shard_of(group_id).machine.state
    group = state.share_groups.get(group_id)
    if group is None:
        if may_be_missing and group_id not in state.groups:
            return ShareGroup(group_id)
        raise errors.GroupIdNotFound(f"Group {group_id} not found.")
    if must_be_empty and group.members:
        raise errors.NonEmptyGroup()
    return group
