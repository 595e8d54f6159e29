"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class JoinGroupRequestProtocol(Message):
    __slots__ = ('name', 'metadata')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('name', 'string', '0-9'),
        Field('metadata', 'bytes', '0-9'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name: str = name
        self.metadata: bytes = metadata


class JoinGroupRequest(Request["JoinGroupResponse"]):
    __slots__ = ('group_id', 'session_timeout_ms', 'rebalance_timeout_ms', 'member_id', 'group_instance_id', 'protocol_type', 'protocols', 'reason')
    FLEXIBLE_FROM = 6
    API_KEY = 11
    VERSIONS = (0, 9)
    FIELDS = (
        Field('group_id', 'string', '0-9'),
        Field('session_timeout_ms', 'int32', '0-9'),
        Field('rebalance_timeout_ms', 'int32', '1-9'),
        Field('member_id', 'string', '0-9'),
        Field('group_instance_id', 'string', '5-9', nullable='5-9'),
        Field('protocol_type', 'string', '0-9'),
        Field('protocols', JoinGroupRequestProtocol, '0-9', array=True),
        Field('reason', 'string', '8-9', nullable='8-9'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] | None = None,
        reason: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.session_timeout_ms: int = session_timeout_ms
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.protocol_type: str = protocol_type
        self.protocols: list[JoinGroupRequestProtocol] = [] if protocols is None else protocols
        self.reason: str | None = reason


class JoinGroupResponseMember(Message):
    __slots__ = ('member_id', 'group_instance_id', 'metadata')
    FLEXIBLE_FROM = 6
    FIELDS = (
        Field('member_id', 'string', '0-9'),
        Field('group_instance_id', 'string', '5-9', nullable='5-9'),
        Field('metadata', 'bytes', '0-9'),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.metadata: bytes = metadata


class JoinGroupResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'generation_id', 'protocol_type', 'protocol_name', 'leader', 'skip_assignment', 'member_id', 'members')
    FLEXIBLE_FROM = 6
    API_KEY = 11
    VERSIONS = (0, 9)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '2-9'),
        Field('error_code', 'int16', '0-9'),
        Field('generation_id', 'int32', '0-9'),
        Field('protocol_type', 'string', '7-9', nullable='7-9'),
        Field('protocol_name', 'string', '0-9', nullable='7-9'),
        Field('leader', 'string', '0-9'),
        Field('skip_assignment', 'bool', '9'),
        Field('member_id', 'string', '0-9'),
        Field('members', JoinGroupResponseMember, '0-9', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.generation_id: int = generation_id
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.leader: str = leader
        self.skip_assignment: bool = skip_assignment
        self.member_id: str = member_id
        self.members: list[JoinGroupResponseMember] = [] if members is None else members
