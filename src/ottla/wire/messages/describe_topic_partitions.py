"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class TopicRequest(Message):
    __slots__ = ('name',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
    )

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name: str = name


class Cursor(Message):
    __slots__ = ('topic_name', 'partition_index')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0'),
        Field('partition_index', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name: str = topic_name
        self.partition_index: int = partition_index


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    __slots__ = ('topics', 'response_partition_limit', 'cursor')
    FLEXIBLE_FROM = 0
    API_KEY = 75
    VERSIONS = (0, 0)
    FIELDS = (
        Field('topics', TopicRequest, '0', array=True),
        Field('response_partition_limit', 'int32', '0'),
        Field('cursor', Cursor, '0', nullable='0'),
    )

    def __init__(
        self,
        *,
        topics: list[TopicRequest] | None = None,
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is None else topics
        self.response_partition_limit: int = response_partition_limit
        self.cursor: Cursor | None = cursor


class DescribeTopicPartitionsResponsePartition(Message):
    __slots__ = ('error_code', 'partition_index', 'leader_id', 'leader_epoch', 'replica_nodes', 'isr_nodes', 'eligible_leader_replicas', 'last_known_elr', 'offline_replicas')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('error_code', 'int16', '0'),
        Field('partition_index', 'int32', '0'),
        Field('leader_id', 'int32', '0'),
        Field('leader_epoch', 'int32', '0'),
        Field('replica_nodes', 'int32', '0', array=True),
        Field('isr_nodes', 'int32', '0', array=True),
        Field('eligible_leader_replicas', 'int32', '0', array=True, nullable='0'),
        Field('last_known_elr', 'int32', '0', array=True, nullable='0'),
        Field('offline_replicas', 'int32', '0', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] | None = None,
        isr_nodes: list[int] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.partition_index: int = partition_index
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is None else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is None else isr_nodes
        self.eligible_leader_replicas: list[int] | None = eligible_leader_replicas
        self.last_known_elr: list[int] | None = last_known_elr
        self.offline_replicas: list[int] = [] if offline_replicas is None else offline_replicas


class DescribeTopicPartitionsResponseTopic(Message):
    __slots__ = ('error_code', 'name', 'topic_id', 'is_internal', 'partitions', 'topic_authorized_operations')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('error_code', 'int16', '0'),
        Field('name', 'string', '0', nullable='0'),
        Field('topic_id', 'uuid', '0'),
        Field('is_internal', 'bool', '0'),
        Field('partitions', DescribeTopicPartitionsResponsePartition, '0', array=True),
        Field('topic_authorized_operations', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = None,
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] | None = None,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.name: str | None = name
        self.topic_id: bytes = topic_id
        self.is_internal: bool = is_internal
        self.partitions: list[DescribeTopicPartitionsResponsePartition] = [] if partitions is None else partitions
        self.topic_authorized_operations: int = topic_authorized_operations


class ResponseCursor(Message):
    __slots__ = ('topic_name', 'partition_index')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0'),
        Field('partition_index', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name: str = topic_name
        self.partition_index: int = partition_index


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics', 'next_cursor')
    FLEXIBLE_FROM = 0
    API_KEY = 75
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('topics', DescribeTopicPartitionsResponseTopic, '0', array=True),
        Field('next_cursor', ResponseCursor, '0', nullable='0'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] | None = None,
        next_cursor: ResponseCursor | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponseTopic] = [] if topics is None else topics
        self.next_cursor: ResponseCursor | None = next_cursor
