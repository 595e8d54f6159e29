"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class TopicRequest(Message):
    __slots__ = ('name', 'partition_indexes')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partition_indexes', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is None else partition_indexes


class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    __slots__ = ('topics',)
    FLEXIBLE_FROM = 0
    API_KEY = 61
    VERSIONS = (0, 0)
    FIELDS = (
        Field('topics', TopicRequest, '0', array=True),
    )

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is None else topics


class ProducerState(Message):
    __slots__ = ('producer_id', 'producer_epoch', 'last_sequence', 'last_timestamp', 'coordinator_epoch', 'current_txn_start_offset')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('producer_id', 'int64', '0'),
        Field('producer_epoch', 'int32', '0'),
        Field('last_sequence', 'int32', '0'),
        Field('last_timestamp', 'int64', '0'),
        Field('coordinator_epoch', 'int32', '0'),
        Field('current_txn_start_offset', 'int64', '0'),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.last_sequence: int = last_sequence
        self.last_timestamp: int = last_timestamp
        self.coordinator_epoch: int = coordinator_epoch
        self.current_txn_start_offset: int = current_txn_start_offset


class PartitionResponse(Message):
    __slots__ = ('partition_index', 'error_code', 'error_message', 'active_producers')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('active_producers', ProducerState, '0', array=True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.active_producers: list[ProducerState] = [] if active_producers is None else active_producers


class TopicResponse(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partitions', PartitionResponse, '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionResponse] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[PartitionResponse] = [] if partitions is None else partitions


class DescribeProducersResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 61
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('topics', TopicResponse, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[TopicResponse] = [] if topics is None else topics
