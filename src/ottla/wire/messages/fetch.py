"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Buffer, Field, Message, Request


class FetchPartition(Message):
    __slots__ = ('partition', 'current_leader_epoch', 'fetch_offset', 'last_fetched_epoch', 'log_start_offset', 'partition_max_bytes', 'replica_directory_id', 'high_watermark')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('partition', 'int32', '4-18'),
        Field('current_leader_epoch', 'int32', '9-18'),
        Field('fetch_offset', 'int64', '4-18'),
        Field('last_fetched_epoch', 'int32', '12-18'),
        Field('log_start_offset', 'int64', '5-18'),
        Field('partition_max_bytes', 'int32', '4-18'),
        Field('replica_directory_id', 'uuid', '17-18', tag=0, tagged='17-18'),
        Field('high_watermark', 'int64', '18', tag=1, tagged='18'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition: int = partition
        self.current_leader_epoch: int = current_leader_epoch
        self.fetch_offset: int = fetch_offset
        self.last_fetched_epoch: int = last_fetched_epoch
        self.log_start_offset: int = log_start_offset
        self.partition_max_bytes: int = partition_max_bytes
        self.replica_directory_id: bytes = replica_directory_id
        self.high_watermark: int = high_watermark


class FetchTopic(Message):
    __slots__ = ('topic_id', 'topic', 'partitions')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('topic_id', 'uuid', '13-18'),
        Field('topic', 'string', '4-12'),
        Field('partitions', FetchPartition, '4-18', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic: str = "",
        partitions: list[FetchPartition] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.topic: str = topic
        self.partitions: list[FetchPartition] = [] if partitions is None else partitions


class ReplicaState(Message):
    __slots__ = ('replica_id', 'replica_epoch')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('replica_id', 'int32', '15-18'),
        Field('replica_epoch', 'int64', '15-18'),
    )

    def __init__(
        self,
        *,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id: int = replica_id
        self.replica_epoch: int = replica_epoch


class ForgottenTopic(Message):
    __slots__ = ('topic_id', 'topic', 'partitions')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('topic_id', 'uuid', '13-18'),
        Field('topic', 'string', '7-12'),
        Field('partitions', 'int32', '7-18', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is None else partitions


class FetchRequest(Request["FetchResponse"]):
    __slots__ = ('cluster_id', 'replica_state', 'replica_id', 'max_wait_ms', 'min_bytes', 'max_bytes', 'isolation_level', 'session_id', 'session_epoch', 'topics', 'forgotten_topics_data', 'rack_id')
    FLEXIBLE_FROM = 12
    API_KEY = 1
    VERSIONS = (4, 18)
    FIELDS = (
        Field('cluster_id', 'string', '12-18', nullable='12-18', tag=0, tagged='12-18'),
        Field('replica_state', ReplicaState, '15-18', tag=1, tagged='15-18'),
        Field('replica_id', 'int32', '4-14'),
        Field('max_wait_ms', 'int32', '4-18'),
        Field('min_bytes', 'int32', '4-18'),
        Field('max_bytes', 'int32', '4-18'),
        Field('isolation_level', 'int8', '4-18'),
        Field('session_id', 'int32', '7-18'),
        Field('session_epoch', 'int32', '7-18'),
        Field('topics', FetchTopic, '4-18', array=True),
        Field('forgotten_topics_data', ForgottenTopic, '7-18', array=True),
        Field('rack_id', 'string', '11-18'),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_state: ReplicaState | None = None,
        replica_id: int = -1,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] | None = None,
        forgotten_topics_data: list[ForgottenTopic] | None = None,
        rack_id: str = '',
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.replica_state: ReplicaState = ReplicaState() if replica_state is None else replica_state
        self.replica_id: int = replica_id
        self.max_wait_ms: int = max_wait_ms
        self.min_bytes: int = min_bytes
        self.max_bytes: int = max_bytes
        self.isolation_level: int = isolation_level
        self.session_id: int = session_id
        self.session_epoch: int = session_epoch
        self.topics: list[FetchTopic] = [] if topics is None else topics
        self.forgotten_topics_data: list[ForgottenTopic] = [] if forgotten_topics_data is None else forgotten_topics_data
        self.rack_id: str = rack_id


class AbortedTransaction(Message):
    __slots__ = ('producer_id', 'first_offset')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('producer_id', 'int64', '4-18'),
        Field('first_offset', 'int64', '4-18'),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id: int = producer_id
        self.first_offset: int = first_offset


class EpochEndOffset(Message):
    __slots__ = ('epoch', 'end_offset')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('epoch', 'int32', '12-18'),
        Field('end_offset', 'int64', '12-18'),
    )

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch: int = epoch
        self.end_offset: int = end_offset


class LeaderIdAndEpoch(Message):
    __slots__ = ('leader_id', 'leader_epoch')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('leader_id', 'int32', '12-18'),
        Field('leader_epoch', 'int32', '12-18'),
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch


class SnapshotId(Message):
    __slots__ = ('end_offset', 'epoch')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('end_offset', 'int64', '12-18'),
        Field('epoch', 'int32', '12-18'),
    )

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset: int = end_offset
        self.epoch: int = epoch


class PartitionData(Message):
    __slots__ = ('partition_index', 'error_code', 'high_watermark', 'last_stable_offset', 'log_start_offset', 'diverging_epoch', 'current_leader', 'snapshot_id', 'aborted_transactions', 'preferred_read_replica', 'records')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('partition_index', 'int32', '4-18'),
        Field('error_code', 'int16', '4-18'),
        Field('high_watermark', 'int64', '4-18'),
        Field('last_stable_offset', 'int64', '4-18'),
        Field('log_start_offset', 'int64', '5-18'),
        Field('diverging_epoch', EpochEndOffset, '12-18', tag=0, tagged='12-18'),
        Field('current_leader', LeaderIdAndEpoch, '12-18', tag=1, tagged='12-18'),
        Field('snapshot_id', SnapshotId, '12-18', tag=2, tagged='12-18'),
        Field('aborted_transactions', AbortedTransaction, '4-18', array=True, nullable='4-18'),
        Field('preferred_read_replica', 'int32', '11-18'),
        Field('records', 'records', '4-18', nullable='4-18'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: list[AbortedTransaction] | None = None,
        preferred_read_replica: int = -1,
        records: Buffer | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.high_watermark: int = high_watermark
        self.last_stable_offset: int = last_stable_offset
        self.log_start_offset: int = log_start_offset
        self.diverging_epoch: EpochEndOffset = EpochEndOffset() if diverging_epoch is None else diverging_epoch
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is None else snapshot_id
        self.aborted_transactions: list[AbortedTransaction] | None = aborted_transactions
        self.preferred_read_replica: int = preferred_read_replica
        self.records: Buffer | None = records


class FetchableTopicResponse(Message):
    __slots__ = ('topic_id', 'topic', 'partitions')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('topic_id', 'uuid', '13-18'),
        Field('topic', 'string', '4-12'),
        Field('partitions', PartitionData, '4-18', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic: str = "",
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.topic: str = topic
        self.partitions: list[PartitionData] = [] if partitions is None else partitions


class NodeEndpoint(Message):
    __slots__ = ('node_id', 'host', 'port', 'rack')
    FLEXIBLE_FROM = 12
    FIELDS = (
        Field('node_id', 'int32', '16-18'),
        Field('host', 'string', '16-18'),
        Field('port', 'int32', '16-18'),
        Field('rack', 'string', '16-18', nullable='16-18'),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack


class FetchResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'session_id', 'responses', 'node_endpoints')
    FLEXIBLE_FROM = 12
    API_KEY = 1
    VERSIONS = (4, 18)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '4-18'),
        Field('error_code', 'int16', '7-18'),
        Field('session_id', 'int32', '7-18'),
        Field('responses', FetchableTopicResponse, '4-18', array=True),
        Field('node_endpoints', NodeEndpoint, '16-18', array=True, tag=0, tagged='16-18'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.session_id: int = session_id
        self.responses: list[FetchableTopicResponse] = [] if responses is None else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is None else node_endpoints
