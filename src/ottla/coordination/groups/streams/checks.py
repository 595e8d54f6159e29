"""A StreamsGroupHeartbeat by itself: what is wrong with it, and what it says. The texts are Kafka's."""

from collections.abc import Sequence
from dataclasses import replace

from ottla import errors
from ottla.coordination.groups.environment import Client
from ottla.coordination.groups.streams import records as r
from ottla.coordination.groups.streams.group import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from ottla.coordination.groups.streams.topology import ConfiguredTopology
from ottla.wire.messages import streams_group_heartbeat as wire
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

TOPOLOGY_NAMES_MAX = 10_000  # of topics and of members of co-partition groups, all sub-topologies together


def check_size(topology: wire.Topology | None) -> None:
    """Everybody waits while a topology is looked at."""
    size = 0 if topology is None else sum(map(_size, topology.subtopologies))
    if size > TOPOLOGY_NAMES_MAX:
        raise errors.StreamsInvalidTopology(
            f"The topology names {size} topics and members of copartition groups; {TOPOLOGY_NAMES_MAX} are allowed."
        )


def _size(part: wire.Subtopology) -> int:
    groups = part.copartition_groups
    return (
        1
        + len(part.source_topics)
        + len(part.repartition_sink_topics)
        + len(part.repartition_source_topics)
        + len(part.state_changelog_topics)
        + len(groups)
        + sum(len(group.source_topics) + len(group.repartition_source_topics) for group in groups)
    )


def validate(request: StreamsGroupHeartbeatRequest) -> None:
    _check_supported(request)
    _refuse_if(not request.member_id.strip(), "MemberId can't be empty.")
    _refuse_if(not request.group_id.strip(), "GroupId can't be empty.")
    _refuse_if(request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty.")
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == JOIN_EPOCH:
        _refuse_if(
            request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."
        )
        for name, tasks in zip(("Active", "Standby", "Warmup"), roles, strict=True):
            _refuse_if(tasks is None or len(tasks) > 0, f"{name}Tasks must be empty when (re-)joining.")
        if request.topology is None:
            raise errors.InvalidRequest("Topology must be non-null when (re-)joining.")
        _check_topology(request.topology)
        return
    _refuse_if(request.member_epoch == LEAVE_STATIC_EPOCH, "InstanceId can't be null.")
    _refuse_if(
        request.member_epoch < LEAVE_STATIC_EPOCH,
        f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.",
    )
    _refuse_if(
        None in roles and any(tasks is not None for tasks in roles),
        "If one task-type is non-null, all must be non-null.",
    )
    _refuse_if(request.topology is not None, "Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    """What Kafka 4.3 has in the protocol, and not in the broker."""
    _refuse_if(request.instance_id is not None, "Static membership is not yet supported.")
    _refuse_if(request.task_offsets is not None, "TaskOffsets are not supported yet.")
    _refuse_if(request.task_end_offsets is not None, "TaskEndOffsets are not supported yet.")
    _refuse_if(bool(request.warmup_tasks), "WarmupTasks are not supported yet.")
    for part in request.topology.subtopologies if request.topology is not None else ():
        _refuse_if(
            bool(part.source_topic_regex), "Regular expressions for source topics are not supported yet."
        )


def _check_topology(topology: wire.Topology) -> None:
    _refuse_if(topology.epoch < 0, "Topology epoch must be non-negative.")
    seen = set()
    for part in topology.subtopologies:
        for topic in part.state_changelog_topics:
            if topic.partitions:
                raise errors.StreamsInvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                    f"{topic.partitions}."
                )
        if part.subtopology_id in seen:
            raise errors.StreamsInvalidTopology(f"Subtopology {part.subtopology_id} is there twice.")
        seen.add(part.subtopology_id)
        for source in part.repartition_source_topics:
            if source.partitions < 0:
                raise errors.StreamsInvalidTopology(
                    f"Repartition topic {source.name} cannot have {source.partitions} partitions."
                )
        for group in part.copartition_groups:
            _check_indexes(part, group.source_topics, len(part.source_topics))
            _check_indexes(part, group.repartition_source_topics, len(part.repartition_source_topics))


def _check_indexes(part: wire.Subtopology, indexes: Sequence[int], count: int) -> None:
    for index in indexes:
        if not 0 <= index < count:
            raise errors.StreamsInvalidTopology(
                f"A copartition group of subtopology {part.subtopology_id} names topic {index} of {count}."
            )


def check_tasks(owned: r.TasksByRole | None, topology: ConfiguredTopology) -> None:
    """The tasks that a member says it has are ones of the topology."""
    if owned is None:
        return
    parts = topology.by_id()
    for subtopology_id, number in sorted(owned.active | owned.standby | owned.warmup):
        part = parts.get(subtopology_id)
        if part is None:
            raise errors.InvalidRequest(f"Subtopology {subtopology_id} does not exist in the topology.")
        if not 0 <= number < part.tasks:
            raise errors.InvalidRequest(
                f"Task {number} for subtopology {subtopology_id} is invalid. Number of tasks for this "
                f"subtopology: {part.tasks}"
            )


def owned_tasks(request: StreamsGroupHeartbeatRequest) -> r.TasksByRole | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return r.TasksByRole(
        _tasks(request.active_tasks), _tasks(request.standby_tasks), _tasks(request.warmup_tasks)
    )


def _tasks(rows: list[wire.TaskIds]) -> r.Tasks:
    return frozenset((row.subtopology_id, number) for row in rows for number in row.partitions)


def topology_of(topology: wire.Topology) -> r.TopologyValue:
    return r.TopologyValue(
        topology.epoch,
        tuple(
            r.Subtopology(
                part.subtopology_id,
                tuple(part.source_topics),
                tuple(part.source_topic_regex),
                _topics(part.state_changelog_topics),
                tuple(part.repartition_sink_topics),
                _topics(part.repartition_source_topics),
                tuple(
                    r.CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in part.copartition_groups
                ),
            )
            for part in topology.subtopologies
        ),
    )


def _topics(topics: list[wire.TopicInfo]) -> tuple[r.TopicInfo, ...]:
    return tuple(
        r.TopicInfo(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple((config.key, config.value) for config in topic.topic_configs or ()),
        )
        for topic in topics
    )


def described_by(old: r.MemberValue, request: StreamsGroupHeartbeatRequest, client: Client) -> r.MemberValue:
    """The member, of which only what the request carries is news."""
    endpoint, timeout_ms = request.user_endpoint, request.rebalance_timeout_ms
    tags = old.client_tags
    if request.client_tags is not None:
        tags = tuple(sorted({tag.key: tag.value for tag in request.client_tags}.items()))
    return replace(
        old,
        rack_id=request.rack_id if request.rack_id is not None else old.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else old.rebalance_timeout_ms,
        topology_epoch=request.topology.epoch if request.topology is not None else old.topology_epoch,
        process_id=request.process_id if request.process_id is not None else old.process_id,
        user_endpoint=(endpoint.host, endpoint.port) if endpoint is not None else old.user_endpoint,
        client_tags=tags,
    )


def _refuse_if(wrong: bool, text: str) -> None:
    if wrong:
        raise errors.InvalidRequest(text)
