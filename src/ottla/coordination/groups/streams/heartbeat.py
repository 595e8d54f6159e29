"""The answer to a StreamsGroupHeartbeat, put together from the group."""

from ottla.coordination.groups.streams import records as r
from ottla.coordination.groups.streams import topology as t
from ottla.coordination.groups.streams.group import StreamsGroup, StreamsMember
from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.wire.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    ResponseTaskIds,
    Status,
    StreamsGroupHeartbeatResponse,
    TopicPartition,
)


@frozen
class HeartbeatAnswer:
    """`missing` are internal topics for the broker to create."""

    response: StreamsGroupHeartbeatResponse
    missing: tuple[t.InternalTopic, ...] = ()


def refusal(error: ProtocolError) -> StreamsGroupHeartbeatResponse:
    """As Kafka leaves it: no statuses, and null where nothing is assigned."""
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message, status=[])


def statuses(
    group: StreamsGroup,
    member: StreamsMember,
    ready: t.ConfiguredTopology,
    why_delayed: str | None,
    shutdown_by: str | None,
) -> list[Status]:
    statuses: list[tuple[int, str]] = []
    mine = member.metadata.topology_epoch
    if group.topology is not None and mine < group.topology.epoch:
        statuses.append(
            (
                t.STALE_TOPOLOGY,
                f"The member's topology epoch {mine} is behind the group's topology epoch {group.topology.epoch}.",
            )
        )
    if why_delayed is not None:
        statuses.append((t.ASSIGNMENT_DELAYED, why_delayed))
    if ready.status is not None:
        statuses.append(ready.status)
    if shutdown_by is not None:
        statuses.append(
            (
                t.SHUTDOWN_APPLICATION,
                f"Streams group member {shutdown_by} encountered a fatal error and requested a shutdown for the "
                "entire application.",
            )
        )
    return [Status(status_code=code, status_detail=detail) for code, detail in statuses]


def task_rows(tasks: r.Tasks) -> list[ResponseTaskIds]:
    return [
        ResponseTaskIds(subtopology_id=subtopology_id, partitions=numbers)
        for subtopology_id, numbers in by_subtopology(tasks).items()
    ]


def by_subtopology(tasks: r.Tasks) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for subtopology_id, number in sorted(tasks):
        rows.setdefault(subtopology_id, []).append(number)
    return rows


def endpoints(
    group: StreamsGroup, member: StreamsMember, topology: t.ConfiguredTopology | None, count: t.Count
) -> list[EndpointToPartitions]:
    """Of all members that can be queried; the asking one last, as in Kafka."""
    others = [queried for queried in group.members.values() if queried.member_id != member.member_id]
    parts = {} if topology is None else topology.by_id()
    rows = []
    for queried in (*others, member):
        if queried.metadata.user_endpoint is not None:
            host, port = queried.metadata.user_endpoint
            rows.append(
                EndpointToPartitions(
                    user_endpoint=ResponseEndpoint(host=host, port=port),
                    active_partitions=_partitions(queried.assigned.active_tasks, parts, count),
                    standby_partitions=_partitions(queried.assigned.standby, parts, count),
                )
            )
    return rows


def _partitions(
    tasks: r.Tasks, parts: dict[str, t.ConfiguredSubtopology], count: t.Count
) -> list[TopicPartition]:
    rows = []
    for subtopology_id, numbers in by_subtopology(tasks).items():
        part = parts.get(subtopology_id)
        for name in part.inputs if part is not None else ():
            there = [number for number in numbers if number < count(name)]
            if there:
                rows.append(TopicPartition(topic=name, partitions=there))
    return rows
