"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class TxnOffsetCommitRequestPartition(Message):
    __slots__ = ('partition_index', 'committed_offset', 'committed_leader_epoch', 'committed_metadata')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('partition_index', 'int32', '0-5'),
        Field('committed_offset', 'int64', '0-5'),
        Field('committed_leader_epoch', 'int32', '2-5'),
        Field('committed_metadata', 'string', '0-5', nullable='0-5'),
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


class TxnOffsetCommitRequestTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('name', 'string', '0-5'),
        Field('partitions', TxnOffsetCommitRequestPartition, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitRequestPartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[TxnOffsetCommitRequestPartition] = [] if partitions is None else partitions


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    __slots__ = ('transactional_id', 'group_id', 'producer_id', 'producer_epoch', 'generation_id', 'member_id', 'group_instance_id', 'topics')
    FLEXIBLE_FROM = 3
    API_KEY = 28
    VERSIONS = (0, 5)
    FIELDS = (
        Field('transactional_id', 'string', '0-5'),
        Field('group_id', 'string', '0-5'),
        Field('producer_id', 'int64', '0-5'),
        Field('producer_epoch', 'int16', '0-5'),
        Field('generation_id', 'int32', '3-5'),
        Field('member_id', 'string', '3-5'),
        Field('group_instance_id', 'string', '3-5', nullable='3-5'),
        Field('topics', TxnOffsetCommitRequestTopic, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = '',
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] | None = None,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.group_id: str = group_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.topics: list[TxnOffsetCommitRequestTopic] = [] if topics is None else topics


class TxnOffsetCommitResponsePartition(Message):
    __slots__ = ('partition_index', 'error_code')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('partition_index', 'int32', '0-5'),
        Field('error_code', 'int16', '0-5'),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code


class TxnOffsetCommitResponseTopic(Message):
    __slots__ = ('name', 'partitions')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('name', 'string', '0-5'),
        Field('partitions', TxnOffsetCommitResponsePartition, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitResponsePartition] | None = None,
    ) -> None:
        self.name: str = name
        self.partitions: list[TxnOffsetCommitResponsePartition] = [] if partitions is None else partitions


class TxnOffsetCommitResponse(Message):
    __slots__ = ('throttle_time_ms', 'topics')
    FLEXIBLE_FROM = 3
    API_KEY = 28
    VERSIONS = (0, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-5'),
        Field('topics', TxnOffsetCommitResponseTopic, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[TxnOffsetCommitResponseTopic] = [] if topics is None else topics
