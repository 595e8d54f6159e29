"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ReassignablePartition(Message):
    __slots__ = ('partition_index', 'replicas')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0-1'),
        Field('replicas', 'int32', '0-1', array=True, nullable='0-1'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.replicas: list[int] | None = replicas


class ReassignableTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0-1'),
        Field('partitions', ReassignablePartition, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[ReassignablePartition] = [] if partitions is None else partitions


class AlterPartitionReassignmentsRequest(Request["AlterPartitionReassignmentsResponse"]):
    __slots__ = ('timeout_ms', 'allow_replication_factor_change', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 45
    VERSIONS = (0, 1)
    FIELDS = (
        Field('timeout_ms', 'int32', '0-1'),
        Field('allow_replication_factor_change', 'bool', '1'),
        Field('topics', ReassignableTopic, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] | None = None,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.allow_replication_factor_change: bool = allow_replication_factor_change
        self.topics: list[ReassignableTopic] = [] if topics is None else topics


class ReassignablePartitionResponse(Message):
    __slots__ = ('partition_index', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0-1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class ReassignableTopicResponse(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0-1'),
        Field('partitions', ReassignablePartitionResponse, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartitionResponse] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[ReassignablePartitionResponse] = [] if partitions is None else partitions


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = ('throttle_time_ms', 'allow_replication_factor_change', 'error_code', 'error_message', 'responses')
    FLEXIBLE_FROM = 0
    API_KEY = 45
    VERSIONS = (0, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-1'),
        Field('allow_replication_factor_change', 'bool', '1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
        Field('responses', ReassignableTopicResponse, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[ReassignableTopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.allow_replication_factor_change: bool = allow_replication_factor_change
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[ReassignableTopicResponse] = [] if responses is None else responses
