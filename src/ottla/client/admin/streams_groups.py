"""Streams groups: their topology, who is in them, and the tasks of each. As coroutines; `Admin` runs them."""

from ottla.client.core.cluster import GROUP, Cluster
from ottla.client.core.dialogue import check
from ottla.client.values import TopicPartition
from ottla.frozen import frozen
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    StreamsGroupDescribeRequest,
    Subtopology,
    TaskIds,
)

Tasks = tuple[tuple[str, tuple[int, ...]], ...]  # the partitions of each sub-topology


@frozen
class StreamsTasks:
    active: Tasks
    standby: Tasks
    warmup: Tasks


@frozen
class StreamsMember:
    member_id: str
    process_id: str
    client_id: str
    host: str
    epoch: int
    is_classic: bool
    tasks: StreamsTasks
    target: StreamsTasks


@frozen
class StreamsSubtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sources: tuple[str, ...]
    changelogs: tuple[str, ...]


@frozen
class StreamsGroup:
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[StreamsSubtopology, ...]
    members: tuple[StreamsMember, ...]

    def partitions_of(self, tasks: StreamsTasks) -> tuple[TopicPartition, ...]:
        """What active tasks read."""
        inputs = {
            part.subtopology_id: (*part.source_topics, *part.repartition_sources)
            for part in self.subtopologies
        }
        return tuple(
            TopicPartition(topic, number)
            for subtopology_id, numbers in tasks.active
            for topic in inputs.get(subtopology_id, ())
            for number in numbers
        )

    @property
    def internal_topics(self) -> list[str]:
        """Without source topics, which an optimized topology has for changelogs."""
        names = {
            name for part in self.subtopologies for name in (*part.repartition_sources, *part.changelogs)
        }
        return sorted(names - {name for part in self.subtopologies for name in part.source_topics})


async def describe(cluster: Cluster, group: str) -> StreamsGroup:
    async def ask() -> StreamsGroup:
        request = StreamsGroupDescribeRequest(group_ids=[group])
        (described,) = (await cluster.ask_coordinator(GROUP, group, request)).groups
        check(described)
        topology = described.topology
        parts = topology.subtopologies or () if topology is not None else ()
        members = tuple(
            StreamsMember(
                member.member_id,
                member.process_id,
                member.client_id,
                member.client_host,
                member.member_epoch,
                member.is_classic,
                _tasks(member.assignment),
                _tasks(member.target_assignment),
            )
            for member in described.members
        )
        return StreamsGroup(
            group,
            described.group_state,
            described.group_epoch,
            described.assignment_epoch,
            -1 if topology is None else topology.epoch,
            tuple(_subtopology(part) for part in parts),
            members,
        )

    return await cluster.retrying(ask, f"streams group {group} could not be described")


def _subtopology(part: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(topic.name for topic in part.repartition_source_topics),
        tuple(topic.name for topic in part.state_changelog_topics),
    )


def _tasks(assignment: Assignment) -> StreamsTasks:
    return StreamsTasks(
        _rows(assignment.active_tasks), _rows(assignment.standby_tasks), _rows(assignment.warmup_tasks)
    )


def _rows(rows: list[TaskIds]) -> Tasks:
    return tuple((row.subtopology_id, tuple(row.partitions)) for row in rows)
