"""Groups: who is in them, what they own, what they have committed."""

from collections.abc import Iterable, Mapping

from ottla import errors
from ottla.client.admin import streams_groups
from ottla.client.core.cluster import GROUP, Broker, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.leaders import all_of
from ottla.client.core.offsets import by_topic, commit, committed
from ottla.client.core.subscriptions import decode_assignment
from ottla.client.errors import NotSupported
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.errors import OttlaError, error_for
from ottla.frozen import frozen
from ottla.wire.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


@frozen
class ListedGroup:
    id: str
    protocol_type: str
    state: str
    type: str


@frozen
class Member:
    id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: tuple[TopicPartition, ...]
    # Of the new protocol alone: how far it has come, and what it shall own in the end.
    epoch: int = -1
    target: tuple[TopicPartition, ...] = ()


@frozen
class Group:
    id: str
    state: str
    type: str
    protocol_type: str
    assignor: str
    members: tuple[Member, ...]
    epoch: int = -1
    assignment_epoch: int = -1

    def owner_of(self, partition: TopicPartition) -> Member | None:
        return next((member for member in self.members if partition in member.assignment), None)


async def list_groups(
    cluster: Cluster, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[ListedGroup]:
    """All groups of all brokers: each broker knows those that it coordinates."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    at_least = 5 if request.types_filter else 4 if request.states_filter else 0

    async def ask(node: int) -> list[ListedGroup]:
        answer = await cluster.ask(request, node, at_least=at_least)
        check(answer)
        return [ListedGroup(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups]

    async def attempt() -> list[ListedGroup]:
        await cluster.refresh([])
        by_broker = await all_of(cluster, [ask(node) for node in cluster.image.brokers])
        return sorted((group for groups in by_broker for group in groups), key=lambda group: group.id)

    return await cluster.retrying(attempt, "groups could not be listed")


@frozen
class Survey:
    """A group with its coordinator and commits; None where the coordinator did not tell them."""

    group: ListedGroup
    coordinator: int
    offsets: dict[TopicPartition, OffsetAndMetadata] | None


async def survey(cluster: Cluster, *, batch: int = 100) -> list[Survey]:
    """All groups and what they have committed, with a request for many groups at a time (KIP-709)."""

    async def ask(node: int) -> list[Survey]:
        listed = await cluster.ask(ListGroupsRequest(), node)
        check(listed)
        groups = [
            ListedGroup(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed.groups
        ]
        commits: dict[str, dict[TopicPartition, OffsetAndMetadata] | None] = {}
        for begin in range(0, len(groups), batch):
            commits |= await _commits_at(cluster, node, [group.id for group in groups[begin : begin + batch]])
        return [Survey(group, node, commits.get(group.id)) for group in groups]

    async def attempt() -> list[Survey]:
        await cluster.refresh([])
        by_broker = await all_of(cluster, [ask(node) for node in cluster.image.brokers])
        return sorted(
            (survey for groups in by_broker for survey in groups), key=lambda survey: survey.group.id
        )

    return await cluster.retrying(attempt, "groups could not be listed")


async def describe(cluster: Cluster, group: str) -> Group:
    """By the new protocol's question first, by the old one where the group or the broker is classic."""
    try:
        return await _describe_consumer(cluster, group)
    except (NotSupported, errors.GroupIdNotFound, errors.UnsupportedVersion):
        pass
    try:
        classic = await _describe_classic(cluster, group)
        if classic.state != "Dead":
            return classic
    except errors.GroupIdNotFound:
        classic = None
    try:
        return await _describe_streams(cluster, group)
    except (NotSupported, errors.GroupIdNotFound, errors.UnsupportedVersion):
        if classic is None:
            raise
        return classic


async def coordinator(cluster: Cluster, group: str) -> Broker:
    async def attempt() -> Broker:
        await cluster.refresh([])
        return cluster.image.brokers[await cluster.coordinator(GROUP, group)]

    return await cluster.retrying(attempt, f"the coordinator of group {group} could not be found")


async def delete(cluster: Cluster, group: str) -> None:
    async def attempt() -> None:
        answer = await cluster.ask_coordinator(GROUP, group, DeleteGroupsRequest(groups_names=[group]))
        for result in answer.results:
            if result.error_code:
                raise error_for(result.error_code, f"group {group}: {errors.NAMES.get(result.error_code)}")

    await cluster.retrying(attempt, f"group {group} could not be deleted")


async def alter_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Commits for a group that has no members at the moment."""
    try:
        await commit(cluster, GroupMetadata(group), offsets)
    except (errors.UnknownMemberId, errors.IllegalGeneration, errors.StaleMemberEpoch) as error:
        raise errors.NonEmptyGroup(
            f"group {group} has members; stop them before changing its offsets"
        ) from error


async def delete_offsets(
    cluster: Cluster, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OttlaError | None]:
    """Forgets commits; what became of each partition."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in indexes]
        )
        for topic, indexes in by_topic(partitions).items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)

    async def attempt() -> dict[TopicPartition, OttlaError | None]:
        answer = await cluster.ask_coordinator(GROUP, group, request)
        check(answer)
        return {
            TopicPartition(t.name, p.partition_index): error_for(p.error_code) if p.error_code else None
            for t in answer.topics
            for p in t.partitions
        }

    return await cluster.retrying(attempt, f"offsets of group {group} could not be deleted")


async def remove_members(cluster: Cluster, group: str, members: Iterable[Member]) -> None:
    """Puts members out of a group, static ones too."""
    leaving = [MemberIdentity(member_id=m.id, group_instance_id=m.instance_id) for m in members]

    async def attempt() -> None:
        request = LeaveGroupRequest(group_id=group, members=leaving)
        answer = await cluster.ask_coordinator(GROUP, group, request, at_least=3)
        check(answer)

    await cluster.retrying(attempt, f"members of group {group} could not be removed")


async def _commits_at(
    cluster: Cluster, node: int, groups: list[str]
) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | None]:
    asked = []
    for group in groups:
        wanted = OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1)
        wanted.topics = None
        asked.append(wanted)
    try:
        # Version 10 speaks of topic ids alone; names outlive them in what was committed.
        answer = await cluster.ask(OffsetFetchRequest(groups=asked), node, at_least=8, at_most=9)
    except NotSupported:
        return {group: await committed(cluster, group, None) for group in groups}
    return {
        group.group_id: None
        if group.error_code
        else {
            TopicPartition(topic.name, p.partition_index): OffsetAndMetadata(
                p.committed_offset, p.metadata or "", p.committed_leader_epoch
            )
            for topic in group.topics
            for p in topic.partitions
            if not p.error_code and p.committed_offset >= 0
        }
        for group in answer.groups
    }


async def _describe_consumer(cluster: Cluster, group: str) -> Group:
    async def attempt() -> Group:
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        described = (await cluster.ask_coordinator(GROUP, group, request)).groups[0]
        check(described)
        members = tuple(
            Member(
                m.member_id,
                m.client_id,
                m.client_host,
                m.instance_id,
                _partitions(m.assignment),
                m.member_epoch,
                _partitions(m.target_assignment),
            )
            for m in described.members
        )
        return Group(
            group,
            described.group_state,
            "consumer",
            "consumer",
            described.assignor_name,
            members,
            described.group_epoch,
            described.assignment_epoch,
        )

    return await cluster.retrying(attempt, f"group {group} could not be described")


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(t.topic_name, p) for t in assignment.topic_partitions for p in t.partitions)


async def _describe_streams(cluster: Cluster, group: str) -> Group:
    return from_streams(await streams_groups.describe(cluster, group))


def from_streams(described: streams_groups.StreamsGroup) -> Group:
    """With the partitions that the active tasks of each member read."""
    members = tuple(
        Member(
            member.member_id,
            member.client_id,
            member.host,
            None,
            described.partitions_of(member.tasks),
            member.epoch,
            described.partitions_of(member.target),
        )
        for member in described.members
    )
    return Group(
        described.group_id,
        described.state,
        "streams",
        "streams",
        "sticky",
        members,
        described.epoch,
        described.assignment_epoch,
    )


async def _describe_classic(cluster: Cluster, group: str) -> Group:
    async def attempt() -> Group:
        request = DescribeGroupsRequest(groups=[group])
        described = (await cluster.ask_coordinator(GROUP, group, request)).groups[0]
        check(described)
        members = tuple(
            Member(
                m.member_id,
                m.client_id,
                m.client_host,
                m.group_instance_id,
                tuple(decode_assignment(m.member_assignment))
                if described.protocol_type == "consumer"
                else (),
            )
            for m in described.members
        )
        return Group(
            group, described.group_state, "classic", described.protocol_type, described.protocol_data, members
        )

    return await cluster.retrying(attempt, f"group {group} could not be described")
