"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribeConfigsResource(Message):
    __slots__ = ('resource_type', 'resource_name', 'configuration_keys')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('resource_type', 'int8', '1-4'),
        Field('resource_name', 'string', '1-4'),
        Field('configuration_keys', 'string', '1-4', array=True, nullable='1-4'),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = None,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.configuration_keys: list[str] | None = configuration_keys


class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    __slots__ = ('resources', 'include_synonyms', 'include_documentation')
    FLEXIBLE_FROM = 4
    API_KEY = 32
    VERSIONS = (1, 4)
    FIELDS = (
        Field('resources', DescribeConfigsResource, '1-4', array=True),
        Field('include_synonyms', 'bool', '1-4'),
        Field('include_documentation', 'bool', '3-4'),
    )

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources: list[DescribeConfigsResource] = [] if resources is None else resources
        self.include_synonyms: bool = include_synonyms
        self.include_documentation: bool = include_documentation


class DescribeConfigsSynonym(Message):
    __slots__ = ('name', 'value', 'source')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('name', 'string', '1-4'),
        Field('value', 'string', '1-4', nullable='1-4'),
        Field('source', 'int8', '1-4'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
        source: int = 0,
    ) -> None:
        self.name: str = name
        self.value: str | None = value
        self.source: int = source


class DescribeConfigsResourceResult(Message):
    __slots__ = ('name', 'value', 'read_only', 'config_source', 'is_sensitive', 'synonyms', 'config_type', 'documentation')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('name', 'string', '1-4'),
        Field('value', 'string', '1-4', nullable='1-4'),
        Field('read_only', 'bool', '1-4'),
        Field('config_source', 'int8', '1-4'),
        Field('is_sensitive', 'bool', '1-4'),
        Field('synonyms', DescribeConfigsSynonym, '1-4', array=True),
        Field('config_type', 'int8', '3-4'),
        Field('documentation', 'string', '3-4', nullable='3-4'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] | None = None,
        config_type: int = 0,
        documentation: str | None = None,
    ) -> None:
        self.name: str = name
        self.value: str | None = value
        self.read_only: bool = read_only
        self.config_source: int = config_source
        self.is_sensitive: bool = is_sensitive
        self.synonyms: list[DescribeConfigsSynonym] = [] if synonyms is None else synonyms
        self.config_type: int = config_type
        self.documentation: str | None = documentation


class DescribeConfigsResult(Message):
    __slots__ = ('error_code', 'error_message', 'resource_type', 'resource_name', 'configs')
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field('error_code', 'int16', '1-4'),
        Field('error_message', 'string', '1-4', nullable='1-4'),
        Field('resource_type', 'int8', '1-4'),
        Field('resource_name', 'string', '1-4'),
        Field('configs', DescribeConfigsResourceResult, '1-4', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.configs: list[DescribeConfigsResourceResult] = [] if configs is None else configs


class DescribeConfigsResponse(Message):
    __slots__ = ('throttle_time_ms', 'results')
    FLEXIBLE_FROM = 4
    API_KEY = 32
    VERSIONS = (1, 4)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-4'),
        Field('results', DescribeConfigsResult, '1-4', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[DescribeConfigsResult] = [] if results is None else results
