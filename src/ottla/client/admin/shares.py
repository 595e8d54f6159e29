"""Share groups: who is in them, and how far they have got. As coroutines; `Admin` runs them."""

from collections.abc import Iterable, Mapping

from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.values import TopicPartition
from ottla.errors import ProtocolError, error_for
from ottla.frozen import frozen
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest


@frozen
class ShareMember:
    member_id: str
    client_id: str
    host: str
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    epoch: int = -1


@frozen
class ShareGroup:
    group_id: str
    state: str
    epoch: int
    members: tuple[ShareMember, ...]
    assignment_epoch: int = -1


@frozen
class ShareProgress:
    """Everything before `start_offset` is done with; -1 where nobody has fetched yet."""

    start_offset: int
    lag: int
    leader_epoch: int = -1


async def describe(cluster: Cluster, group: str) -> ShareGroup:
    async def ask() -> ShareGroup:
        answer = await cluster.ask_coordinator(GROUP, group, ShareGroupDescribeRequest(group_ids=[group]))
        (described,) = answer.groups
        check(described)
        members = tuple(
            ShareMember(
                member.member_id,
                member.client_id,
                member.client_host,
                tuple(member.subscribed_topic_names),
                tuple(
                    TopicPartition(topic.topic_name, number)
                    for topic in member.assignment.topic_partitions
                    for number in topic.partitions
                ),
                member.member_epoch,
            )
            for member in described.members
        )
        return ShareGroup(
            group, described.group_state, described.group_epoch, members, described.assignment_epoch
        )

    return await cluster.retrying(ask, f"describing share group {group}")


async def progress(cluster: Cluster, group: str) -> Mapping[TopicPartition, ShareProgress]:
    async def ask() -> Mapping[TopicPartition, ShareProgress]:
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[wanted])
        answer = await cluster.ask_coordinator(GROUP, group, request)
        (offsets,) = answer.groups
        check(offsets)
        return {
            TopicPartition(topic.topic_name, part.partition_index): ShareProgress(
                part.start_offset, part.lag, part.leader_epoch
            )
            for topic in offsets.topics
            for part in topic.partitions
            if not part.error_code
        }

    return await cluster.retrying(ask, f"asking how far share group {group} has got")


async def alter_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """The group, which must have no members, begins again at these."""

    async def ask() -> None:
        topics: dict[str, AlterShareGroupOffsetsRequestTopic] = {}
        for (name, number), offset in sorted(offsets.items()):
            topic = topics.setdefault(name, AlterShareGroupOffsetsRequestTopic(topic_name=name))
            topic.partitions.append(
                AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
            )
        request = AlterShareGroupOffsetsRequest(group_id=group, topics=list(topics.values()))
        answer = await cluster.ask_coordinator(GROUP, group, request)
        check(answer)
        for topic_result in answer.responses:
            for part in topic_result.partitions:
                check(part)

    await cluster.retrying(ask, f"setting the offsets of share group {group}")


async def delete_offsets(
    cluster: Cluster, group: str, topics: Iterable[str]
) -> dict[str, ProtocolError | None]:
    """What failed, by topic."""
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]

    async def ask() -> dict[str, ProtocolError | None]:
        request = DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted)
        answer = await cluster.ask_coordinator(GROUP, group, request)
        check(answer)
        return {
            topic.topic_name: error_for(topic.error_code, topic.error_message) if topic.error_code else None
            for topic in answer.responses
        }

    return await cluster.retrying(ask, f"deleting offsets of share group {group}")
