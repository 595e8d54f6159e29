"""Delegation tokens: what kafka-delegation-tokens does to them."""

from collections.abc import Iterable
from typing import Any

from ottla.client.core.cluster import Cluster
from ottla.errors import error_for
from ottla.frozen import frozen
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest


@frozen
class Token:
    """`id` and `secret` (in base64) are user and password for SCRAM with tokenauth. Times are milliseconds."""

    id: str
    secret: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int  # it cannot be renewed beyond


async def create(
    cluster: Cluster, renewers: Iterable[str], lifetime_ms: int | None, owner: str | None
) -> Token:
    principals = tuple(map(principal, renewers))
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in principals],
        max_lifetime_ms=-1 if lifetime_ms is None else lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = principal(owner)

    async def attempt() -> Token:
        answer = await cluster.ask_controller(request)
        _check(answer, "the token could not be created")
        return Token(
            answer.token_id,
            answer.hmac,
            f"{answer.principal_type}:{answer.principal_name}",
            f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            tuple(f"{kind}:{name}" for kind, name in principals),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    return await cluster.retrying(attempt, "the token could not be created")


async def describe(cluster: Cluster, owners: Iterable[str] | None) -> list[Token]:
    """Those that the client may see; `owners` None is of everybody."""
    request = DescribeDelegationTokenRequest()
    if owners is not None:
        request.owners = [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(principal, owners)
        ]

    async def attempt() -> list[Token]:
        answer = await cluster.ask(request)
        _check(answer, "tokens could not be read")
        return [
            Token(
                token.token_id,
                token.hmac,
                f"{token.principal_type}:{token.principal_name}",
                f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
                tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
                token.issue_timestamp,
                token.expiry_timestamp,
                token.max_timestamp,
            )
            for token in answer.tokens
        ]

    return await cluster.retrying(attempt, "tokens could not be read")


async def renew(cluster: Cluster, secret: bytes, period_ms: int | None) -> int:
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1 if period_ms is None else period_ms)
    return await _until(cluster, request, "the token could not be renewed")


async def expire(cluster: Cluster, secret: bytes, period_ms: int | None) -> int:
    request = ExpireDelegationTokenRequest(
        hmac=secret, expiry_time_period_ms=-1 if period_ms is None else period_ms
    )
    return await _until(cluster, request, "the token could not be expired")


async def _until(cluster: Cluster, request: Any, failure: str) -> int:
    async def attempt() -> int:
        answer = await cluster.ask_controller(request)
        _check(answer, failure)
        return int(answer.expiry_timestamp_ms)

    return await cluster.retrying(attempt, failure)


def principal(text: str) -> tuple[str, str]:
    """`User:alice`, or `alice` alone."""
    kind, colon, name = text.partition(":")
    return (kind, name) if colon else ("User", text)


def _check(answer: Any, failure: str) -> None:
    if answer.error_code:
        error = error_for(answer.error_code)
        raise error_for(answer.error_code, f"{failure}: {error.name()}: {error.message}")
