"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message


class Listener(Message):
    __slots__ = ('name', 'host', 'port', 'security_protocol')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0-4'),
        Field('host', 'string', '0-4'),
        Field('port', 'uint16', '0-4'),
        Field('security_protocol', 'int16', '0-4'),
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
        Field('name', 'string', '0-4'),
        Field('min_supported_version', 'int16', '0-4'),
        Field('max_supported_version', 'int16', '0-4'),
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


class BrokerRegistrationRequest(Message):
    __slots__ = ('broker_id', 'cluster_id', 'incarnation_id', 'listeners', 'features', 'rack', 'is_migrating_zk_broker', 'log_dirs', 'previous_broker_epoch')
    FLEXIBLE_FROM = 0
    API_KEY = 62
    VERSIONS = (0, 4)
    FIELDS = (
        Field('broker_id', 'int32', '0-4'),
        Field('cluster_id', 'string', '0-4'),
        Field('incarnation_id', 'uuid', '0-4'),
        Field('listeners', Listener, '0-4', array=True),
        Field('features', Feature, '0-4', array=True),
        Field('rack', 'string', '0-4', nullable='0-4'),
        Field('is_migrating_zk_broker', 'bool', '1-4'),
        Field('log_dirs', 'uuid', '2-4', array=True),
        Field('previous_broker_epoch', 'int64', '3-4'),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = ZERO_UUID,
        listeners: list[Listener] | None = None,
        features: list[Feature] | None = None,
        rack: str | None = None,
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] | None = None,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id: int = broker_id
        self.cluster_id: str = cluster_id
        self.incarnation_id: bytes = incarnation_id
        self.listeners: list[Listener] = [] if listeners is None else listeners
        self.features: list[Feature] = [] if features is None else features
        self.rack: str | None = rack
        self.is_migrating_zk_broker: bool = is_migrating_zk_broker
        self.log_dirs: list[bytes] = [] if log_dirs is None else log_dirs
        self.previous_broker_epoch: int = previous_broker_epoch


class BrokerRegistrationResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'broker_epoch')
    FLEXIBLE_FROM = 0
    API_KEY = 62
    VERSIONS = (0, 4)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-4'),
        Field('error_code', 'int16', '0-4'),
        Field('broker_epoch', 'int64', '0-4'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.broker_epoch: int = broker_epoch
