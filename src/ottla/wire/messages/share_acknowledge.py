"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


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


class AcknowledgePartition(Message):
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


class AcknowledgeTopic(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_id', 'uuid', '1-2'),
        Field('partitions', AcknowledgePartition, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AcknowledgePartition] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[AcknowledgePartition] = [] if partitions is None else partitions


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    __slots__ = ('group_id', 'member_id', 'share_session_epoch', 'is_renew_ack', 'topics')
    FLEXIBLE_FROM = 1
    API_KEY = 79
    VERSIONS = (1, 2)
    FIELDS = (
        Field('group_id', 'string', '1-2', nullable='1-2'),
        Field('member_id', 'string', '1-2', nullable='1-2'),
        Field('share_session_epoch', 'int32', '1-2'),
        Field('is_renew_ack', 'bool', '2'),
        Field('topics', AcknowledgeTopic, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] | None = None,
    ) -> None:
        self.group_id: str | None = group_id
        self.member_id: str | None = member_id
        self.share_session_epoch: int = share_session_epoch
        self.is_renew_ack: bool = is_renew_ack
        self.topics: list[AcknowledgeTopic] = [] if topics is None else topics


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


class PartitionData(Message):
    __slots__ = ('partition_index', 'error_code', 'error_message', 'current_leader')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('partition_index', 'int32', '1-2'),
        Field('error_code', 'int16', '1-2'),
        Field('error_message', 'string', '1-2', nullable='1-2'),
        Field('current_leader', LeaderIdAndEpoch, '1-2'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader


class ShareAcknowledgeTopicResponse(Message):
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


class ShareAcknowledgeResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'acquisition_lock_timeout_ms', 'responses', 'node_endpoints')
    FLEXIBLE_FROM = 1
    API_KEY = 79
    VERSIONS = (1, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-2'),
        Field('error_code', 'int16', '1-2'),
        Field('error_message', 'string', '1-2', nullable='1-2'),
        Field('acquisition_lock_timeout_ms', 'int32', '2'),
        Field('responses', ShareAcknowledgeTopicResponse, '1-2', array=True),
        Field('node_endpoints', NodeEndpoint, '1-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] | None = None,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acquisition_lock_timeout_ms: int = acquisition_lock_timeout_ms
        self.responses: list[ShareAcknowledgeTopicResponse] = [] if responses is None else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is None else node_endpoints
