"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DeleteAclsFilter(Message):
    __slots__ = ('resource_type_filter', 'resource_name_filter', 'pattern_type_filter', 'principal_filter', 'host_filter', 'operation', 'permission_type')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('resource_type_filter', 'int8', '1-3'),
        Field('resource_name_filter', 'string', '1-3', nullable='1-3'),
        Field('pattern_type_filter', 'int8', '1-3'),
        Field('principal_filter', 'string', '1-3', nullable='1-3'),
        Field('host_filter', 'string', '1-3', nullable='1-3'),
        Field('operation', 'int8', '1-3'),
        Field('permission_type', 'int8', '1-3'),
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = None,
        pattern_type_filter: int = 3,
        principal_filter: str | None = None,
        host_filter: str | None = None,
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter: int = resource_type_filter
        self.resource_name_filter: str | None = resource_name_filter
        self.pattern_type_filter: int = pattern_type_filter
        self.principal_filter: str | None = principal_filter
        self.host_filter: str | None = host_filter
        self.operation: int = operation
        self.permission_type: int = permission_type


class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    __slots__ = ('filters',)
    FLEXIBLE_FROM = 2
    API_KEY = 31
    VERSIONS = (1, 3)
    FIELDS = (
        Field('filters', DeleteAclsFilter, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        filters: list[DeleteAclsFilter] | None = None,
    ) -> None:
        self.filters: list[DeleteAclsFilter] = [] if filters is None else filters


class DeleteAclsMatchingAcl(Message):
    __slots__ = ('error_code', 'error_message', 'resource_type', 'resource_name', 'pattern_type', 'principal', 'host', 'operation', 'permission_type')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('error_code', 'int16', '1-3'),
        Field('error_message', 'string', '1-3', nullable='1-3'),
        Field('resource_type', 'int8', '1-3'),
        Field('resource_name', 'string', '1-3'),
        Field('pattern_type', 'int8', '1-3'),
        Field('principal', 'string', '1-3'),
        Field('host', 'string', '1-3'),
        Field('operation', 'int8', '1-3'),
        Field('permission_type', 'int8', '1-3'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.pattern_type: int = pattern_type
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type


class DeleteAclsFilterResult(Message):
    __slots__ = ('error_code', 'error_message', 'matching_acls')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('error_code', 'int16', '1-3'),
        Field('error_message', 'string', '1-3', nullable='1-3'),
        Field('matching_acls', DeleteAclsMatchingAcl, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        matching_acls: list[DeleteAclsMatchingAcl] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.matching_acls: list[DeleteAclsMatchingAcl] = [] if matching_acls is None else matching_acls


class DeleteAclsResponse(Message):
    __slots__ = ('throttle_time_ms', 'filter_results')
    FLEXIBLE_FROM = 2
    API_KEY = 31
    VERSIONS = (1, 3)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-3'),
        Field('filter_results', DeleteAclsFilterResult, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.filter_results: list[DeleteAclsFilterResult] = [] if filter_results is None else filter_results
