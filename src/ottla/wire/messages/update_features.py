"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class FeatureUpdateKey(Message):
    __slots__ = ('feature', 'max_version_level', 'upgrade_type', 'allow_downgrade')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('feature', 'string', '0-2'),
        Field('max_version_level', 'int16', '0-2'),
        Field('upgrade_type', 'int8', '1-2'),
        Field('allow_downgrade', 'bool', '0'),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        upgrade_type: int = 1,
        allow_downgrade: bool = False,
    ) -> None:
        self.feature: str = feature
        self.max_version_level: int = max_version_level
        self.upgrade_type: int = upgrade_type
        self.allow_downgrade: bool = allow_downgrade


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    __slots__ = ('timeout_ms', 'feature_updates', 'validate_only')
    FLEXIBLE_FROM = 0
    API_KEY = 57
    VERSIONS = (0, 2)
    FIELDS = (
        Field('timeout_ms', 'int32', '0-2'),
        Field('feature_updates', FeatureUpdateKey, '0-2', array=True),
        Field('validate_only', 'bool', '1-2'),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] | None = None,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.feature_updates: list[FeatureUpdateKey] = [] if feature_updates is None else feature_updates
        self.validate_only: bool = validate_only


class UpdatableFeatureResult(Message):
    __slots__ = ('feature', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('feature', 'string', '0-1'),
        Field('error_code', 'int16', '0-1'),
        Field('error_message', 'string', '0-1', nullable='0-1'),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.feature: str = feature
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class UpdateFeaturesResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'results')
    FLEXIBLE_FROM = 0
    API_KEY = 57
    VERSIONS = (0, 2)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0-2'),
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '0-2', nullable='0-2'),
        Field('results', UpdatableFeatureResult, '0-1', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: list[UpdatableFeatureResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.results: list[UpdatableFeatureResult] = [] if results is None else results
