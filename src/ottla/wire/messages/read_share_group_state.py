"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class PartitionData(Message):
    __slots__ = ('partition', 'leader_epoch')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0'),
        Field('leader_epoch', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition: int = partition
        self.leader_epoch: int = leader_epoch


class ReadStateData(Message):
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


class ReadShareGroupStateRequest(Request["ReadShareGroupStateResponse"]):
    __slots__ = ('group_id', 'topics')
    FLEXIBLE_FROM = 0
    API_KEY = 84
    VERSIONS = (0, 0)
    FIELDS = (
        Field('group_id', 'string', '0'),
        Field('topics', ReadStateData, '0', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadStateData] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[ReadStateData] = [] if topics is None else topics


class StateBatch(Message):
    __slots__ = ('first_offset', 'last_offset', 'delivery_state', 'delivery_count', 'due_ms', 'verdict')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('first_offset', 'int64', '0'),
        Field('last_offset', 'int64', '0'),
        Field('delivery_state', 'int8', '0'),
        Field('delivery_count', 'int16', '0'),
        Field('due_ms', 'int64', '0', tag=1000, tagged='0'),
        Field('verdict', 'int8', '0', tag=1001, tagged='0'),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
        due_ms: int = 0,
        verdict: int = 0,
    ) -> None:
        self.first_offset: int = first_offset
        self.last_offset: int = last_offset
        self.delivery_state: int = delivery_state
        self.delivery_count: int = delivery_count
        self.due_ms: int = due_ms
        self.verdict: int = verdict


class PartitionResult(Message):
    __slots__ = ('partition', 'error_code', 'error_message', 'state_epoch', 'start_offset', 'state_batches')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('partition', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('state_epoch', 'int32', '0'),
        Field('start_offset', 'int64', '0'),
        Field('state_batches', StateBatch, '0', array=True),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] | None = None,
    ) -> None:
        self.partition: int = partition
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.state_epoch: int = state_epoch
        self.start_offset: int = start_offset
        self.state_batches: list[StateBatch] = [] if state_batches is None else state_batches


class ReadStateResult(Message):
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


class ReadShareGroupStateResponse(Message):
    __slots__ = ('results',)
    FLEXIBLE_FROM = 0
    API_KEY = 84
    VERSIONS = (0, 0)
    FIELDS = (
        Field('results', ReadStateResult, '0', array=True),
    )

    def __init__(
        self,
        *,
        results: list[ReadStateResult] | None = None,
    ) -> None:
        self.results: list[ReadStateResult] = [] if results is None else results
