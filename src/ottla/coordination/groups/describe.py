"""Groups as administrators see them: ListGroups 0-5, DescribeGroups 0-6, ConsumerGroupDescribe 0-1."""

from collections.abc import Iterable

from ottla import errors
from ottla.coordination.groups.classic_group import ClassicGroup, State
from ottla.coordination.groups.consumer_group import ConsumerGroup, ConsumerMember
from ottla.coordination.groups.environment import Environment
from ottla.coordination.groups.expiry import Group
from ottla.coordination.groups.records import Partitions
from ottla.coordination.groups.share_group import ShareGroup, ShareMember
from ottla.coordination.groups.streams.group import STREAMS, StreamsGroup
from ottla.coordination.groups.subscription import CONSUMER
from ottla.wire.messages import consumer_group_describe as consumer
from ottla.wire.messages import share_group_describe as share
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.messages.list_groups import ListedGroup

NOT_FOUND_ERROR_FROM = 6  # DescribeGroups version; before, an unknown group is a dead one
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
SHARE = "share"
SHARE_ASSIGNOR = "simple"


def listed(
    groups: Iterable[Group | ShareGroup], states: Iterable[str], types: Iterable[str]
) -> list[ListedGroup]:
    """Filters are case-insensitive; an empty one lets all through."""
    wanted_states = {state.lower().replace("_", "") for state in states}  # NotReady or not_ready
    wanted_types = {group_type.lower() for group_type in types}
    listed = []
    for group in groups:
        entry = ListedGroup(
            group_id=group.group_id,
            protocol_type=_protocol_type(group),
            group_state=group.state.value if isinstance(group, ClassicGroup) else group.state,
            group_type=_type(group),
        )
        if wanted_states and entry.group_state.lower() not in wanted_states:
            continue
        if wanted_types and entry.group_type not in wanted_types:
            continue
        listed.append(entry)
    return listed


def _type(group: Group | ShareGroup) -> str:
    match group:
        case ClassicGroup():
            return "classic"
        case ShareGroup():
            return SHARE
        case StreamsGroup():
            return STREAMS
    return CONSUMER


def _protocol_type(group: Group | ShareGroup) -> str:
    if isinstance(group, ShareGroup | StreamsGroup):
        return _type(group)
    return (group.protocol_type or "") if isinstance(group, ClassicGroup) else CONSUMER


def described_classic(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    if not isinstance(group, ClassicGroup):
        return _absent(group_id, group, version)
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ],
    )


def _absent(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    is_an_error = version >= NOT_FOUND_ERROR_FROM
    message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
    return DescribedGroup(
        group_id=group_id,
        group_state=State.DEAD.value,
        error_code=errors.GroupIdNotFound.code if is_an_error else errors.NONE,
        error_message=message if is_an_error else None,
    )


def described_consumer(
    group_id: str, group: Group | None, environment: Environment
) -> consumer.DescribedGroup:
    if not isinstance(group, ConsumerGroup):
        message = (
            f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        )
        return consumer.DescribedGroup(
            group_id=group_id, error_code=errors.GroupIdNotFound.code, error_message=message
        )
    return consumer.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, environment.settings.group_consumer_assignors[0]),
        members=[_member(group, member, environment) for member in group.members.values()],
    )


def preferred_assignor(group: ConsumerGroup, default: str) -> str:
    """What most members ask for; those who ask for nothing have no vote."""
    votes: dict[str, int] = {}
    for member in group.members.values():
        name = member.metadata.server_assignor
        if name:
            votes[name] = votes.get(name, 0) + 1
    return max(votes, key=votes.__getitem__) if votes else default


def _member(group: ConsumerGroup, member: ConsumerMember, environment: Environment) -> consumer.Member:
    metadata = member.metadata
    return consumer.Member(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.subscribed_topic_names),
        subscribed_topic_regex=metadata.subscribed_topic_regex or "",
        assignment=_assignment(member.assigned_partitions, environment),
        target_assignment=_assignment(group.target_of(member.member_id), environment),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, environment: Environment) -> consumer.Assignment:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    named = [
        (topic_id, environment.topics.topic_name(topic_id), partitions)
        for topic_id, partitions in topics.items()
    ]
    return consumer.Assignment(
        topic_partitions=[
            consumer.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=partitions)
            for topic_id, name, partitions in named
            if name is not None  # deleted meanwhile
        ]
    )


def described_share(
    group_id: str, group: ShareGroup | None, environment: Environment
) -> share.DescribedGroup:
    if group is None:
        return share.DescribedGroup(
            group_id=group_id,
            group_state=State.DEAD.value,
            error_code=errors.GroupIdNotFound.code,
            error_message=f"Group {group_id} not found.",
        )
    return share.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SHARE_ASSIGNOR,
        members=[_share_member(member, environment) for member in group.members.values()],
    )


def _share_member(member: ShareMember, environment: Environment) -> share.Member:
    assignment = _assignment(member.assigned, environment)
    return share.Member(
        member_id=member.member_id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=list(member.metadata.subscribed_topic_names),
        assignment=share.Assignment(
            topic_partitions=[
                share.TopicPartitions(
                    topic_id=topic.topic_id, topic_name=topic.topic_name, partitions=topic.partitions
                )
                for topic in assignment.topic_partitions
            ]
        ),
    )
