"""Delegation tokens: created, renewed and expired by the controller, described by every broker.

A client that may not ask at all is refused where it is connected; the controller hears of the others in an envelope.
"""

import base64
from collections.abc import Callable
from typing import TypeVar

from ottla import errors
from ottla.broker.requests.context import Context
from ottla.config.listeners import listener_settings
from ottla.errors import ProtocolError
from ottla.metadata.decision import Decision
from ottla.metadata.records import TokenSet
from ottla.security import tokens
from ottla.security.operations import CREATE_TOKENS, DELEGATION_TOKEN, DESCRIBE, DESCRIBE_TOKENS, USER
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.wire.schema import Request

R = TypeVar("R")
Response = TypeVar("Response", RenewDelegationTokenResponse, ExpireDelegationTokenResponse)

ANONYMOUS = "User:ANONYMOUS"
NEVER = -1  # the time in an answer that has none
REFUSED_BY_BROKERS = (
    errors.DelegationTokenRequestNotAllowed,
    errors.DelegationTokenAuthorizationFailed,
    errors.InvalidPrincipalType,
)


async def create_delegation_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    requester = context.client.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    try:
        _check_client(context)
        if (
            owner != requester
            and not context.client.is_peer
            and not context.allows(CREATE_TOKENS, USER, owner)
        ):
            raise errors.DelegationTokenAuthorizationFailed
        renewers = tokens.checked_principals(
            [(renewer.principal_type, renewer.principal_name) for renewer in request.renewers]
        )
        if _is_elsewhere(context):
            return await _relayed(request, context)
        new = tokens.NewToken(_new_id(context), owner, requester, renewers, request.max_lifetime_ms)
        known, now_ms = _tokens(context), context.clock.now_ms()
        token = await context.metadata.change(
            lambda image, config: tokens.create(new, known.terms, image, now_ms)
        )
    except ProtocolError as error:
        return _created(owner, requester, error)
    response = _created(owner, requester)
    response.issue_timestamp_ms = token.issue_ms
    response.expiry_timestamp_ms, response.max_timestamp_ms = token.expiry_ms, token.max_ms
    response.token_id, response.hmac = token.token_id, known.secret(token.token_id)
    return response


async def renew_delegation_token(
    request: RenewDelegationTokenRequest, context: Context
) -> RenewDelegationTokenResponse:
    def renewed(known: tokens.Tokens, principal: str, now_ms: int) -> Decision[int]:
        token = known.token(request.hmac)
        return tokens.renew(token, principal, request.renew_period_ms, known.terms, now_ms)

    return await _with_new_expiry(request, RenewDelegationTokenResponse, renewed, context)


async def expire_delegation_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    def expired(known: tokens.Tokens, principal: str, now_ms: int) -> Decision[int]:
        return tokens.expire(known.token(request.hmac), principal, request.expiry_time_period_ms, now_ms)

    return await _with_new_expiry(request, ExpireDelegationTokenResponse, expired, context)


async def _with_new_expiry(
    request: Request[Response],
    response: type[Response],
    decide: Callable[[tokens.Tokens, str, int], Decision[int]],
    context: Context,
) -> Response:
    """The controller's decision about a token's end, from the tokens, the asking principal and the time."""
    try:
        _check_client(context)
        if _is_elsewhere(context):
            return await _relayed(request, context)
        known = _tokens(context)
        principal, now_ms = context.client.principal, context.clock.now_ms()
        expires_ms = await context.metadata.change(lambda image, config: decide(known, principal, now_ms))
    except ProtocolError as error:
        return response(error_code=error.code, expiry_timestamp_ms=_time_of(error))
    return response(expiry_timestamp_ms=expires_ms)


async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    try:
        _check_client(context)
        known = _tokens(context)
    except ProtocolError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    owners = (
        None
        if request.owners is None
        else {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    )
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, known.secret(token.token_id))
            for token in context.metadata.image.security.tokens.values()
            if (owners is None or not owners.isdisjoint(tokens.principals_of(token)))
            and _may_see(token, context)
        ]
    )


def _check_client(context: Context) -> None:
    """Refuses clients that logged in with a token or did not authenticate. A relaying broker has checked its client."""
    client = context.client
    if client.is_peer:
        return
    protocol = listener_settings(context.config, client.listener).protocol
    is_nobody = protocol == "PLAINTEXT" or (protocol == "SSL" and client.principal == ANONYMOUS)
    if is_nobody or client.token_id is not None:
        raise errors.DelegationTokenRequestNotAllowed


def _time_of(error: ProtocolError) -> int:
    """What Kafka's brokers refuse has no time, and they say so; what its controller refuses has the time 0."""
    return NEVER if isinstance(error, REFUSED_BY_BROKERS) else 0


def _is_elsewhere(context: Context) -> bool:
    return not context.metadata.is_controller_here


async def _relayed(request: Request[R], context: Context) -> R:
    return await context.metadata.relay(request, context.api_version, context.sender)


def _tokens(context: Context) -> tokens.Tokens:
    known = context.tokens
    if known is None:
        raise errors.DelegationTokenAuthDisabled
    return known


def _new_id(context: Context) -> str:
    """As Kafka writes ids."""
    return base64.urlsafe_b64encode(context.metadata.new_uuid()).decode().rstrip("=")


def _created(owner: str, requester: str, error: ProtocolError | None = None) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(error_code=errors.NONE if error is None else error.code)
    response.principal_type, _, response.principal_name = owner.partition(":")
    (
        response.token_requester_principal_type,
        _,
        response.token_requester_principal_name,
    ) = requester.partition(":")
    if error is not None:
        response.issue_timestamp_ms = response.expiry_timestamp_ms = _time_of(error)
        response.max_timestamp_ms = _time_of(error)
    return response


def _may_see(token: TokenSet, context: Context) -> bool:
    return (
        tokens.is_of(token, context.client.principal)
        or context.allows(DESCRIBE, DELEGATION_TOKEN, token.token_id)
        or context.allows(DESCRIBE_TOKENS, USER, token.owner)
    )


def _described(token: TokenSet, secret: bytes) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in renewers
        ],
    )
