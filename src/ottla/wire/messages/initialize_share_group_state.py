"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class PartitionData(Message):
    __slots__ = ('partition', 'state_epoch', 'start_offset')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0'),
        Field('state_epoch', 'int32', '0'),
        Field('start_offset', 'int64', '0'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        state_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition: int = partition
        self.state_epoch: int = state_epoch
        self.start_offset: int = start_offset


class InitializeStateData(Message):
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


class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 83
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('topics', InitializeStateData, '0', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[InitializeStateData] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[InitializeStateData] = [] if topics is None else topics


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


class InitializeStateResult(Message):
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


class InitializeShareGroupStateResponse(Message):
    __slots__ = ('results',)
    FLEXIBLE_FROM = 0
    API_KEY = 83
    VERSIONS = (0, 0)
    FIELDS = (
        Field('results', InitializeStateResult, '0', array=True),
    )

    def __init__(
        self,
        *,
        results: list[InitializeStateResult] | None = None,
    ) -> None:
        self.results: list[InitializeStateResult] = [] if results is None else results
