"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ListOffsetsPartition(Message):
    __slots__ = ('partition_index', 'current_leader_epoch', 'timestamp')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('partition_index', 'int32', '1-11'),
        Field('current_leader_epoch', 'int32', '4-11'),
        Field('timestamp', 'int64', '1-11'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.current_leader_epoch: int = current_leader_epoch
        self.timestamp: int = timestamp


class ListOffsetsTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('name', 'string', '1-11'),
        Field('partitions', ListOffsetsPartition, '1-11', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[ListOffsetsPartition] = [] if partitions is None else partitions


class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    __slots__ = ('replica_id', 'isolation_level', 'topics', 'timeout_ms')
    FLEXIBLE_FROM = 6
    API_KEY = 2
    VERSIONS = (1, 11)
    FIELDS = (
        Field('replica_id', 'int32', '1-11'),
        Field('isolation_level', 'int8', '2-11'),
        Field('topics', ListOffsetsTopic, '1-11', array=True),
        Field('timeout_ms', 'int32', '10-11'),
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] | None = None,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id: int = replica_id
        self.isolation_level: int = isolation_level
        self.topics: list[ListOffsetsTopic] = [] if topics is None else topics
        self.timeout_ms: int = timeout_ms


class ListOffsetsPartitionResponse(Message):
    __slots__ = ('partition_index', 'error_code', 'timestamp', 'offset', 'leader_epoch')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('partition_index', 'int32', '1-11'),
        Field('error_code', 'int16', '1-11'),
        Field('timestamp', 'int64', '1-11'),
        Field('offset', 'int64', '1-11'),
        Field('leader_epoch', 'int32', '4-11'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.timestamp: int = timestamp
        self.offset: int = offset
        self.leader_epoch: int = leader_epoch


class ListOffsetsTopicResponse(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('name', 'string', '1-11'),
        Field('partitions', ListOffsetsPartitionResponse, '1-11', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[ListOffsetsPartitionResponse] = [] if partitions is None else partitions


class ListOffsetsResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 6
    API_KEY = 2
    VERSIONS = (1, 11)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '2-11'),
        Field('topics', ListOffsetsTopicResponse, '1-11', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[ListOffsetsTopicResponse] = [] if topics is None else topics
