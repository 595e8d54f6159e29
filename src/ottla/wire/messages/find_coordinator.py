"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    __slots__ = ('key', 'key_type', 'coordinator_keys')
    FLEXIBLE_FROM = 3
    API_KEY = 10
    VERSIONS = (0, 6)
    FIELDS = (
        Field('key', 'string', '0-3'),
        Field('key_type', 'int8', '1-6'),
        Field('coordinator_keys', 'string', '4-6', array=True),
    )

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] | None = None,
    ) -> None:
        self.key: str = key
        self.key_type: int = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is None else coordinator_keys


class Coordinator(Message):
    __slots__ = ('key', 'node_id', 'host', 'port', 'error_code', 'error_message')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('key', 'string', '4-6'),
        Field('node_id', 'int32', '4-6'),
        Field('host', 'string', '4-6'),
        Field('port', 'int32', '4-6'),
        Field('error_code', 'int16', '4-6'),
        Field('error_message', 'string', '4-6', nullable='4-6'),
    )

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.key: str = key
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class FindCoordinatorResponse(Message):
    __slots__ = ('throttle_time_ms', 'coordinators', 'error_code', 'error_message', 'node_id', 'host', 'port')
    FLEXIBLE_FROM = 3
    API_KEY = 10
    VERSIONS = (0, 6)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '1-6'),
        Field('coordinators', Coordinator, '4-6', array=True),
        Field('error_code', 'int16', '0-3'),
        Field('error_message', 'string', '1-3', nullable='1-3'),
        Field('node_id', 'int32', '0-3'),
        Field('host', 'string', '0-3'),
        Field('port', 'int32', '0-3'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        coordinators: list[Coordinator] | None = None,
        error_code: int = 0,
        error_message: str | None = None,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.coordinators: list[Coordinator] = [] if coordinators is None else coordinators
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
