"""Where partitions begin and end, what lies at a time, and what groups have committed."""

from collections.abc import Iterable, Mapping

from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.core.leaders import ask_leaders
from ottla.client.values import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ottla.errors import (
    NAMES,
    FencedMemberEpoch,
    IllegalGeneration,
    OttlaError,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
    UnstableOffsetCommit,
    error_for,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
_UNSTABLE = "an open transaction is about to replace the committed offset (UNSTABLE_OFFSET_COMMIT)"
_OUTDATED = (UnknownMemberId, IllegalGeneration, RebalanceInProgress, StaleMemberEpoch, FencedMemberEpoch)
# Special timestamps came with versions of their own.
_AT_LEAST = {MAX_TIMESTAMP: 7}


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, committed_only: bool = False
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """For each partition the first offset at or after a timestamp (or EARLIEST, LATEST, MAX_TIMESTAMP).

    The offset is -1 when there is no such record.
    """
    at_least = max([_AT_LEAST.get(stamp, 1) for stamp in wanted.values()] + [2 if committed_only else 1])

    async def ask(
        node: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndTimestamp | OttlaError]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=p, timestamp=wanted[TopicPartition(topic, p)])
                    for p in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed_only),
            topics=topics,
            timeout_ms=cluster.settings.request_timeout_ms,
        )
        answer = await cluster.ask(request, node, at_least=at_least)
        return {
            TopicPartition(topic.name, p.partition_index): error_for(p.error_code)
            if p.error_code
            else OffsetAndTimestamp(p.offset, p.timestamp, p.leader_epoch)
            for topic in answer.topics
            for p in topic.partitions
        }

    return await ask_leaders(cluster, wanted, ask, "offsets could not be listed")


async def committed(
    cluster: Cluster,
    group: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool = False,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group has committed, for some partitions or (None) all; only what has a commit."""
    topics = None if partitions is None else by_topic(partitions)
    request = OffsetFetchRequest(group_id=group, require_stable=require_stable)
    request.topics = None
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=member_epoch)
    asked.topics = None
    if topics is not None:
        request.topics = [OffsetFetchRequestTopic(name=t, partition_indexes=i) for t, i in topics.items()]
        asked.topics = [OffsetFetchRequestTopics(name=t, partition_indexes=i) for t, i in topics.items()]
    request.groups = [asked]

    async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        # Version 10 speaks of topic ids alone; names outlive them in what was committed.
        answer = await cluster.ask_coordinator(GROUP, group, request, at_least=2, at_most=9)
        group_answer = answer.groups[0] if answer.groups else answer
        check(group_answer)
        committed: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in group_answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    reason = (
                        _UNSTABLE if p.error_code == UnstableOffsetCommit.code else NAMES.get(p.error_code)
                    )
                    raise error_for(p.error_code, f"{topic.name}-{p.partition_index}: {reason}")
                if p.committed_offset >= 0:
                    committed[TopicPartition(topic.name, p.partition_index)] = OffsetAndMetadata(
                        p.committed_offset, p.metadata or "", p.committed_leader_epoch
                    )
        return committed

    return await cluster.retrying(attempt, f"the offsets of group {group} could not be read")


async def commit(
    cluster: Cluster,
    member: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    once: bool = False,
) -> None:
    """Commits for a member of a group, or (generation -1) from outside an empty one. `once`: no retry."""
    if not offsets:
        return
    request = _commit_request(member, offsets)

    async def attempt() -> None:
        answer = await cluster.ask_coordinator(GROUP, member.group_id, request, at_most=9)
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    raise _refusal(p.error_code, member.group_id, f"{topic.name}-{p.partition_index}")

    if not once:
        await cluster.retrying(attempt, f"offsets of group {member.group_id} could not be committed")
        return
    try:
        await attempt()
    except OttlaError as error:
        cluster.forget_stale(error)
        raise


def _commit_request(
    member: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=p,
                    committed_offset=offsets[TopicPartition(topic, p)].offset,
                    committed_leader_epoch=offsets[TopicPartition(topic, p)].leader_epoch,
                    committed_metadata=offsets[TopicPartition(topic, p)].metadata,
                )
                for p in indexes
            ],
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        retention_time_ms=-1,
        topics=topics,
    )


def left_group(group: str) -> str:
    return (
        f"this consumer is no longer the member of group {group} that it was; its records may be somebody "
        "else's by now; poll to rejoin. If processing takes long, raise max.poll.interval.ms or lower "
        "max.poll.records"
    )


def _refusal(code: int, group: str, partition: str) -> OttlaError:
    """A commit that comes too late: what happened, and what to do."""
    error = error_for(code)
    if isinstance(error, _OUTDATED):
        return type(error)(f"{partition}: {left_group(group)}")
    return error_for(code, f"{partition}: {NAMES.get(code, code)}")


async def end_offsets_of_epochs(
    cluster: Cluster, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    """Where each partition's leader says that a leader epoch ended: (epoch, end offset); -1: unknown."""
    from ottla.wire.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    async def ask(
        node: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int] | OttlaError]:
        topics = [
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=p,
                        current_leader_epoch=cluster.image.leader_of(topic, p).leader_epoch,
                        leader_epoch=epochs[TopicPartition(topic, p)],
                    )
                    for p in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        answer = await cluster.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), node)
        return {
            TopicPartition(t.topic, p.partition): error_for(p.error_code)
            if p.error_code
            else (p.leader_epoch, p.end_offset)
            for t in answer.topics
            for p in t.partitions
        }

    return await ask_leaders(cluster, epochs, ask, "leader epochs could not be checked")


def by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Partitions as requests carry them: indexes under their topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
