"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    __slots__ = ('broker_id',)
    FLEXIBLE_FROM = 0
    API_KEY = 64
    VERSIONS = (0, 0)
    FIELDS = (
        Field('broker_id', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id: int = broker_id


class UnregisterBrokerResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    API_KEY = 64
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
