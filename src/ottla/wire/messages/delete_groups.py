"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    __slots__ = ('groups_names',)
    FLEXIBLE_FROM = 2
    API_KEY = 42
    VERSIONS = (0, 2)
    FIELDS = (
        Field('groups_names', 'string', '0-2', array=True),
    )

    def __init__(
        self,
        *,
        groups_names: list[str] | None = None,
    ) -> None:
        self.groups_names: list[str] = [] if groups_names is None else groups_names


class DeletableGroupResult(Message):
    __slots__ = ('group_id', 'error_code')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('group_id', 'string', '0-2'),
        Field('error_code', 'int16', '0-2'),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
    ) -> None:
        self.group_id: str = group_id
        self.error_code: int = error_code


class DeleteGroupsResponse(Message):
    __slots__ = ('throttle_time_ms', 'results')
    FLEXIBLE_FROM = 2
    API_KEY = 42
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('results', DeletableGroupResult, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[DeletableGroupResult] = [] if results is None else results
