"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Buffer, Field, Message, Request


class AcknowledgementBatch(Message):
    __slots__ = ('first_offset', 'last_offset', 'acknowledge_types')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('first_offset', 'int64', '1-2'),
        Field('last_offset', 'int64', '1-2'),
        Field('acknowledge_types', 'int8', '1-2', array=True),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] | None = None,
    ) -> None:
        self.first_offset: int = first_offset
        self.last_offset: int = last_offset
        self.acknowledge_types: list[int] = [] if acknowledge_types is None else acknowledge_types


class FetchPartition(Message):
    __slots__ = ('partition_index', 'acknowledgement_batches')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('partition_index', 'int32', '1-2'),
        Field('acknowledgement_batches', AcknowledgementBatch, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.acknowledgement_batches: list[AcknowledgementBatch] = [] if acknowledgement_batches is None else acknowledgement_batches


class FetchTopic(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_id', 'uuid', '1-2'),
        Field('partitions', FetchPartition, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartition] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is None else partitions


class ForgottenTopic(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_id', 'uuid', '1-2'),
        Field('partitions', 'int32', '1-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[int] = [] if partitions is None else partitions


class ShareFetchRequest(Request["ShareFetchResponse"]):
    __slots__ = ('group_id', 'member_id', 'share_session_epoch', 'max_wait_ms', 'min_bytes', 'max_bytes', 'max_records', 'batch_size', 'share_acquire_mode', 'is_renew_ack', 'topics', 'forgotten_topics_data')
    FLEXIBLE_FROM = 1
    API_KEY = 78
    VERSIONS = (1, 2)
    FIELDS = (
        Field('group_id', 'string', '1-2', nullable='1-2'),
        Field('member_id', 'string', '1-2', nullable='1-2'),
        Field('share_session_epoch', 'int32', '1-2'),
        Field('max_wait_ms', 'int32', '1-2'),
        Field('min_bytes', 'int32', '1-2'),
        Field('max_bytes', 'int32', '1-2'),
        Field('max_records', 'int32', '1-2'),
        Field('batch_size', 'int32', '1-2'),
        Field('share_acquire_mode', 'int8', '2'),
        Field('is_renew_ack', 'bool', '2'),
        Field('topics', FetchTopic, '1-2', array=True),
        Field('forgotten_topics_data', ForgottenTopic, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] | None = None,
        forgotten_topics_data: list[ForgottenTopic] | None = None,
    ) -> None:
        self.group_id: str | None = group_id
        self.member_id: str | None = member_id
        self.share_session_epoch: int = share_session_epoch
        self.max_wait_ms: int = max_wait_ms
        self.min_bytes: int = min_bytes
        self.max_bytes: int = max_bytes
        self.max_records: int = max_records
        self.batch_size: int = batch_size
        self.share_acquire_mode: int = share_acquire_mode
        self.is_renew_ack: bool = is_renew_ack
        self.topics: list[FetchTopic] = [] if topics is None else topics
        self.forgotten_topics_data: list[ForgottenTopic] = [] if forgotten_topics_data is None else forgotten_topics_data


class LeaderIdAndEpoch(Message):
    __slots__ = ('leader_id', 'leader_epoch')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('leader_id', 'int32', '1-2'),
        Field('leader_epoch', 'int32', '1-2'),
    )

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch


class AcquiredRecords(Message):
    __slots__ = ('first_offset', 'last_offset', 'delivery_count')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('first_offset', 'int64', '1-2'),
        Field('last_offset', 'int64', '1-2'),
        Field('delivery_count', 'int16', '1-2'),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset: int = first_offset
        self.last_offset: int = last_offset
        self.delivery_count: int = delivery_count


class PartitionData(Message):
    __slots__ = ('partition_index', 'error_code', 'error_message', 'acknowledge_error_code', 'acknowledge_error_message', 'current_leader', 'records', 'acquired_records')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('partition_index', 'int32', '1-2'),
        Field('error_code', 'int16', '1-2'),
        Field('error_message', 'string', '1-2', nullable='1-2'),
        Field('acknowledge_error_code', 'int16', '1-2'),
        Field('acknowledge_error_message', 'string', '1-2', nullable='1-2'),
        Field('current_leader', LeaderIdAndEpoch, '1-2'),
        Field('records', 'records', '1-2'),
        Field('acquired_records', AcquiredRecords, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        records: Buffer = b"",
        acquired_records: list[AcquiredRecords] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acknowledge_error_code: int = acknowledge_error_code
        self.acknowledge_error_message: str | None = acknowledge_error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.records: Buffer = records
        self.acquired_records: list[AcquiredRecords] = [] if acquired_records is None else acquired_records


class ShareFetchableTopicResponse(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_id', 'uuid', '1-2'),
        Field('partitions', PartitionData, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[PartitionData] = [] if partitions is None else partitions


class NodeEndpoint(Message):
    __slots__ = ('node_id', 'host', 'port', 'rack')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('node_id', 'int32', '1-2'),
        Field('host', 'string', '1-2'),
        Field('port', 'int32', '1-2'),
        Field('rack', 'string', '1-2', nullable='1-2'),
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


class ShareFetchResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'acquisition_lock_timeout_ms', 'responses', 'node_endpoints')
    FLEXIBLE_FROM = 1
    API_KEY = 78
    VERSIONS = (1, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-2'),
        Field('error_code', 'int16', '1-2'),
        Field('error_message', 'string', '1-2', nullable='1-2'),
        Field('acquisition_lock_timeout_ms', 'int32', '1-2'),
        Field('responses', ShareFetchableTopicResponse, '1-2', array=True),
        Field('node_endpoints', NodeEndpoint, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchableTopicResponse] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acquisition_lock_timeout_ms: int = acquisition_lock_timeout_ms
        self.responses: list[ShareFetchableTopicResponse] = [] if responses is None else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is None else node_endpoints
