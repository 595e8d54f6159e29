"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class PartitionData(Message):
    __slots__ = ('partition',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
    ) -> None:
        self.partition: int = partition


class DeleteStateData(Message):
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


class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 86
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('topics', DeleteStateData, '0', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteStateData] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DeleteStateData] = [] if topics is None else topics


class PartitionResult(Message):
    __slots__ = ('partition', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition: int = partition
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DeleteStateResult(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0'),
        Field('partitions', PartitionResult, '0', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionResult] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is None else partitions


class DeleteShareGroupStateResponse(Message):
    __slots__ = ('results',)
    FLEXIBLE_FROM = 0
    API_KEY = 86
    VERSIONS = (0, 0)
    FIELDS = (
        Field('results', DeleteStateResult, '0', array=True),
    )

    def __init__(
        self,
        *,
        results: list[DeleteStateResult] | None = None,
    ) -> None:
        self.results: list[DeleteStateResult] = [] if results is None else results
