"""Streams groups as administrators see them: StreamsGroupDescribe 0."""

from collections.abc import Sequence

from ottla import errors
from ottla.coordination.groups.streams import records as r
from ottla.coordination.groups.streams import topology as t
from ottla.coordination.groups.streams.group import StreamsGroup, StreamsMember
from ottla.coordination.groups.streams.heartbeat import by_subtopology
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def unknown(group_id: str, *, is_there: bool) -> DescribedGroup:
    return DescribedGroup(
        group_id=group_id,
        error_code=errors.GroupIdNotFound.code,
        error_message=f"Group {group_id} {'is not a streams group' if is_there else 'not found'}.",
    )


def described(group: StreamsGroup, configured: t.ConfiguredTopology | None) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group, configured),
        members=[_member(member, group.target_of(member.member_id)) for member in group.members.values()],
    )


def _topology(group: StreamsGroup, configured: t.ConfiguredTopology | None) -> Topology | None:
    """With the partitions that the broker has decided on; before that, as the members sent it."""
    if group.topology is None:
        return None
    parts: Sequence[r.Subtopology | t.ConfiguredSubtopology] = group.topology.subtopologies
    if configured is not None and configured.is_ready:
        parts = configured.subtopologies
    rows = [
        Subtopology(
            subtopology_id=part.subtopology_id,
            source_topics=sorted(part.source_topics),
            repartition_sink_topics=sorted(part.repartition_sinks),
            repartition_source_topics=_topics(part.repartition_sources),
            state_changelog_topics=_topics(part.changelogs),
        )
        for part in sorted(parts, key=lambda part: part.subtopology_id)
    ]
    return Topology(epoch=group.topology.epoch, subtopologies=rows)


def _topics(topics: Sequence[r.TopicInfo | t.InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda internal: internal.name)
    ]


def _member(member: StreamsMember, target: r.TasksByRole) -> Member:
    metadata, held = member.metadata, member.assigned
    endpoint = metadata.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in metadata.client_tags],
        assignment=_assignment(r.TasksByRole(held.active_tasks, held.standby, held.warmup)),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: r.TasksByRole) -> Assignment:
    return Assignment(
        active_tasks=_rows(tasks.active),
        standby_tasks=_rows(tasks.standby),
        warmup_tasks=_rows(tasks.warmup),
    )


def _rows(tasks: r.Tasks) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=numbers)
        for subtopology_id, numbers in by_subtopology(tasks).items()
    ]
