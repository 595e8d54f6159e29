"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class EnvelopeRequest(Request["EnvelopeResponse"]):
    __slots__ = ('request_data', 'request_principal', 'client_host_address')
    FLEXIBLE_FROM = 0
    API_KEY = 58
    VERSIONS = (0, 0)
    FIELDS = (
        Field('request_data', 'bytes', '0'),
        Field('request_principal', 'bytes', '0', nullable='0'),
        Field('client_host_address', 'bytes', '0'),
    )

    def __init__(
        self,
        *,
        request_data: bytes = b"",
        request_principal: bytes | None = None,
        client_host_address: bytes = b"",
    ) -> None:
        self.request_data: bytes = request_data
        self.request_principal: bytes | None = request_principal
        self.client_host_address: bytes = client_host_address


class EnvelopeResponse(Message):
    __slots__ = ('response_data', 'error_code')
    FLEXIBLE_FROM = 0
    API_KEY = 58
    VERSIONS = (0, 0)
    FIELDS = (
        Field('response_data', 'bytes', '0', nullable='0'),
        Field('error_code', 'int16', '0'),
    )

    def __init__(
        self,
        *,
        response_data: bytes | None = None,
        error_code: int = 0,
    ) -> None:
        self.response_data: bytes | None = response_data
        self.error_code: int = error_code
