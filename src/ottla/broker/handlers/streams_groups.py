"""Members and administrators of streams groups (KIP-1071), and the internal topics that applications need."""

from collections.abc import Iterator

from ottla import errors
from ottla.broker.handlers.groups import check_room, member_of
from ottla.broker.permits.authorized import NOT_ASKED, group_operations
from ottla.broker.requests.context import Context
from ottla.broker.requests.topologies import topics_of
from ottla.broker.stepping import STEP_BYTES
from ottla.coordination.groups.streams.checks import check_size
from ottla.coordination.groups.streams.heartbeat import HeartbeatAnswer, refusal
from ottla.coordination.groups.streams.topology import MISSING_INTERNAL_TOPICS, InternalTopic
from ottla.metadata.internal import NewTopic, Setting
from ottla.metadata.names import is_internal, is_legal
from ottla.metadata.topics import PARTITIONS_PER_REQUEST_MAX
from ottla.security.operations import CLUSTER, CLUSTER_NAME, CREATE, DESCRIBE, GROUP, READ, TOPIC
from ottla.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

ERRORS_SHOWN_MAX = 3
PARTITIONS_AT_ONCE = 200


async def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: Context
) -> StreamsGroupHeartbeatResponse:
    try:
        return await _heartbeat(request, context)
    except errors.ProtocolError as error:
        return refusal(error)


async def _heartbeat(
    request: StreamsGroupHeartbeatRequest, context: Context
) -> StreamsGroupHeartbeatResponse:
    _check_served(context)
    context.require(READ, GROUP, request.group_id)
    check_size(request.topology)
    _check_topics(topics_of(request.topology), context)
    check_room(request.group_id, context)
    member = member_of(context)
    answer: HeartbeatAnswer = await context.groups.call(
        request.group_id,
        lambda machine, token, now_ms: machine.on_streams_group_heartbeat(request, member, token, now_ms),
    )
    if answer.missing:
        context.appended()  # creating topics takes its time
        await _create(answer, context)
    return answer.response


def _check_served(context: Context) -> None:
    if "streams" not in context.config.group_coordinator_rebalance_protocols:
        raise errors.UnsupportedVersion(
            "group.coordinator.rebalance.protocols leaves the streams protocol out"
        )


def _check_topics(names: list[str], context: Context) -> None:
    prohibited = [name for name in names if is_internal(name)]
    if prohibited:
        raise errors.StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    illegal = [name for name in names if not is_legal(name)]
    if illegal:
        raise errors.StreamsInvalidTopology(f"Topic names {','.join(illegal)} are not valid topic names.")
    for name in names:
        context.require(DESCRIBE, TOPIC, name)


async def _create(answer: HeartbeatAnswer, context: Context) -> None:
    """Creates the internal topics on behalf of the member; an error becomes a status in its answer."""
    names = [topic.name for topic in answer.missing]
    if not context.allows(CREATE, CLUSTER, CLUSTER_NAME):
        denied = [name for name in names if not context.allows(CREATE, TOPIC, name)]
        if denied:
            _say(answer.response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
            return
    failed: dict[str, errors.ProtocolError] = {}
    try:
        for topics in _parts(answer.missing):
            failed |= await context.metadata.create_topics(_new_topics(topics), context.sender)
            await context.pace(STEP_BYTES)
    except errors.ProtocolError as error:
        failed = dict.fromkeys(names, error)
    refusals = [
        f"{name} ({error.message})"
        for name, error in failed.items()
        if not isinstance(error, errors.TopicAlreadyExists)  # another member was first
    ]
    if refusals:
        more = len(refusals) - ERRORS_SHOWN_MAX
        shown = ", ".join(refusals[:ERRORS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        _say(answer.response, f"Creation failed: {shown}.")


def _parts(missing: tuple[InternalTopic, ...]) -> Iterator[list[InternalTopic]]:
    """A few hundred partitions at once: all of them would take seconds. Of very many some are left for the next
    heartbeat, as the controller creates so many for a request and no more."""
    part: list[InternalTopic] = []
    partitions, left = 0, PARTITIONS_PER_REQUEST_MAX
    for topic in missing:
        if part and partitions + topic.partitions > PARTITIONS_AT_ONCE:
            yield part
            part, partitions = [], 0
        left -= topic.partitions
        if left < 0 and topic is not missing[0]:
            break
        part.append(topic)
        partitions += topic.partitions
    if part:
        yield part


def _new_topics(missing: list[InternalTopic]) -> list[NewTopic]:
    return [
        NewTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor or -1,
            configs=tuple(Setting(name, value) for name, value in topic.configs),
        )
        for topic in missing
    ]


def _say(response: StreamsGroupHeartbeatResponse, what: str) -> None:
    for status in response.status or ():
        if status.status_code == MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {what}"


async def streams_group_describe(
    request: StreamsGroupDescribeRequest, context: Context
) -> StreamsGroupDescribeResponse:
    _check_served(context)
    groups = []
    for group_id in dict.fromkeys(request.group_ids):
        described = await _described(group_id, context)
        asked = request.include_authorized_operations and not described.error_code
        described.authorized_operations = group_operations(group_id, context) if asked else NOT_ASKED
        groups.append(described)
    return StreamsGroupDescribeResponse(groups=groups)


async def _described(group_id: str, context: Context) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=errors.InvalidGroupId.code)
    try:
        described: list[DescribedGroup] = await context.groups.call(
            group_id, lambda machine, token, now_ms: machine.on_streams_group_describe([group_id], token)
        )
    except errors.ProtocolError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    return described[0]
