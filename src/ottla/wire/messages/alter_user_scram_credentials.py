"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class ScramCredentialDeletion(Message):
    __slots__ = ('name', 'mechanism')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('mechanism', 'int8', '0'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name: str = name
        self.mechanism: int = mechanism


class ScramCredentialUpsertion(Message):
    __slots__ = ('name', 'mechanism', 'iterations', 'salt', 'salted_password')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
        Field('mechanism', 'int8', '0'),
        Field('iterations', 'int32', '0'),
        Field('salt', 'bytes', '0'),
        Field('salted_password', 'bytes', '0'),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name: str = name
        self.mechanism: int = mechanism
        self.iterations: int = iterations
        self.salt: bytes = salt
        self.salted_password: bytes = salted_password


class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    __slots__ = ('deletions', 'upsertions')
    FLEXIBLE_FROM = 0
    API_KEY = 51
    VERSIONS = (0, 0)
    FIELDS = (
        Field('deletions', ScramCredentialDeletion, '0', array=True),
        Field('upsertions', ScramCredentialUpsertion, '0', array=True),
    )

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] | None = None,
        upsertions: list[ScramCredentialUpsertion] | None = None,
    ) -> None:
        self.deletions: list[ScramCredentialDeletion] = [] if deletions is None else deletions
        self.upsertions: list[ScramCredentialUpsertion] = [] if upsertions is None else upsertions


class AlterUserScramCredentialsResult(Message):
    __slots__ = ('user', 'error_code', 'error_message')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('user', 'string', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.user: str = user
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class AlterUserScramCredentialsResponse(Message):
    __slots__ = ('throttle_time_ms', 'results')
    FLEXIBLE_FROM = 0
    API_KEY = 51
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('results', AlterUserScramCredentialsResult, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AlterUserScramCredentialsResult] = [] if results is None else results
