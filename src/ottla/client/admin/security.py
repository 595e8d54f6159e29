"""Rules and users: what kafka-acls and kafka-configs do to them."""

import hashlib
import os
from collections.abc import Iterable, Sequence

from ottla import errors
from ottla.client.core.cluster import Cluster
from ottla.errors import error_for
from ottla.frozen import frozen
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
ITERATIONS = 4096


@frozen
class ScramUser:
    """Iterations by mechanism."""

    name: str
    mechanisms: dict[str, int]


async def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.name,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )

    async def attempt() -> None:
        answer = await cluster.ask_controller(request)
        for acl, result in zip(acls, answer.results, strict=True):
            _check(result.error_code, result.error_message, str(acl))

    await cluster.retrying(attempt, "rules could not be added")


async def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    request = DescribeAclsRequest()
    _fill(request, wanted)

    async def attempt() -> list[Acl]:
        answer = await cluster.ask(request)
        _check(answer.error_code, answer.error_message, "rules")
        return [
            Acl(
                ResourceType(resource.resource_type),
                resource.resource_name,
                PatternType(resource.pattern_type),
                acl.principal,
                acl.host,
                Operation(acl.operation),
                Permission(acl.permission_type),
            )
            for resource in answer.resources
            for acl in resource.acls
        ]

    return await cluster.retrying(attempt, "rules could not be read")


async def delete_acls(cluster: Cluster, filters: Sequence[AclFilter]) -> list[Acl]:
    """The rules that are gone."""
    asked = []
    for wanted in filters:
        filter_ = DeleteAclsFilter()
        _fill(filter_, wanted)
        asked.append(filter_)

    async def attempt() -> list[Acl]:
        answer = await cluster.ask_controller(DeleteAclsRequest(filters=asked))
        gone: list[Acl] = []
        for result in answer.filter_results:
            _check(result.error_code, result.error_message, "rules")
            gone += [
                Acl(
                    ResourceType(acl.resource_type),
                    acl.resource_name,
                    PatternType(acl.pattern_type),
                    acl.principal,
                    acl.host,
                    Operation(acl.operation),
                    Permission(acl.permission_type),
                )
                for acl in result.matching_acls
            ]
        return gone

    return await cluster.retrying(attempt, "rules could not be removed")


async def describe_users(cluster: Cluster, names: Iterable[str] = ()) -> list[ScramUser]:
    """All, if none is named; ResourceNotFound for a user without a credential."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])

    async def attempt() -> list[ScramUser]:
        answer = await cluster.ask(request)
        _check(answer.error_code, answer.error_message, "users")
        users = []
        for result in answer.results:
            _check(result.error_code, result.error_message, f"user {result.user}")
            known = {number: name for name, (number, _) in MECHANISMS.items()}
            users.append(
                ScramUser(
                    result.user,
                    {
                        known[credential.mechanism]: credential.iterations
                        for credential in result.credential_infos
                        if credential.mechanism in known
                    },
                )
            )
        return users

    return await cluster.retrying(attempt, "users could not be read")


async def set_user(
    cluster: Cluster, name: str, password: str, mechanisms: Iterable[str], iterations: int = ITERATIONS
) -> None:
    """The password itself is not sent: only what is derived from it."""
    upsertions = []
    for mechanism in mechanisms:
        number, digest = _mechanism(mechanism)
        salt = os.urandom(16)
        upsertions.append(
            ScramCredentialUpsertion(
                name=name,
                mechanism=number,
                iterations=iterations,
                salt=salt,
                salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations),
            )
        )
    await _alter(cluster, AlterUserScramCredentialsRequest(upsertions=upsertions))


async def remove_user(cluster: Cluster, name: str, mechanisms: Iterable[str]) -> None:
    deletions = [
        ScramCredentialDeletion(name=name, mechanism=_mechanism(mechanism)[0]) for mechanism in mechanisms
    ]
    await _alter(cluster, AlterUserScramCredentialsRequest(deletions=deletions))


async def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    async def attempt() -> None:
        answer = await cluster.ask_controller(request)
        for result in answer.results:
            _check(result.error_code, result.error_message, f"user {result.user}")

    await cluster.retrying(attempt, "users could not be changed")


def _mechanism(name: str) -> tuple[int, str]:
    if name.upper() not in MECHANISMS:
        raise errors.UnsupportedSaslMechanism(f"{name} is not one of {', '.join(MECHANISMS)}")
    return MECHANISMS[name.upper()]


def _fill(request: DescribeAclsRequest | DeleteAclsFilter, wanted: AclFilter) -> None:
    request.resource_type_filter = wanted.resource_type
    request.resource_name_filter = wanted.name
    request.pattern_type_filter = wanted.pattern
    request.principal_filter = wanted.principal
    request.host_filter = wanted.host
    request.operation = wanted.operation
    request.permission_type = wanted.permission


def _check(code: int, message: str | None, subject: str) -> None:
    if code:
        raise error_for(code, f"{subject}: {message or errors.NAMES.get(code)}")
