"""Rules, users, quotas and tokens: the part of the image that decides who may do what."""

from collections.abc import Iterator

from ottla.metadata.records import (
    AclAdded,
    AclRemoved,
    QuotaEntity,
    QuotaSet,
    Record,
    ScramRemoved,
    ScramSet,
    TokenRemoved,
    TokenSet,
)

Entity = tuple[QuotaEntity, ...]


class Security:
    def __init__(self) -> None:
        self.acls: set[AclAdded] = set()
        self.scram: dict[tuple[str, int], ScramSet] = {}  # by name and mechanism
        self.quotas: dict[Entity, dict[str, str]] = {}
        self.tokens: dict[str, TokenSet] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Security) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def apply(self, record: Record) -> bool:
        """Whether it is a record of this part."""
        match record:
            case AclAdded():
                self.acls.add(record)
            case AclRemoved():
                self.acls.discard(_added(record))
            case ScramSet():
                self.scram[record.name, record.mechanism] = record
            case ScramRemoved():
                self.scram.pop((record.name, record.mechanism), None)
            case QuotaSet():
                self._set_quota(record)
            case TokenSet():
                self.tokens[record.token_id] = record
            case TokenRemoved():
                self.tokens.pop(record.token_id, None)
            case _:
                return False
        return True

    def records(self) -> Iterator[Record]:
        """What rebuilds this state."""
        yield from differences(Security(), self)

    def _set_quota(self, record: QuotaSet) -> None:
        quotas = self.quotas.setdefault(record.entity, {})
        if record.value is None:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.quotas[record.entity]


def differences(before: Security, after: Security) -> Iterator[Record]:
    """Records that make `before` equal to `after`."""
    yield from map(removed, before.acls - after.acls)
    yield from after.acls - before.acls
    yield from (ScramRemoved(*key) for key in before.scram.keys() - after.scram.keys())
    yield from (credential for key, credential in after.scram.items() if before.scram.get(key) != credential)
    for entity in before.quotas.keys() | after.quotas.keys():
        old, new = before.quotas.get(entity, {}), after.quotas.get(entity, {})
        yield from (QuotaSet(entity, key, None) for key in old.keys() - new.keys())
        yield from (QuotaSet(entity, key, value) for key, value in new.items() if old.get(key) != value)
    yield from (TokenRemoved(token_id) for token_id in before.tokens.keys() - after.tokens.keys())
    yield from (token for token_id, token in after.tokens.items() if before.tokens.get(token_id) != token)


def removed(acl: AclAdded) -> AclRemoved:
    return AclRemoved(
        acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission
    )


def _added(acl: AclRemoved) -> AclAdded:
    return AclAdded(
        acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission
    )
