"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class HeartbeatRequest(Request["HeartbeatResponse"]):
    __slots__ = ('group_id', 'generation_id', 'member_id', 'group_instance_id')
    FLEXIBLE_FROM = 4
    API_KEY = 12
    VERSIONS = (0, 4)
    FIELDS = (
        Field('group_id', 'string', '0-4'),
        Field('generation_id', 'int32', '0-4'),
        Field('member_id', 'string', '0-4'),
        Field('group_instance_id', 'string', '3-4', nullable='3-4'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id


class HeartbeatResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code')
    FLEXIBLE_FROM = 4
    API_KEY = 12
    VERSIONS = (0, 4)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-4'),
        Field('error_code', 'int16', '0-4'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
