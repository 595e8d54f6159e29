"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message


class PartitionData(Message):
    __slots__ = ('partition_index',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index: int = partition_index


class TopicData(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0'),
        Field('partitions', PartitionData, '0', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[PartitionData] = [] if partitions is None else partitions


class DirectoryData(Message):
    __slots__ = ('id_', 'topics')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('id_', 'uuid', '0'),
        Field('topics', TopicData, '0', array=True),
    )

    def __init__(
        self,
        *,
        id_: bytes = ZERO_UUID,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.id_: bytes = id_
        self.topics: list[TopicData] = [] if topics is None else topics


class AssignReplicasToDirsRequest(Message):
    __slots__ = ('broker_id', 'broker_epoch', 'directories')
    FLEXIBLE_FROM = 0
    API_KEY = 73
    VERSIONS = (0, 0)
    FIELDS = (
        Field('broker_id', 'int32', '0'),
        Field('broker_epoch', 'int64', '0'),
        Field('directories', DirectoryData, '0', array=True),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[DirectoryData] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.directories: list[DirectoryData] = [] if directories is None else directories


class ResponsePartitionData(Message):
    __slots__ = ('partition_index', 'error_code')
    FLEXIBLE_FROM = 0
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


class ResponseTopicData(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0'),
        Field('partitions', ResponsePartitionData, '0', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ResponsePartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[ResponsePartitionData] = [] if partitions is None else partitions


class ResponseDirectoryData(Message):
    __slots__ = ('id_', 'topics')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('id_', 'uuid', '0'),
        Field('topics', ResponseTopicData, '0', array=True),
    )

    def __init__(
        self,
        *,
        id_: bytes = ZERO_UUID,
        topics: list[ResponseTopicData] | None = None,
    ) -> None:
        self.id_: bytes = id_
        self.topics: list[ResponseTopicData] = [] if topics is None else topics


class AssignReplicasToDirsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'directories')
    FLEXIBLE_FROM = 0
    API_KEY = 73
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('directories', ResponseDirectoryData, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[ResponseDirectoryData] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.directories: list[ResponseDirectoryData] = [] if directories is None else directories
