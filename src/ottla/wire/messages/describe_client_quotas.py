"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ComponentData(Message):
    __slots__ = ('entity_type', 'match_type', 'match')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('entity_type', 'string', '0-1'),
        Field('match_type', 'int8', '0-1'),
        Field('match', 'string', '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = None,
    ) -> None:
        self.entity_type: str = entity_type
        self.match_type: int = match_type
        self.match: str | None = match


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    __slots__ = ('components', 'strict')
    FLEXIBLE_FROM = 1
    API_KEY = 48
    VERSIONS = (0, 1)
    FIELDS = (
        Field('components', ComponentData, '0-1', array=True),
        Field('strict', 'bool', '0-1'),
    )

    def __init__(
        self,
        *,
        components: list[ComponentData] | None = None,
        strict: bool = False,
    ) -> None:
        self.components: list[ComponentData] = [] if components is None else components
        self.strict: bool = strict


class EntityData(Message):
    __slots__ = ('entity_type', 'entity_name')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('entity_type', 'string', '0-1'),
        Field('entity_name', 'string', '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = None,
    ) -> None:
        self.entity_type: str = entity_type
        self.entity_name: str | None = entity_name


class ValueData(Message):
    __slots__ = ('key', 'value')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('key', 'string', '0-1'),
        Field('value', 'float64', '0-1'),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key: str = key
        self.value: float = value


class EntryData(Message):
    __slots__ = ('entity', 'values')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('entity', EntityData, '0-1', array=True),
        Field('values', ValueData, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] | None = None,
        values: list[ValueData] | None = None,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is None else entity
        self.values: list[ValueData] = [] if values is None else values


class DescribeClientQuotasResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'entries')
    FLEXIBLE_FROM = 1
    API_KEY = 48
    VERSIONS = (0, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
        Field('entries', EntryData, '0-1', array=True, nullable='0-1'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        entries: list[EntryData] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.entries: list[EntryData] | None = entries
