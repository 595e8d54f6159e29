"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class BrokerState(Message):
    __slots__ = ('broker_id', 'broker_epoch')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('broker_id', 'int32', '3'),
        Field('broker_epoch', 'int64', '3'),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch


class PartitionData(Message):
    __slots__ = ('partition_index', 'leader_epoch', 'new_isr_with_epochs', 'new_isr', 'leader_recovery_state', 'partition_epoch')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('partition_index', 'int32', '2-3'),
        Field('leader_epoch', 'int32', '2-3'),
        Field('new_isr_with_epochs', BrokerState, '3', array=True),
        Field('new_isr', 'int32', '2', array=True),
        Field('leader_recovery_state', 'int8', '2-3'),
        Field('partition_epoch', 'int32', '2-3'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr_with_epochs: list[BrokerState] | None = None,
        new_isr: list[int] | None = None,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.leader_epoch: int = leader_epoch
        self.new_isr_with_epochs: list[BrokerState] = [] if new_isr_with_epochs is None else new_isr_with_epochs
        self.new_isr: list[int] = [] if new_isr is None else new_isr
        self.leader_recovery_state: int = leader_recovery_state
        self.partition_epoch: int = partition_epoch


class TopicData(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('topic_id', 'uuid', '2-3'),
        Field('partitions', PartitionData, '2-3', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[PartitionData] = [] if partitions is None else partitions


class AlterPartitionRequest(Request["AlterPartitionResponse"]):
    __slots__ = ('broker_id', 'broker_epoch', 'topics')
    FLEXIBLE_FROM = 2
    API_KEY = 56
    VERSIONS = (2, 3)
    FIELDS = (
        Field('broker_id', 'int32', '2-3'),
        Field('broker_epoch', 'int64', '2-3'),
        Field('topics', TopicData, '2-3', array=True),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[TopicData] | None = None,
    ) -> None:
        self.broker_id: int = broker_id
        self.broker_epoch: int = broker_epoch
        self.topics: list[TopicData] = [] if topics is None else topics


class ResponsePartitionData(Message):
    __slots__ = ('partition_index', 'error_code', 'leader_id', 'leader_epoch', 'isr', 'leader_recovery_state', 'partition_epoch')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('partition_index', 'int32', '2-3'),
        Field('error_code', 'int16', '2-3'),
        Field('leader_id', 'int32', '2-3'),
        Field('leader_epoch', 'int32', '2-3'),
        Field('isr', 'int32', '2-3', array=True),
        Field('leader_recovery_state', 'int8', '2-3'),
        Field('partition_epoch', 'int32', '2-3'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        isr: list[int] | None = None,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.isr: list[int] = [] if isr is None else isr
        self.leader_recovery_state: int = leader_recovery_state
        self.partition_epoch: int = partition_epoch


class ResponseTopicData(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('topic_id', 'uuid', '2-3'),
        Field('partitions', ResponsePartitionData, '2-3', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[ResponsePartitionData] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[ResponsePartitionData] = [] if partitions is None else partitions


class AlterPartitionResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'topics')
    FLEXIBLE_FROM = 2
    API_KEY = 56
    VERSIONS = (2, 3)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '2-3'),
        Field('error_code', 'int16', '2-3'),
        Field('topics', ResponseTopicData, '2-3', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[ResponseTopicData] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.topics: list[ResponseTopicData] = [] if topics is None else topics
