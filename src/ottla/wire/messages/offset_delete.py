"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class OffsetDeleteRequestPartition(Message):
    __slots__ = ('partition_index',)
    FLEXIBLE_FROM = 32767
    FIELDS = (
        Field('partition_index', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index: int = partition_index


class OffsetDeleteRequestTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 32767
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partitions', OffsetDeleteRequestPartition, '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetDeleteRequestPartition] = [] if partitions is None else partitions


class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 32767
    API_KEY = 47
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('topics', OffsetDeleteRequestTopic, '0', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetDeleteRequestTopic] = [] if topics is None else topics


class OffsetDeleteResponsePartition(Message):
    __slots__ = ('partition_index', 'error_code')
    FLEXIBLE_FROM = 32767
    FIELDS = (
        Field('partition_index', 'int32', '0'),
        Field('error_code', 'int16', '0'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code


class OffsetDeleteResponseTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 32767
    FIELDS = (
        Field('name', 'string', '0'),
        Field('partitions', OffsetDeleteResponsePartition, '0', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetDeleteResponsePartition] = [] if partitions is None else partitions


class OffsetDeleteResponse(Message):
    __slots__ = ('error_code', 'throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 32767
    API_KEY = 47
    VERSIONS = (0, 0)
    FIELDS = (
        Field('error_code', 'int16', '0'),
        Field('throttle_time_ms', 'int32', '0'),
        Field('topics', OffsetDeleteResponseTopic, '0', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetDeleteResponseTopic] = [] if topics is None else topics
