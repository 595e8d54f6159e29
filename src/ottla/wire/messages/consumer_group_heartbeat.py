"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class TopicPartitions(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0-1'),
        Field('partitions', 'int32', '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[int] = [] if partitions is None else partitions


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    __slots__ = ('group_id', 'member_id', 'member_epoch', 'instance_id', 'rack_id', 'rebalance_timeout_ms', 'subscribed_topic_names', 'subscribed_topic_regex', 'server_assignor', 'topic_partitions')
    FLEXIBLE_FROM = 0
    API_KEY = 68
    VERSIONS = (0, 1)
    FIELDS = (
        Field('group_id', 'string', '0-1'),
        Field('member_id', 'string', '0-1'),
        Field('member_epoch', 'int32', '0-1'),
        Field('instance_id', 'string', '0-1', nullable='0-1'),
        Field('rack_id', 'string', '0-1', nullable='0-1'),
        Field('rebalance_timeout_ms', 'int32', '0-1'),
        Field('subscribed_topic_names', 'string', '0-1', array=True, nullable='0-1'),
        Field('subscribed_topic_regex', 'string', '1', nullable='1'),
        Field('server_assignor', 'string', '0-1', nullable='0-1'),
        Field('topic_partitions', TopicPartitions, '0-1', array=True, nullable='0-1'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.subscribed_topic_names: list[str] | None = subscribed_topic_names
        self.subscribed_topic_regex: str | None = subscribed_topic_regex
        self.server_assignor: str | None = server_assignor
        self.topic_partitions: list[TopicPartitions] | None = topic_partitions


class ResponseTopicPartitions(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_id', 'uuid', '0-1'),
        Field('partitions', 'int32', '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.partitions: list[int] = [] if partitions is None else partitions


class Assignment(Message):
    __slots__ = ('topic_partitions',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('topic_partitions', ResponseTopicPartitions, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        topic_partitions: list[ResponseTopicPartitions] | None = None,
    ) -> None:
        self.topic_partitions: list[ResponseTopicPartitions] = [] if topic_partitions is None else topic_partitions


class ConsumerGroupHeartbeatResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'member_id', 'member_epoch', 'heartbeat_interval_ms', 'assignment')
    FLEXIBLE_FROM = 0
    API_KEY = 68
    VERSIONS = (0, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
        Field('member_id', 'string', '0-1', nullable='0-1'),
        Field('member_epoch', 'int32', '0-1'),
        Field('heartbeat_interval_ms', 'int32', '0-1'),
        Field('assignment', Assignment, '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.assignment: Assignment | None = assignment
