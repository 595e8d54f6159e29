"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class SyncGroupRequestAssignment(Message):
    __slots__ = ('member_id', 'assignment')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('member_id', 'string', '0-5'),
        Field('assignment', 'bytes', '0-5'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id: str = member_id
        self.assignment: bytes = assignment


class SyncGroupRequest(Request["SyncGroupResponse"]):
    __slots__ = ('group_id', 'generation_id', 'member_id', 'group_instance_id', 'protocol_type', 'protocol_name', 'assignments')
    FLEXIBLE_FROM = 4
    API_KEY = 14
    VERSIONS = (0, 5)
    FIELDS = (
        Field('group_id', 'string', '0-5'),
        Field('generation_id', 'int32', '0-5'),
        Field('member_id', 'string', '0-5'),
        Field('group_instance_id', 'string', '3-5', nullable='3-5'),
        Field('protocol_type', 'string', '5', nullable='5'),
        Field('protocol_name', 'string', '5', nullable='5'),
        Field('assignments', SyncGroupRequestAssignment, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.assignments: list[SyncGroupRequestAssignment] = [] if assignments is None else assignments


class SyncGroupResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'protocol_type', 'protocol_name', 'assignment')
    FLEXIBLE_FROM = 4
    API_KEY = 14
    VERSIONS = (0, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-5'),
        Field('error_code', 'int16', '0-5'),
        Field('protocol_type', 'string', '5', nullable='5'),
        Field('protocol_name', 'string', '5', nullable='5'),
        Field('assignment', 'bytes', '0-5'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.assignment: bytes = assignment
