"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    __slots__ = ('mechanism',)
    FLEXIBLE_FROM = 32767
    API_KEY = 17
    VERSIONS = (0, 1)
    FIELDS = (
        Field('mechanism', 'string', '0-1'),
    )

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism: str = mechanism


class SaslHandshakeResponse(Message):
    __slots__ = ('error_code', 'mechanisms')
    FLEXIBLE_FROM = 32767
    API_KEY = 17
    VERSIONS = (0, 1)
    FIELDS = (
        Field('error_code', 'int16', '0-1'),
        Field('mechanisms', 'string', '0-1', array=True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.mechanisms: list[str] = [] if mechanisms is None else mechanisms
