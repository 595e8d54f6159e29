"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    __slots__ = ('auth_bytes',)
    FLEXIBLE_FROM = 2
    API_KEY = 36
    VERSIONS = (0, 2)
    FIELDS = (
        Field('auth_bytes', 'bytes', '0-2'),
    )

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes: bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    __slots__ = ('error_code', 'error_message', 'auth_bytes', 'session_lifetime_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 36
    VERSIONS = (0, 2)
    FIELDS = (
        Field('error_code', 'int16', '0-2'),
        Field('error_message', 'string', '0-2', nullable='0-2'),
        Field('auth_bytes', 'bytes', '0-2'),
        Field('session_lifetime_ms', 'int64', '1-2'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.auth_bytes: bytes = auth_bytes
        self.session_lifetime_ms: int = session_lifetime_ms
