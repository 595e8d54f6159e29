"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class UserName(Message):
    __slots__ = ('name',)
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('name', 'string', '0'),
    )

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name: str = name


class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    __slots__ = ('users',)
    FLEXIBLE_FROM = 0
    API_KEY = 50
    VERSIONS = (0, 0)
    FIELDS = (
        Field('users', UserName, '0', array=True, nullable='0'),
    )

    def __init__(
        self,
        *,
        users: list[UserName] | None = None,
    ) -> None:
        self.users: list[UserName] | None = users


class CredentialInfo(Message):
    __slots__ = ('mechanism', 'iterations')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('mechanism', 'int8', '0'),
        Field('iterations', 'int32', '0'),
    )

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism: int = mechanism
        self.iterations: int = iterations


class DescribeUserScramCredentialsResult(Message):
    __slots__ = ('user', 'error_code', 'error_message', 'credential_infos')
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field('user', 'string', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('credential_infos', CredentialInfo, '0', array=True),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = None,
        credential_infos: list[CredentialInfo] | None = None,
    ) -> None:
        self.user: str = user
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.credential_infos: list[CredentialInfo] = [] if credential_infos is None else credential_infos


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = ('throttle_time_ms', 'error_code', 'error_message', 'results')
    FLEXIBLE_FROM = 0
    API_KEY = 50
    VERSIONS = (0, 0)
    FIELDS = (
        Field('throttle_time_ms', 'int32', '0'),
        Field('error_code', 'int16', '0'),
        Field('error_message', 'string', '0', nullable='0'),
        Field('results', DescribeUserScramCredentialsResult, '0', array=True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        results: list[DescribeUserScramCredentialsResult] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.results: list[DescribeUserScramCredentialsResult] = [] if results is None else results
