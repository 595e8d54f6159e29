"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    __slots__ = ('groups', 'include_authorized_operations')
    FLEXIBLE_FROM = 5
    API_KEY = 15
    VERSIONS = (0, 6)
    FIELDS = (
        Field('groups', 'string', '0-6', array=True),
        Field('include_authorized_operations', 'bool', '3-6'),
    )

    def __init__(
        self,
        *,
        groups: list[str] | None = None,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups: list[str] = [] if groups is None else groups
        self.include_authorized_operations: bool = include_authorized_operations


class DescribedGroupMember(Message):
    __slots__ = ('member_id', 'group_instance_id', 'client_id', 'client_host', 'member_metadata', 'member_assignment')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('member_id', 'string', '0-6'),
        Field('group_instance_id', 'string', '4-6', nullable='4-6'),
        Field('client_id', 'string', '0-6'),
        Field('client_host', 'string', '0-6'),
        Field('member_metadata', 'bytes', '0-6'),
        Field('member_assignment', 'bytes', '0-6'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.member_metadata: bytes = member_metadata
        self.member_assignment: bytes = member_assignment


class DescribedGroup(Message):
    __slots__ = ('error_code', 'error_message', 'group_id', 'group_state', 'protocol_type', 'protocol_data', 'members', 'authorized_operations')
    FLEXIBLE_FROM = 5
    FIELDS = (
        Field('error_code', 'int16', '0-6'),
        Field('error_message', 'string', '6', nullable='6'),
        Field('group_id', 'string', '0-6'),
        Field('group_state', 'string', '0-6'),
        Field('protocol_type', 'string', '0-6'),
        Field('protocol_data', 'string', '0-6'),
        Field('members', DescribedGroupMember, '0-6', array=True),
        Field('authorized_operations', 'int32', '3-6'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] | None = None,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.group_id: str = group_id
        self.group_state: str = group_state
        self.protocol_type: str = protocol_type
        self.protocol_data: str = protocol_data
        self.members: list[DescribedGroupMember] = [] if members is None else members
        self.authorized_operations: int = authorized_operations


class DescribeGroupsResponse(Message):
    __slots__ = ('throttle_time_ms', 'groups')
    FLEXIBLE_FROM = 5
    API_KEY = 15
    VERSIONS = (0, 6)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-6'),
        Field('groups', DescribedGroup, '0-6', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is None else groups
