"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class OffsetCommitRequestPartition(Message):
    __slots__ = ('partition_index', 'committed_offset', 'committed_leader_epoch', 'committed_metadata')
    FLEXIBLE_FROM = 8
    FIELDS = (
        Field('partition_index', 'int32', '2-10'),
        Field('committed_offset', 'int64', '2-10'),
        Field('committed_leader_epoch', 'int32', '6-10'),
        Field('committed_metadata', 'string', '2-10', nullable='2-10'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.committed_metadata: str | None = committed_metadata


class OffsetCommitRequestTopic(Message):
    __slots__ = ('topic_id', 'name', 'partitions')
    FLEXIBLE_FROM = 8
    FIELDS = (
        Field('topic_id', 'uuid', '10'),
        Field('name', 'string', '2-9'),
        Field('partitions', OffsetCommitRequestPartition, '2-10', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partitions: list[OffsetCommitRequestPartition] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str = name
        self.partitions: list[OffsetCommitRequestPartition] = [] if partitions is None else partitions


class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    __slots__ = ('group_id', 'generation_id_or_member_epoch', 'member_id', 'group_instance_id', 'retention_time_ms', 'topics')
    FLEXIBLE_FROM = 8
    API_KEY = 8
    VERSIONS = (2, 10)
    FIELDS = (
        Field('group_id', 'string', '2-10'),
        Field('generation_id_or_member_epoch', 'int32', '2-10'),
        Field('member_id', 'string', '2-10'),
        Field('group_instance_id', 'string', '7-10', nullable='7-10'),
        Field('retention_time_ms', 'int64', '2-4'),
        Field('topics', OffsetCommitRequestTopic, '2-10', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id_or_member_epoch: int = generation_id_or_member_epoch
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.retention_time_ms: int = retention_time_ms
        self.topics: list[OffsetCommitRequestTopic] = [] if topics is None else topics


class OffsetCommitResponsePartition(Message):
    __slots__ = ('partition_index', 'error_code')
    FLEXIBLE_FROM = 8
    FIELDS = (
        Field('partition_index', 'int32', '2-10'),
        Field('error_code', 'int16', '2-10'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code


class OffsetCommitResponseTopic(Message):
    __slots__ = ('topic_id', 'name', 'partitions')
    FLEXIBLE_FROM = 8
    FIELDS = (
        Field('topic_id', 'uuid', '10'),
        Field('name', 'string', '2-9'),
        Field('partitions', OffsetCommitResponsePartition, '2-10', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        name: str = "",
        partitions: list[OffsetCommitResponsePartition] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.name: str = name
        self.partitions: list[OffsetCommitResponsePartition] = [] if partitions is None else partitions


class OffsetCommitResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 8
    API_KEY = 8
    VERSIONS = (2, 10)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '3-10'),
        Field('topics', OffsetCommitResponseTopic, '2-10', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetCommitResponseTopic] = [] if topics is None else topics
