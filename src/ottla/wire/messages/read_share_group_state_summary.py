"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class PartitionData(Message):
    __slots__ = ('partition', 'leader_epoch')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0-1'),
        Field('leader_epoch', 'int32', '0-1'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition: int = partition
        self.leader_epoch: int = leader_epoch


class ReadStateSummaryData(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0-1'),
        Field('partitions', PartitionData, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[PartitionData] = [] if partitions is None else partitions


class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 87
    VERSIONS = (0, 1)
    FIELDS = (
        Field('group_id', 'string', '0-1'),
        Field('topics', ReadStateSummaryData, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadStateSummaryData] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[ReadStateSummaryData] = [] if topics is None else topics


class PartitionResult(Message):
    __slots__ = ('partition', 'error_code', 'error_message', 'state_epoch', 'leader_epoch', 'start_offset', 'delivery_complete_count')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0-1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
        Field('state_epoch', 'int32', '0-1'),
        Field('leader_epoch', 'int32', '0-1'),
        Field('start_offset', 'int64', '0-1'),
        Field('delivery_complete_count', 'int32', '1'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition: int = partition
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.state_epoch: int = state_epoch
        self.leader_epoch: int = leader_epoch
        self.start_offset: int = start_offset
        self.delivery_complete_count: int = delivery_complete_count


class ReadStateSummaryResult(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0-1'),
        Field('partitions', PartitionResult, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionResult] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[PartitionResult] = [] if partitions is None else partitions


class ReadShareGroupStateSummaryResponse(Message):
    __slots__ = ('results',)
    FLEXIBLE_FROM = 0
    API_KEY = 87
    VERSIONS = (0, 1)
    FIELDS = (
        Field('results', ReadStateSummaryResult, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        results: list[ReadStateSummaryResult] | None = None,
    ) -> None:
        self.results: list[ReadStateSummaryResult] = [] if results is None else results
