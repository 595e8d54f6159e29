"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import ZERO_UUID, Field, Message, Request


class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    __slots__ = ('client_instance_id', 'subscription_id', 'terminating', 'compression_type', 'metrics')
    FLEXIBLE_FROM = 0
    API_KEY = 72
    VERSIONS = (0, 0)
    FIELDS = (
        Field('client_instance_id', 'uuid', '0'),
        Field('subscription_id', 'int32', '0'),
        Field('terminating', 'bool', '0'),
        Field('compression_type', 'int8', '0'),
        Field('metrics', 'bytes', '0'),
    )

    def __init__(
        self,
        *,
        client_instance_id: bytes = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id: bytes = client_instance_id
        self.subscription_id: int = subscription_id
        self.terminating: bool = terminating
        self.compression_type: int = compression_type
        self.metrics: bytes = metrics


class PushTelemetryResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code')
    FLEXIBLE_FROM = 0
    API_KEY = 72
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
