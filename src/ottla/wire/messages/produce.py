"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Buffer, Field, Message, Request


class PartitionProduceData(Message):
    __slots__ = ('index', 'records')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('index', 'int32', '3-13'),
        Field('records', 'records', '3-13', nullable='3-13'),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        records: Buffer | None = None,
    ) -> None:
        self.index: int = index
        self.records: Buffer | None = records


class TopicProduceData(Message):
    __slots__ = ('topic_id', 'name', 'partition_data')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('topic_id', 'uuid', '13'),
        Field('name', 'string', '3-12'),
        Field('partition_data', PartitionProduceData, '3-13', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partition_data: list[PartitionProduceData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str = name
        self.partition_data: list[PartitionProduceData] = [] if partition_data is None else partition_data


class ProduceRequest(Request["ProduceResponse"]):
    __slots__ = ('transactional_id', 'acks', 'timeout_ms', 'topic_data')
    FLEXIBLE_FROM = 9
    API_KEY = 0
    VERSIONS = (3, 13)
    FIELDS = (
        Field('transactional_id', 'string', '3-13', nullable='3-13'),
        Field('acks', 'int16', '3-13'),
        Field('timeout_ms', 'int32', '3-13'),
        Field('topic_data', TopicProduceData, '3-13', array=True),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] | None = None,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.acks: int = acks
        self.timeout_ms: int = timeout_ms
        self.topic_data: list[TopicProduceData] = [] if topic_data is None else topic_data


class BatchIndexAndErrorMessage(Message):
    __slots__ = ('batch_index', 'batch_index_error_message')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('batch_index', 'int32', '8-13'),
        Field('batch_index_error_message', 'string', '8-13', nullable='8-13'),
    )

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index: int = batch_index
        self.batch_index_error_message: str | None = batch_index_error_message


class LeaderIdAndEpoch(Message):
    __slots__ = ('leader_id', 'leader_epoch')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('leader_id', 'int32', '10-13'),
        Field('leader_epoch', 'int32', '10-13'),
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch


class PartitionProduceResponse(Message):
    __slots__ = ('index', 'error_code', 'base_offset', 'log_append_time_ms', 'log_start_offset', 'record_errors', 'error_message', 'current_leader')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('index', 'int32', '3-13'),
        Field('error_code', 'int16', '3-13'),
        Field('base_offset', 'int64', '3-13'),
        Field('log_append_time_ms', 'int64', '3-13'),
        Field('log_start_offset', 'int64', '5-13'),
        Field('record_errors', BatchIndexAndErrorMessage, '8-13', array=True),
        Field('error_message', 'string', '8-13', nullable='8-13'),
        Field('current_leader', LeaderIdAndEpoch, '10-13', tag=0, tagged='10-13'),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] | None = None,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index: int = index
        self.error_code: int = error_code
        self.base_offset: int = base_offset
        self.log_append_time_ms: int = log_append_time_ms
        self.log_start_offset: int = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = [] if record_errors is None else record_errors
        self.error_message: str | None = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is None else current_leader


class TopicProduceResponse(Message):
    __slots__ = ('topic_id', 'name', 'partition_responses')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('topic_id', 'uuid', '13'),
        Field('name', 'string', '3-12'),
        Field('partition_responses', PartitionProduceResponse, '3-13', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partition_responses: list[PartitionProduceResponse] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str = name
        self.partition_responses: list[PartitionProduceResponse] = [] if partition_responses is None else partition_responses


class NodeEndpoint(Message):
    __slots__ = ('node_id', 'host', 'port', 'rack')
    FLEXIBLE_FROM = 9
    FIELDS = (
        Field('node_id', 'int32', '10-13'),
        Field('host', 'string', '10-13'),
        Field('port', 'int32', '10-13'),
        Field('rack', 'string', '10-13', nullable='10-13'),
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


class ProduceResponse(Message):
    __slots__ = ('responses', 'throttle_time_ms', 'node_endpoints')
    FLEXIBLE_FROM = 9
    API_KEY = 0
    VERSIONS = (3, 13)
    FIELDS = (
        Field('responses', TopicProduceResponse, '3-13', array=True),
        Field('throttle_time_ms', 'int32', '3-13'),
        Field('node_endpoints', NodeEndpoint, '10-13', array=True, tag=0, tagged='10-13'),
    )

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] | None = None,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] | None = None,
    ) -> None:
        self.responses: list[TopicProduceResponse] = [] if responses is None else responses
        self.throttle_time_ms: int = throttle_time_ms
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is None else node_endpoints
