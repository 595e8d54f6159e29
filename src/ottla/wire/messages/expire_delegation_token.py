"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    __slots__ = ('hmac', 'expiry_time_period_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 40
    VERSIONS = (1, 2)
    FIELDS = (
        Field('hmac', 'bytes', '1-2'),
        Field('expiry_time_period_ms', 'int64', '1-2'),
    )

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac: bytes = hmac
        self.expiry_time_period_ms: int = expiry_time_period_ms


class ExpireDelegationTokenResponse(Message):
    __slots__ = ('error_code', 'expiry_timestamp_ms', 'throttle_time_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 40
    VERSIONS = (1, 2)
    FIELDS = (
        Field('error_code', 'int16', '1-2'),
        Field('expiry_timestamp_ms', 'int64', '1-2'),
        Field('throttle_time_ms', 'int32', '1-2'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.expiry_timestamp_ms: int = expiry_timestamp_ms
        self.throttle_time_ms: int = throttle_time_ms
