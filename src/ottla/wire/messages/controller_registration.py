"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message


class Listener(Message):
    __slots__ = ('name', 'host', 'port', 'security_protocol')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('host', 'string', '0'),
        Field('port', 'uint16', '0'),
        Field('security_protocol', 'int16', '0'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name: str = name
        self.host: str = host
        self.port: int = port
        self.security_protocol: int = security_protocol


class Feature(Message):
    __slots__ = ('name', 'min_supported_version', 'max_supported_version')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('min_supported_version', 'int16', '0'),
        Field('max_supported_version', 'int16', '0'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name: str = name
        self.min_supported_version: int = min_supported_version
        self.max_supported_version: int = max_supported_version


class ControllerRegistrationRequest(Message):
    __slots__ = ('controller_id', 'incarnation_id', 'zk_migration_ready', 'listeners', 'features')
    FLEXIBLE_FROM = 0
    API_KEY = 70
    VERSIONS = (0, 0)
    FIELDS = (
        Field('controller_id', 'int32', '0'),
        Field('incarnation_id', 'uuid', '0'),
        Field('zk_migration_ready', 'bool', '0'),
        Field('listeners', Listener, '0', array=True),
        Field('features', Feature, '0', array=True),
    )

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: list[Listener] | None = None,
        features: list[Feature] | None = None,
    ) -> None:
        self.controller_id: int = controller_id
        self.incarnation_id: bytes = incarnation_id
        self.zk_migration_ready: bool = zk_migration_ready
        self.listeners: list[Listener] = [] if listeners is None else listeners
        self.features: list[Feature] = [] if features is None else features


class ControllerRegistrationResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    API_KEY = 70
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
