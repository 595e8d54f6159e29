"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


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


class OpData(Message):
    __slots__ = ('key', 'value', 'remove')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('key', 'string', '0-1'),
        Field('value', 'float64', '0-1'),
        Field('remove', 'bool', '0-1'),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key: str = key
        self.value: float = value
        self.remove: bool = remove


class EntryData(Message):
    __slots__ = ('entity', 'ops')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('entity', EntityData, '0-1', array=True),
        Field('ops', OpData, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] | None = None,
        ops: list[OpData] | None = None,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is None else entity
        self.ops: list[OpData] = [] if ops is None else ops


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    __slots__ = ('entries', 'validate_only')
    FLEXIBLE_FROM = 1
    API_KEY = 49
    VERSIONS = (0, 1)
    FIELDS = (
        Field('entries', EntryData, '0-1', array=True),
        Field('validate_only', 'bool', '0-1'),
    )

    def __init__(
        self,
        *,
        entries: list[EntryData] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.entries: list[EntryData] = [] if entries is None else entries
        self.validate_only: bool = validate_only


class ResponseEntityData(Message):
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


class ResponseEntryData(Message):
    __slots__ = ('error_code', 'error_message', 'entity')
    FLEXIBLE_FROM = 1
    FIELDS = (
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
        Field('entity', ResponseEntityData, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        entity: list[ResponseEntityData] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.entity: list[ResponseEntityData] = [] if entity is None else entity


class AlterClientQuotasResponse(Message):
    __slots__ = ('throttle_time_ms', 'entries')
    FLEXIBLE_FROM = 1
    API_KEY = 49
    VERSIONS = (0, 1)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-1'),
        Field('entries', ResponseEntryData, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[ResponseEntryData] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.entries: list[ResponseEntryData] = [] if entries is None else entries
