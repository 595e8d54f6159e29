"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class OffsetForLeaderPartition(Message):
    __slots__ = ('partition', 'current_leader_epoch', 'leader_epoch')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('partition', 'int32', '2-4'),
        Field('current_leader_epoch', 'int32', '2-4'),
        Field('leader_epoch', 'int32', '2-4'),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition: int = partition
        self.current_leader_epoch: int = current_leader_epoch
        self.leader_epoch: int = leader_epoch


class OffsetForLeaderTopic(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('topic', 'string', '2-4'),
        Field('partitions', OffsetForLeaderPartition, '2-4', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[OffsetForLeaderPartition] = [] if partitions is None else partitions


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    __slots__ = ('replica_id', 'topics')
    FLEXIBLE_FROM = 4
    API_KEY = 23
    VERSIONS = (2, 4)
    FIELDS = (
        Field('replica_id', 'int32', '3-4'),
        Field('topics', OffsetForLeaderTopic, '2-4', array=True),
    )

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] | None = None,
    ) -> None:
        self.replica_id: int = replica_id
        self.topics: list[OffsetForLeaderTopic] = [] if topics is None else topics


class EpochEndOffset(Message):
    __slots__ = ('error_code', 'partition', 'leader_epoch', 'end_offset')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('error_code', 'int16', '2-4'),
        Field('partition', 'int32', '2-4'),
        Field('leader_epoch', 'int32', '2-4'),
        Field('end_offset', 'int64', '2-4'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code: int = error_code
        self.partition: int = partition
        self.leader_epoch: int = leader_epoch
        self.end_offset: int = end_offset


class OffsetForLeaderTopicResult(Message):
    __slots__ = ('topic', 'partitions')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('topic', 'string', '2-4'),
        Field('partitions', EpochEndOffset, '2-4', array=True),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] | None = None,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[EpochEndOffset] = [] if partitions is None else partitions


class OffsetForLeaderEpochResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 4
    API_KEY = 23
    VERSIONS = (2, 4)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '2-4'),
        Field('topics', OffsetForLeaderTopicResult, '2-4', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetForLeaderTopicResult] = [] if topics is None else topics
