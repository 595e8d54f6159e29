"""The records of `__consumer_offsets` as values. A `value` of None is a tombstone."""

from ottla.coordination.groups.streams.records import StreamsGroupRecord
from ottla.frozen import frozen

TopicPartition = tuple[bytes, int]  # topic id, partition
Partitions = frozenset[TopicPartition]

NO_TOPIC_ID = bytes(16)
NO_PARTITIONS: Partitions = frozenset()


@frozen
class OffsetCommitValue:
    offset: int
    metadata: str
    commit_timestamp_ms: int
    leader_epoch: int = -1
    expire_timestamp_ms: int = -1  # only ever written by old clients' retention times
    topic_id: bytes = NO_TOPIC_ID


@frozen
class OffsetCommit:
    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


@frozen
class ClassicMemberValue:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@frozen
class GroupMetadataValue:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[ClassicMemberValue, ...] = ()


@frozen
class GroupMetadata:
    group_id: str
    value: GroupMetadataValue | None


@frozen
class ConsumerGroupMetadataValue:
    epoch: int
    metadata_hash: int = 0


@frozen
class ConsumerGroupMetadata:
    group_id: str
    value: ConsumerGroupMetadataValue | None


@frozen
class PartitionMetadata:
    """Written by Apache Kafka up to 4.0; read and ignored."""

    group_id: str


@frozen
class ClassicMemberMetadata:
    """What a member that still speaks the classic protocol told us."""

    session_timeout_ms: int
    supported_protocols: tuple[tuple[str, bytes], ...]


@frozen
class MemberMetadataValue:
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None = None


@frozen
class MemberMetadata:
    group_id: str
    member_id: str
    value: MemberMetadataValue | None


@frozen
class TargetAssignmentMetadataValue:
    assignment_epoch: int
    assignment_timestamp_ms: int = 0


@frozen
class TargetAssignmentMetadata:
    group_id: str
    value: TargetAssignmentMetadataValue | None


@frozen
class TargetAssignmentMember:
    group_id: str
    member_id: str
    value: Partitions | None


@frozen
class CurrentMemberAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: tuple[tuple[TopicPartition, int], ...]  # with the epoch at which each was assigned
    pending_revocation: tuple[tuple[TopicPartition, int], ...] = ()


@frozen
class CurrentMemberAssignment:
    group_id: str
    member_id: str
    value: CurrentMemberAssignmentValue | None


@frozen
class RegularExpressionValue:
    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


@frozen
class RegularExpression:
    group_id: str
    regex: str
    value: RegularExpressionValue | None


ConsumerRecord = (
    ConsumerGroupMetadata
    | MemberMetadata
    | TargetAssignmentMetadata
    | TargetAssignmentMember
    | CurrentMemberAssignment
    | RegularExpression
)


# Share groups


@frozen
class ShareMemberMetadataValue:
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]


@frozen
class ShareMemberMetadata:
    group_id: str
    member_id: str
    value: ShareMemberMetadataValue | None


@frozen
class ShareGroupMetadata:
    group_id: str
    value: ConsumerGroupMetadataValue | None


@frozen
class ShareTargetAssignmentMetadata:
    group_id: str
    value: TargetAssignmentMetadataValue | None


@frozen
class ShareTargetAssignmentMember:
    group_id: str
    member_id: str
    value: Partitions | None


@frozen
class ShareCurrentAssignmentValue:
    member_epoch: int
    previous_member_epoch: int
    assigned: Partitions


@frozen
class ShareCurrentAssignment:
    group_id: str
    member_id: str
    value: ShareCurrentAssignmentValue | None


@frozen
class ShareStatePartitionsValue:
    """Topics of which the group has states: (topic id, name, partitions)."""

    initialized: tuple[tuple[bytes, str, tuple[int, ...]], ...]


@frozen
class ShareStatePartitions:
    group_id: str
    value: ShareStatePartitionsValue | None


ShareGroupRecord = (
    ShareMemberMetadata
    | ShareGroupMetadata
    | ShareTargetAssignmentMetadata
    | ShareTargetAssignmentMember
    | ShareCurrentAssignment
    | ShareStatePartitions
)
GroupRecord = (
    OffsetCommit | GroupMetadata | PartitionMetadata | ConsumerRecord | ShareGroupRecord | StreamsGroupRecord
)
