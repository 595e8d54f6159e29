"""Generated from kio by tools/messages.py. Do not edit."""

from ottla.wire.schema import Field, Message, Request


class CreatableRenewers(Message):
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


class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    __slots__ = ('owner_principal_type', 'owner_principal_name', 'renewers', 'max_lifetime_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 38
    VERSIONS = (1, 3)
    FIELDS = (
        Field('owner_principal_type', 'string', '3', nullable='3'),
        Field('owner_principal_name', 'string', '3', nullable='3'),
        Field('renewers', CreatableRenewers, '1-3', array=True),
        Field('max_lifetime_ms', 'int64', '1-3'),
    )

    def __init__(
        self,
        *,
        owner_principal_type: str | None = None,
        owner_principal_name: str | None = None,
        renewers: list[CreatableRenewers] | None = None,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type: str | None = owner_principal_type
        self.owner_principal_name: str | None = owner_principal_name
        self.renewers: list[CreatableRenewers] = [] if renewers is None else renewers
        self.max_lifetime_ms: int = max_lifetime_ms


class CreateDelegationTokenResponse(Message):
    __slots__ = ('error_code', 'principal_type', 'principal_name', 'token_requester_principal_type', 'token_requester_principal_name', 'issue_timestamp_ms', 'expiry_timestamp_ms', 'max_timestamp_ms', 'token_id', 'hmac', 'throttle_time_ms')
    FLEXIBLE_FROM = 2
    API_KEY = 38
    VERSIONS = (1, 3)
    FIELDS = (
        Field('error_code', 'int16', '1-3'),
        Field('principal_type', 'string', '1-3'),
        Field('principal_name', 'string', '1-3'),
        Field('token_requester_principal_type', 'string', '3'),
        Field('token_requester_principal_name', 'string', '3'),
        Field('issue_timestamp_ms', 'int64', '1-3'),
        Field('expiry_timestamp_ms', 'int64', '1-3'),
        Field('max_timestamp_ms', 'int64', '1-3'),
        Field('token_id', 'string', '1-3'),
        Field('hmac', 'bytes', '1-3'),
        Field('throttle_time_ms', 'int32', '1-3'),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name
        self.token_requester_principal_type: str = token_requester_principal_type
        self.token_requester_principal_name: str = token_requester_principal_name
        self.issue_timestamp_ms: int = issue_timestamp_ms
        self.expiry_timestamp_ms: int = expiry_timestamp_ms
        self.max_timestamp_ms: int = max_timestamp_ms
        self.token_id: str = token_id
        self.hmac: bytes = hmac
        self.throttle_time_ms: int = throttle_time_ms
