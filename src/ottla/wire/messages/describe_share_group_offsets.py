"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class DescribeShareGroupOffsetsRequestTopic(Message):
    __slots__ = ('topic_name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0-1'),
        Field('partitions', 'int32', '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[int] = [] if partitions is None else partitions


class DescribeShareGroupOffsetsRequestGroup(Message):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('group_id', 'string', '0-1'),
        Field('topics', DescribeShareGroupOffsetsRequestTopic, '0-1', array=True, nullable='0-1'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DescribeShareGroupOffsetsRequestTopic] | None = topics


class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    __slots__ = ('groups',)
    FLEXIBLE_FROM = 0
    API_KEY = 90
    VERSIONS = (0, 1)
    FIELDS = (
        Field('groups', DescribeShareGroupOffsetsRequestGroup, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] | None = None,
    ) -> None:
        self.groups: list[DescribeShareGroupOffsetsRequestGroup] = [] if groups is None else groups


class DescribeShareGroupOffsetsResponsePartition(Message):
    __slots__ = ('partition_index', 'start_offset', 'leader_epoch', 'lag', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0-1'),
        Field('start_offset', 'int64', '0-1'),
        Field('leader_epoch', 'int32', '0-1'),
        Field('lag', 'int64', '1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.start_offset: int = start_offset
        self.leader_epoch: int = leader_epoch
        self.lag: int = lag
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DescribeShareGroupOffsetsResponseTopic(Message):
    __slots__ = ('topic_name', 'topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0-1'),
        Field('topic_id', 'uuid', '0-1'),
        Field('partitions', DescribeShareGroupOffsetsResponsePartition, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_id: bytes = topic_id
        self.partitions: list[DescribeShareGroupOffsetsResponsePartition] = [] if partitions is None else partitions


class DescribeShareGroupOffsetsResponseGroup(Message):
    __slots__ = ('group_id', 'topics', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('group_id', 'string', '0-1'),
        Field('topics', DescribeShareGroupOffsetsResponseTopic, '0-1', array=True),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] | None = None,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DescribeShareGroupOffsetsResponseTopic] = [] if topics is None else topics
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DescribeShareGroupOffsetsResponse(Message):
    __slots__ = ('throttle_time_ms', 'groups')
    FLEXIBLE_FROM = 0
    API_KEY = 90
    VERSIONS = (0, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-1'),
        Field('groups', DescribeShareGroupOffsetsResponseGroup, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribeShareGroupOffsetsResponseGroup] = [] if groups is None else groups
