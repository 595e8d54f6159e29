"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    __slots__ = ('group_id', 'member_id', 'member_epoch', 'rack_id', 'subscribed_topic_names')
    FLEXIBLE_FROM = 1
    API_KEY = 76
    VERSIONS = (1, 1)
    FIELDS = (
        Field('group_id', 'string', '1'),
        Field('member_id', 'string', '1'),
        Field('member_epoch', 'int32', '1'),
        Field('rack_id', 'string', '1', nullable='1'),
        Field('subscribed_topic_names', 'string', '1', array=True, nullable='1'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.rack_id: str | None = rack_id
        self.subscribed_topic_names: list[str] | None = subscribed_topic_names


class TopicPartitions(Message):
    __slots__ = ('topic_id', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_id', 'uuid', '1'),
        Field('partitions', 'int32', '1', array=True),
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
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_partitions', TopicPartitions, '1', array=True),
    )

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is None else topic_partitions


class ShareGroupHeartbeatResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'member_id', 'member_epoch', 'heartbeat_interval_ms', 'assignment')
    FLEXIBLE_FROM = 1
    API_KEY = 76
    VERSIONS = (1, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1'),
        Field('error_code', 'int16', '1'),
        Field('error_message', 'string', '1', nullable='1'),
        Field('member_id', 'string', '1', nullable='1'),
        Field('member_epoch', 'int32', '1'),
        Field('heartbeat_interval_ms', 'int32', '1'),
        Field('assignment', Assignment, '1', nullable='1'),
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
