"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class AlterShareGroupOffsetsRequestPartition(Message):
    __slots__ = ('partition_index', 'start_offset')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0'),
        Field('start_offset', 'int64', '0'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.start_offset: int = start_offset


class AlterShareGroupOffsetsRequestTopic(Message):
    __slots__ = ('topic_name', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0'),
        Field('partitions', AlterShareGroupOffsetsRequestPartition, '0', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[AlterShareGroupOffsetsRequestPartition] = [] if partitions is None else partitions


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 91
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('topics', AlterShareGroupOffsetsRequestTopic, '0', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequestTopic] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[AlterShareGroupOffsetsRequestTopic] = [] if topics is None else topics


class AlterShareGroupOffsetsResponsePartition(Message):
    __slots__ = ('partition_index', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition_index', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
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


class AlterShareGroupOffsetsResponseTopic(Message):
    __slots__ = ('topic_name', 'topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_name', 'string', '0'),
        Field('topic_id', 'uuid', '0'),
        Field('partitions', AlterShareGroupOffsetsResponsePartition, '0', array=True),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: bytes = ZERO_UUID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_id: bytes = topic_id
        self.partitions: list[AlterShareGroupOffsetsResponsePartition] = [] if partitions is None else partitions


class AlterShareGroupOffsetsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'responses')
    FLEXIBLE_FROM = 0
    API_KEY = 91
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('responses', AlterShareGroupOffsetsResponseTopic, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[AlterShareGroupOffsetsResponseTopic] = [] if responses is None else responses
