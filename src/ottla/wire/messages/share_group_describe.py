"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    __slots__ = ('group_ids', 'include_authorized_operations')
    FLEXIBLE_FROM = 1
    API_KEY = 77
    VERSIONS = (1, 1)
    FIELDS = (
        Field('group_ids', 'string', '1', array=True),
        Field('include_authorized_operations', 'bool', '1'),
    )

    def __init__(
        self,
        *,
        group_ids: list[str] | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is None else group_ids
        self.include_authorized_operations: bool = include_authorized_operations


class TopicPartitions(Message):
    __slots__ = ('topic_id', 'topic_name', 'partitions')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('topic_id', 'uuid', '1'),
        Field('topic_name', 'string', '1'),
        Field('partitions', 'int32', '1', array=True),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] | None = None,
    ) -> None:
        self.topic_id: bytes = topic_id
        self.topic_name: str = topic_name
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


class Member(Message):
    __slots__ = ('member_id', 'rack_id', 'member_epoch', 'client_id', 'client_host', 'subscribed_topic_names', 'assignment')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('member_id', 'string', '1'),
        Field('rack_id', 'string', '1', nullable='1'),
        Field('member_epoch', 'int32', '1'),
        Field('client_id', 'string', '1'),
        Field('client_host', 'string', '1'),
        Field('subscribed_topic_names', 'string', '1', array=True),
        Field('assignment', Assignment, '1'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] | None = None,
        assignment: Assignment | None = None,
    ) -> None:
        self.member_id: str = member_id
        self.rack_id: str | None = rack_id
        self.member_epoch: int = member_epoch
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is None else subscribed_topic_names
        self.assignment: Assignment = Assignment() if assignment is None else assignment


class DescribedGroup(Message):
    __slots__ = ('error_code', 'error_message', 'group_id', 'group_state', 'group_epoch', 'assignment_epoch', 'assignor_name', 'members', 'authorized_operations')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('error_code', 'int16', '1'),
        Field('error_message', 'string', '1', nullable='1'),
        Field('group_id', 'string', '1'),
        Field('group_state', 'string', '1'),
        Field('group_epoch', 'int32', '1'),
        Field('assignment_epoch', 'int32', '1'),
        Field('assignor_name', 'string', '1'),
        Field('members', Member, '1', array=True),
        Field('authorized_operations', 'int32', '1'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.group_id: str = group_id
        self.group_state: str = group_state
        self.group_epoch: int = group_epoch
        self.assignment_epoch: int = assignment_epoch
        self.assignor_name: str = assignor_name
        self.members: list[Member] = [] if members is None else members
        self.authorized_operations: int = authorized_operations


class ShareGroupDescribeResponse(Message):
    __slots__ = ('throttle_time_ms', 'groups')
    FLEXIBLE_FROM = 1
    API_KEY = 77
    VERSIONS = (1, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1'),
        Field('groups', DescribedGroup, '1', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is None else groups
