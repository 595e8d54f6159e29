"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ListGroupsRequest(Request["ListGroupsResponse"]):
    __slots__ = ('states_filter', 'types_filter')
    FLEXIBLE_FROM = 3
    API_KEY = 16
    VERSIONS = (0, 5)
    FIELDS = (
        Field('states_filter', 'string', '4-5', array=True),
        Field('types_filter', 'string', '5', array=True),
    )

    def __init__(
        self,
        *,
        states_filter: list[str] | None = None,
        types_filter: list[str] | None = None,
    ) -> None:
        self.states_filter: list[str] = [] if states_filter is None else states_filter
        self.types_filter: list[str] = [] if types_filter is None else types_filter


class ListedGroup(Message):
    __slots__ = ('group_id', 'protocol_type', 'group_state', 'group_type')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('group_id', 'string', '0-5'),
        Field('protocol_type', 'string', '0-5'),
        Field('group_state', 'string', '4-5'),
        Field('group_type', 'string', '5'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id: str = group_id
        self.protocol_type: str = protocol_type
        self.group_state: str = group_state
        self.group_type: str = group_type


class ListGroupsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'groups')
    FLEXIBLE_FROM = 3
    API_KEY = 16
    VERSIONS = (0, 5)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-5'),
        Field('error_code', 'int16', '0-5'),
        Field('groups', ListedGroup, '0-5', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.groups: list[ListedGroup] = [] if groups is None else groups
