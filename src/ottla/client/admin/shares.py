"""Share groups: who is in them, and how far they have got. As coroutines; `Admin` runs them."""

from collections.abc import Mapping

from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.values import TopicPartition
from ottla.frozen import frozen
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


@frozen
class ShareGroup:
    group_id: str
    state: str
    epoch: int
    members: tuple[ShareMember, ...]


@frozen
class ShareProgress:
    """Everything before `start_offset` is done with; -1 where nobody has fetched yet."""

    start_offset: int
    lag: int


async def describe(cluster: Cluster, group: str) -> ShareGroup:
    async def ask() -> ShareGroup:
        answer = await cluster.ask_coordinator(GROUP, group, ShareGroupDescribeRequest(group_ids=[group]))
        (told,) = answer.groups
        check(told)
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
            )
            for member in told.members
        )
        return ShareGroup(group, told.group_state, told.group_epoch, members)

    return await cluster.retrying(ask, f"describing share group {group}")


async def progress(cluster: Cluster, group: str) -> Mapping[TopicPartition, ShareProgress]:
    async def ask() -> Mapping[TopicPartition, ShareProgress]:
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[wanted])
        answer = await cluster.ask_coordinator(GROUP, group, request)
        (told,) = answer.groups
        check(told)
        return {
            TopicPartition(topic.topic_name, part.partition_index): ShareProgress(part.start_offset, part.lag)
            for topic in told.topics
            for part in topic.partitions
            if not part.error_code
        }

    return await cluster.retrying(ask, f"asking how far share group {group} has got")
