"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    __slots__ = ('resource_type_filter', 'resource_name_filter', 'pattern_type_filter', 'principal_filter', 'host_filter', 'operation', 'permission_type')
    FLEXIBLE_FROM = 2
    API_KEY = 29
    VERSIONS = (1, 3)
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


class AclDescription(Message):
    __slots__ = ('principal', 'host', 'operation', 'permission_type')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('principal', 'string', '1-3'),
        Field('host', 'string', '1-3'),
        Field('operation', 'int8', '1-3'),
        Field('permission_type', 'int8', '1-3'),
    )

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type


class DescribeAclsResource(Message):
    __slots__ = ('resource_type', 'resource_name', 'pattern_type', 'acls')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('resource_type', 'int8', '1-3'),
        Field('resource_name', 'string', '1-3'),
        Field('pattern_type', 'int8', '1-3'),
        Field('acls', AclDescription, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] | None = None,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.pattern_type: int = pattern_type
        self.acls: list[AclDescription] = [] if acls is None else acls


class DescribeAclsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'resources')
    FLEXIBLE_FROM = 2
    API_KEY = 29
    VERSIONS = (1, 3)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-3'),
        Field('error_code', 'int16', '1-3'),
        Field('error_message', 'string', '1-3', nullable='1-3'),
        Field('resources', DescribeAclsResource, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        resources: list[DescribeAclsResource] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resources: list[DescribeAclsResource] = [] if resources is None else resources
