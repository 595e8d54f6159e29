"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    __slots__ = ('client_software_name', 'client_software_version')
    FLEXIBLE_FROM = 3
    API_KEY = 18
    VERSIONS = (0, 4)
    FIELDS = (
        Field('client_software_name', 'string', '3-4'),
        Field('client_software_version', 'string', '3-4'),
    )

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name: str = client_software_name
        self.client_software_version: str = client_software_version


class ApiVersion(Message):
    __slots__ = ('api_key', 'min_version', 'max_version')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('api_key', 'int16', '0-4'),
        Field('min_version', 'int16', '0-4'),
        Field('max_version', 'int16', '0-4'),
    )

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key: int = api_key
        self.min_version: int = min_version
        self.max_version: int = max_version


class SupportedFeatureKey(Message):
    __slots__ = ('name', 'min_version', 'max_version')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('name', 'string', '3-4'),
        Field('min_version', 'int16', '3-4'),
        Field('max_version', 'int16', '3-4'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name: str = name
        self.min_version: int = min_version
        self.max_version: int = max_version


class FinalizedFeatureKey(Message):
    __slots__ = ('name', 'max_version_level', 'min_version_level')
    FLEXIBLE_FROM = 3
    FIELDS = (
        Field('name', 'string', '3-4'),
        Field('max_version_level', 'int16', '3-4'),
        Field('min_version_level', 'int16', '3-4'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name: str = name
        self.max_version_level: int = max_version_level
        self.min_version_level: int = min_version_level


class ApiVersionsResponse(Message):
    __slots__ = ('error_code', 'api_keys', 'throttle_time_ms', 'supported_features', 'finalized_features_epoch', 'finalized_features', 'zk_migration_ready')
    FLEXIBLE_FROM = 3
    API_KEY = 18
    VERSIONS = (0, 4)
    FIELDS = (
        Field('error_code', 'int16', '0-4'),
        Field('api_keys', ApiVersion, '0-4', array=True),
        Field('throttle_time_ms', 'int32', '1-4'),
        Field('supported_features', SupportedFeatureKey, '3-4', array=True, tag=0, tagged='3-4'),
        Field('finalized_features_epoch', 'int64', '3-4', tag=1, tagged='3-4'),
        Field('finalized_features', FinalizedFeatureKey, '3-4', array=True, tag=2, tagged='3-4'),
        Field('zk_migration_ready', 'bool', '3-4', tag=3, tagged='3-4'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] | None = None,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] | None = None,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] | None = None,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code: int = error_code
        self.api_keys: list[ApiVersion] = [] if api_keys is None else api_keys
        self.throttle_time_ms: int = throttle_time_ms
        self.supported_features: list[SupportedFeatureKey] = [] if supported_features is None else supported_features
        self.finalized_features_epoch: int = finalized_features_epoch
        self.finalized_features: list[FinalizedFeatureKey] = [] if finalized_features is None else finalized_features
        self.zk_migration_ready: bool = zk_migration_ready
