"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class AclCreation(Message):
    __slots__ = ('resource_type', 'resource_name', 'resource_pattern_type', 'principal', 'host', 'operation', 'permission_type')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('resource_type', 'int8', '1-3'),
        Field('resource_name', 'string', '1-3'),
        Field('resource_pattern_type', 'int8', '1-3'),
        Field('principal', 'string', '1-3'),
        Field('host', 'string', '1-3'),
        Field('operation', 'int8', '1-3'),
        Field('permission_type', 'int8', '1-3'),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.resource_pattern_type: int = resource_pattern_type
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type


class CreateAclsRequest(Request["CreateAclsResponse"]):
    __slots__ = ('creations',)
    FLEXIBLE_FROM = 2
    API_KEY = 30
    VERSIONS = (1, 3)
    FIELDS = (
        Field('creations', AclCreation, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        creations: list[AclCreation] | None = None,
    ) -> None:
        self.creations: list[AclCreation] = [] if creations is None else creations


class AclCreationResult(Message):
    __slots__ = ('error_code', 'error_message')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('error_code', 'int16', '1-3'),
        Field('error_message', 'string', '1-3', nullable='1-3'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class CreateAclsResponse(Message):
    __slots__ = ('throttle_time_ms', 'results')
    FLEXIBLE_FROM = 2
    API_KEY = 30
    VERSIONS = (1, 3)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-3'),
        Field('results', AclCreationResult, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AclCreationResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AclCreationResult] = [] if results is None else results
