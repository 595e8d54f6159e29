"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DeleteRecordsPartition(Message):
    __slots__ = ('partition_index', 'offset')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('partition_index', 'int32', '0-2'),
        Field('offset', 'int64', '0-2'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.offset: int = offset


class DeleteRecordsTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '0-2'),
        Field('partitions', DeleteRecordsPartition, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[DeleteRecordsPartition] = [] if partitions is None else partitions


class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    __slots__ = ('topics', 'timeout_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 21
    VERSIONS = (0, 2)
    FIELDS = (
        Field('topics', DeleteRecordsTopic, '0-2', array=True),
        Field('timeout_ms', 'int32', '0-2'),
    )

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteRecordsTopic] = [] if topics is None else topics
        self.timeout_ms: int = timeout_ms


class DeleteRecordsPartitionResult(Message):
    __slots__ = ('partition_index', 'low_watermark', 'error_code')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('partition_index', 'int32', '0-2'),
        Field('low_watermark', 'int64', '0-2'),
        Field('error_code', 'int16', '0-2'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.low_watermark: int = low_watermark
        self.error_code: int = error_code


class DeleteRecordsTopicResult(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '0-2'),
        Field('partitions', DeleteRecordsPartitionResult, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[DeleteRecordsPartitionResult] = [] if partitions is None else partitions


class DeleteRecordsResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 2
    API_KEY = 21
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('topics', DeleteRecordsTopicResult, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DeleteRecordsTopicResult] = [] if topics is None else topics
