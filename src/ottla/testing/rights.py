"""Users and rights given from inside: what an administrator does with kafka-configs and kafka-acls."""

import os
from collections.abc import Mapping

from ottla.broker.broker import Broker
from ottla.security import administration
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.security.administration import SCRAM_DIGESTS, Deletion, Upsertion, UserChange
from ottla.security.operations import CLUSTER_NAME
from ottla.security.scram import ITERATIONS_MIN


async def set_users(broker: Broker, users: Mapping[str, str]) -> None:
    """Their SCRAM credentials."""
    changes: list[UserChange] = [
        Upsertion(name, mechanism, ITERATIONS_MIN, salt := os.urandom(16), _salted(digest, password, salt))
        for name, password in users.items()
        for mechanism, digest in SCRAM_DIGESTS.items()
    ]
    await _change(broker, changes)


async def remove_user(broker: Broker, name: str) -> None:
    await _change(broker, [Deletion(name, mechanism) for mechanism in SCRAM_DIGESTS])


async def change_rules(broker: Broker, acls: list[Acl], *, remove: bool) -> None:
    if remove:
        filters = [
            AclFilter(
                acl.resource_type,
                acl.name,
                acl.pattern,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission,
            )
            for acl in acls
        ]
        await broker.metadata.change(lambda image, config: administration.delete_acls(filters, image))
        return
    for error in await broker.metadata.change(lambda image, config: administration.create_acls(acls, image)):
        if error is not None:
            raise error


def rules_of(
    principal: str,
    operations: tuple[str, ...],
    permission: Permission,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    prefix: bool,
    host: str,
) -> list[Acl]:
    """Without a resource the cluster is meant."""
    resources = [
        (ResourceType.TOPIC, topic),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
    ]
    named = [(kind, name) for kind, name in resources if name is not None] or [
        (ResourceType.CLUSTER, CLUSTER_NAME)
    ]
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    whom = principal if ":" in principal else f"User:{principal}"
    return [
        Acl(kind, name, pattern, whom, host, Operation[operation.upper()], permission)
        for kind, name in named
        for operation in operations
    ]


async def _change(broker: Broker, changes: list[UserChange]) -> None:
    results = await broker.metadata.change(lambda image, config: administration.alter_users(changes, image))
    for error in results.values():
        if error is not None:
            raise error


def _salted(digest: str, password: str, salt: bytes) -> bytes:
    import hashlib

    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS_MIN)
