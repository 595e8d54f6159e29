"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class AlterableConfig(Message):
    __slots__ = ('name', 'value')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('name', 'string', '0-2'),
        Field('value', 'string', '0-2', nullable='0-2'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.name: str = name
        self.value: str | None = value


class AlterConfigsResource(Message):
    __slots__ = ('resource_type', 'resource_name', 'configs')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('resource_type', 'int8', '0-2'),
        Field('resource_name', 'string', '0-2'),
        Field('configs', AlterableConfig, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] | None = None,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.configs: list[AlterableConfig] = [] if configs is None else configs


class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    __slots__ = ('resources', 'validate_only')
    FLEXIBLE_FROM = 2
    API_KEY = 33
    VERSIONS = (0, 2)
    FIELDS = (
        Field('resources', AlterConfigsResource, '0-2', array=True),
        Field('validate_only', 'bool', '0-2'),
    )

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.resources: list[AlterConfigsResource] = [] if resources is None else resources
        self.validate_only: bool = validate_only


class AlterConfigsResourceResponse(Message):
    __slots__ = ('error_code', 'error_message', 'resource_type', 'resource_name')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '0-2', nullable='0-2'),
        Field('resource_type', 'int8', '0-2'),
        Field('resource_name', 'string', '0-2'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name


class AlterConfigsResponse(Message):
    __slots__ = ('throttle_time_ms', 'responses')
    FLEXIBLE_FROM = 2
    API_KEY = 33
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('responses', AlterConfigsResourceResponse, '0-2', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.responses: list[AlterConfigsResourceResponse] = [] if responses is None else responses
