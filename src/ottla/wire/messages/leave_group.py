"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class MemberIdentity(Message):
    __slots__ = ('member_id', 'group_instance_id', 'reason')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('member_id', 'string', '3-5'),
        Field('group_instance_id', 'string', '3-5', nullable='3-5'),
        Field('reason', 'string', '5', nullable='5'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.reason: str | None = reason


class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    __slots__ = ('group_id', 'members', 'member_id')
    FLEXIBLE_FROM = 4
    API_KEY = 13
    VERSIONS = (0, 5)
    FIELDS = (
        Field('group_id', 'string', '0-5'),
        Field('members', MemberIdentity, '3-5', array=True),
        Field('member_id', 'string', '0-2'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        members: list[MemberIdentity] | None = None,
        member_id: str = "",
    ) -> None:
        self.group_id: str = group_id
        self.members: list[MemberIdentity] = [] if members is None else members
        self.member_id: str = member_id


class MemberResponse(Message):
    __slots__ = ('member_id', 'group_instance_id', 'error_code')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('member_id', 'string', '3-5'),
        Field('group_instance_id', 'string', '3-5', nullable='3-5'),
        Field('error_code', 'int16', '3-5'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.error_code: int = error_code


class LeaveGroupResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'members')
    FLEXIBLE_FROM = 4
    API_KEY = 13
    VERSIONS = (0, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-5'),
        Field('error_code', 'int16', '0-5'),
        Field('members', MemberResponse, '3-5', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.members: list[MemberResponse] = [] if members is None else members
