"""Rules, SCRAM users, quotas and tokens: Apache Kafka's records of them and ours."""

import os
from collections.abc import Iterator

from ottla.metadata import records as ours
from ottla.metadata.security import Security
from ottla.migration import kraft_schema as kraft
from ottla.migration.kraft_schema import KraftRecord


def acl(record: kraft.AccessControlEntry) -> ours.AclAdded:
    return ours.AclAdded(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def scram(record: kraft.UserScramCredential) -> ours.ScramSet:
    return ours.ScramSet(
        record.name,
        record.mechanism,
        record.salt,
        record.stored_key,
        record.server_key,
        record.iterations,
    )


def quota(record: kraft.ClientQuota) -> ours.QuotaSet:
    parts = [ours.QuotaEntity(part.entity_type, part.entity_name) for part in record.entity]
    entity = tuple(sorted(parts, key=lambda part: part.kind))
    return ours.QuotaSet(entity, record.key, None if record.remove else repr(record.value))


def token(record: kraft.DelegationToken) -> ours.TokenSet:
    return ours.TokenSet(
        record.token_id,
        record.owner,
        record.requester,
        tuple(record.renewers),
        record.issue_timestamp,
        record.expiration_timestamp,
        record.max_timestamp,
    )


def exported(security: Security) -> Iterator[KraftRecord]:
    """Rules get new ids: ours have none."""
    for rule in sorted(security.acls, key=repr):
        yield kraft.AccessControlEntry(
            id=os.urandom(16),
            resource_type=rule.resource_type,
            resource_name=rule.name,
            pattern_type=rule.pattern,
            principal=rule.principal,
            host=rule.host,
            operation=rule.operation,
            permission_type=rule.permission,
        )
    for user in security.scram.values():
        yield kraft.UserScramCredential(
            name=user.name,
            mechanism=user.mechanism,
            salt=user.salt,
            stored_key=user.stored_key,
            server_key=user.server_key,
            iterations=user.iterations,
        )
    for entity, quotas in security.quotas.items():
        parts = [kraft.QuotaEntity(entity_type=part.kind, entity_name=part.name) for part in entity]
        for key, value in quotas.items():
            yield kraft.ClientQuota(entity=parts, key=key, value=float(value), remove=False)
    for token in security.tokens.values():
        yield kraft.DelegationToken(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_ms,
            max_timestamp=token.max_ms,
            expiration_timestamp=token.expiry_ms,
            token_id=token.token_id,
        )
