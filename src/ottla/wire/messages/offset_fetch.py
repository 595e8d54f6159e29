"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class OffsetFetchRequestTopic(Message):
    __slots__ = ('name', 'partition_indexes')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('name', 'string', '1-7'),
        Field('partition_indexes', 'int32', '1-7', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestTopics(Message):
    __slots__ = ('topic_id', 'name', 'partition_indexes')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('topic_id', 'uuid', '10'),
        Field('name', 'string', '8-9'),
        Field('partition_indexes', 'int32', '8-10', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partition_indexes: list[int] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is None else partition_indexes


class OffsetFetchRequestGroup(Message):
    __slots__ = ('group_id', 'member_id', 'member_epoch', 'topics')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('group_id', 'string', '8-10'),
        Field('member_id', 'string', '9-10', nullable='9-10'),
        Field('member_epoch', 'int32', '9-10'),
        Field('topics', OffsetFetchRequestTopics, '8-10', array=True, nullable='8-10'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = topics


class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    __slots__ = ('groups', 'group_id', 'topics', 'require_stable')
    FLEXIBLE_FROM = 6
    API_KEY = 9
    VERSIONS = (1, 10)
    FIELDS = (
        Field('groups', OffsetFetchRequestGroup, '8-10', array=True),
        Field('group_id', 'string', '1-7'),
        Field('topics', OffsetFetchRequestTopic, '1-7', array=True, nullable='2-7'),
        Field('require_stable', 'bool', '7-10'),
    )

    def __init__(
        self,
        *,
        groups: list[OffsetFetchRequestGroup] | None = None,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = None,
        require_stable: bool = False,
    ) -> None:
        self.groups: list[OffsetFetchRequestGroup] = [] if groups is None else groups
        self.group_id: str = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = topics
        self.require_stable: bool = require_stable


class OffsetFetchResponsePartition(Message):
    __slots__ = ('partition_index', 'committed_offset', 'committed_leader_epoch', 'metadata', 'error_code')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('partition_index', 'int32', '1-7'),
        Field('committed_offset', 'int64', '1-7'),
        Field('committed_leader_epoch', 'int32', '5-7'),
        Field('metadata', 'string', '1-7', nullable='1-7'),
        Field('error_code', 'int16', '1-7'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.metadata: str | None = metadata
        self.error_code: int = error_code


class OffsetFetchResponseTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('name', 'string', '1-7'),
        Field('partitions', OffsetFetchResponsePartition, '1-7', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetFetchResponsePartition] = [] if partitions is None else partitions


class OffsetFetchResponsePartitions(Message):
    __slots__ = ('partition_index', 'committed_offset', 'committed_leader_epoch', 'metadata', 'error_code')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('partition_index', 'int32', '8-10'),
        Field('committed_offset', 'int64', '8-10'),
        Field('committed_leader_epoch', 'int32', '8-10'),
        Field('metadata', 'string', '8-10', nullable='8-10'),
        Field('error_code', 'int16', '8-10'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.metadata: str | None = metadata
        self.error_code: int = error_code


class OffsetFetchResponseTopics(Message):
    __slots__ = ('topic_id', 'name', 'partitions')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('topic_id', 'uuid', '10'),
        Field('name', 'string', '8-9'),
        Field('partitions', OffsetFetchResponsePartitions, '8-10', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partitions: list[OffsetFetchResponsePartitions] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str = name
        self.partitions: list[OffsetFetchResponsePartitions] = [] if partitions is None else partitions


class OffsetFetchResponseGroup(Message):
    __slots__ = ('group_id', 'topics', 'error_code')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('group_id', 'string', '8-10'),
        Field('topics', OffsetFetchResponseTopics, '8-10', array=True),
        Field('error_code', 'int16', '8-10'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] | None = None,
        error_code: int = 0,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetFetchResponseTopics] = [] if topics is None else topics
        self.error_code: int = error_code


class OffsetFetchResponse(Message):
    __slots__ = ('throttle_time_ms', 'groups', 'topics', 'error_code')
    FLEXIBLE_FROM = 6
    API_KEY = 9
    VERSIONS = (1, 10)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '3-10'),
        Field('groups', OffsetFetchResponseGroup, '8-10', array=True),
        Field('topics', OffsetFetchResponseTopic, '1-7', array=True),
        Field('error_code', 'int16', '2-7'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[OffsetFetchResponseGroup] | None = None,
        topics: list[OffsetFetchResponseTopic] | None = None,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[OffsetFetchResponseGroup] = [] if groups is None else groups
        self.topics: list[OffsetFetchResponseTopic] = [] if topics is None else topics
        self.error_code: int = error_code
