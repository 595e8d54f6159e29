"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    __slots__ = ('resource_types',)
    FLEXIBLE_FROM = 0
    API_KEY = 74
    VERSIONS = (0, 1)
    FIELDS = (
        Field('resource_types', 'int8', '1', array=True),
    )

    def __init__(
        self,
        *,
        resource_types: list[int] | None = None,
    ) -> None:
        self.resource_types: list[int] = [] if resource_types is None else resource_types


class ConfigResource(Message):
    __slots__ = ('resource_name', 'resource_type')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('resource_name', 'string', '0-1'),
        Field('resource_type', 'int8', '1'),
    )

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name: str = resource_name
        self.resource_type: int = resource_type


class ListConfigResourcesResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'config_resources')
    FLEXIBLE_FROM = 0
    API_KEY = 74
    VERSIONS = (0, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-1'),
        Field('error_code', 'int16', '0-1'),
        Field('config_resources', ConfigResource, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.config_resources: list[ConfigResource] = [] if config_resources is None else config_resources
