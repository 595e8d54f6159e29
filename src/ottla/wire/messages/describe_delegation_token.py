"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class DescribeDelegationTokenOwner(Message):
    __slots__ = ('principal_type', 'principal_name')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('principal_type', 'string', '1-3'),
        Field('principal_name', 'string', '1-3'),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name


class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    __slots__ = ('owners',)
    FLEXIBLE_FROM = 2
    API_KEY = 41
    VERSIONS = (1, 3)
    FIELDS = (
        Field('owners', DescribeDelegationTokenOwner, '1-3', array=True, nullable='1-3'),
    )

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | None = None,
    ) -> None:
        self.owners: list[DescribeDelegationTokenOwner] | None = owners


class DescribedDelegationTokenRenewer(Message):
    __slots__ = ('principal_type', 'principal_name')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('principal_type', 'string', '1-3'),
        Field('principal_name', 'string', '1-3'),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name


class DescribedDelegationToken(Message):
    __slots__ = ('principal_type', 'principal_name', 'token_requester_principal_type', 'token_requester_principal_name', 'issue_timestamp', 'expiry_timestamp', 'max_timestamp', 'token_id', 'hmac', 'renewers')
    FLEXIBLE_FROM = 2
    FIELDS = (
        Field('principal_type', 'string', '1-3'),
        Field('principal_name', 'string', '1-3'),
        Field('token_requester_principal_type', 'string', '3'),
        Field('token_requester_principal_name', 'string', '3'),
        Field('issue_timestamp', 'int64', '1-3'),
        Field('expiry_timestamp', 'int64', '1-3'),
        Field('max_timestamp', 'int64', '1-3'),
        Field('token_id', 'string', '1-3'),
        Field('hmac', 'bytes', '1-3'),
        Field('renewers', DescribedDelegationTokenRenewer, '1-3', array=True),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] | None = None,
    ) -> None:
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name
        self.token_requester_principal_type: str = token_requester_principal_type
        self.token_requester_principal_name: str = token_requester_principal_name
        self.issue_timestamp: int = issue_timestamp
        self.expiry_timestamp: int = expiry_timestamp
        self.max_timestamp: int = max_timestamp
        self.token_id: str = token_id
        self.hmac: bytes = hmac
        self.renewers: list[DescribedDelegationTokenRenewer] = [] if renewers is None else renewers


class DescribeDelegationTokenResponse(Message):
    __slots__ = ('error_code', 'tokens', 'throttle_time_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 41
    VERSIONS = (1, 3)
    FIELDS = (
        Field('error_code', 'int16', '1-3'),
        Field('tokens', DescribedDelegationToken, '1-3', array=True),
        Field('throttle_time_ms', 'int32', '1-3'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] | None = None,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.tokens: list[DescribedDelegationToken] = [] if tokens is None else tokens
        self.throttle_time_ms: int = throttle_time_ms
