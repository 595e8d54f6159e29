"""The records of streams groups as values. A `value` of None is a tombstone."""

from ottla.frozen import frozen

Task = tuple[str, int]  # sub-topology id, partition
Tasks = frozenset[Task]
NO_TASKS: Tasks = frozenset()


@frozen
class TasksByRole:
    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS


@frozen
class Held:
    """Tasks of a member; with the epoch at which each active one was assigned."""

    active: tuple[tuple[Task, int], ...] = ()
    standby: Tasks = NO_TASKS
    warmup: Tasks = NO_TASKS

    @property
    def active_tasks(self) -> Tasks:
        return frozenset(task for task, _ in self.active)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


NOTHING_WANTED = TasksByRole()
NOTHING_HELD = Held()


@frozen
class GroupValue:
    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = -1
    assignment_configs: tuple[tuple[str, str], ...] = ()


@frozen
class StreamsGroupMetadata:
    group_id: str
    value: GroupValue | None


@frozen
class MemberValue:
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


@frozen
class StreamsMemberMetadata:
    group_id: str
    member_id: str
    value: MemberValue | None


@frozen
class TargetValue:
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@frozen
class StreamsTargetMetadata:
    group_id: str
    value: TargetValue | None


@frozen
class StreamsTargetMember:
    group_id: str
    member_id: str
    value: TasksByRole | None


@frozen
class CurrentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Held = NOTHING_HELD
    pending_revocation: Held = NOTHING_HELD


@frozen
class StreamsCurrentAssignment:
    group_id: str
    member_id: str
    value: CurrentValue | None


@frozen
class TopicInfo:
    """An internal topic; 0 partitions or replicas: not said."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@frozen
class CopartitionGroup:
    """Indexes into the lists of the sub-topology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@frozen
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    changelogs: tuple[TopicInfo, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.source_topics, *(topic.name for topic in self.repartition_sources))


@frozen
class TopologyValue:
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def required_topics(self) -> frozenset[str]:
        names = {name for part in self.subtopologies for name in part.inputs}
        return frozenset(names | {topic.name for part in self.subtopologies for topic in part.changelogs})

    def readers(self) -> dict[str, str]:
        """By topic, the first sub-topology that reads it."""
        return {name: part.subtopology_id for part in reversed(self.subtopologies) for name in part.inputs}


@frozen
class StreamsTopology:
    group_id: str
    value: TopologyValue | None


StreamsGroupRecord = (
    StreamsGroupMetadata
    | StreamsMemberMetadata
    | StreamsTargetMetadata
    | StreamsTargetMember
    | StreamsCurrentAssignment
    | StreamsTopology
)
