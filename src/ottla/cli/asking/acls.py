"""Rules: named by flags, looked up, and told apart from all others."""

from collections.abc import Iterable, Sequence

from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.security.operations import CLUSTER_NAME

Resource = tuple[ResourceType, str]


def operation_of(text: str) -> Operation:
    """`Read`, `READ`, `describe-configs` and `DescribeConfigs` are the same to us."""
    plain = text.replace("-", "").replace("_", "").upper()
    for operation in Operation:
        if operation.name.replace("_", "") == plain:
            return operation
    names = ", ".join(operation.name.replace("_", "-").lower() for operation in Operation)
    raise UsageError(f"there is no operation {text!r}; there are {names}")


def principal_of(text: str) -> str:
    """`alice` is `User:alice`."""
    return text if ":" in text else f"User:{text}"


def resources_of(
    topics: Iterable[str], groups: Iterable[str], transactional_ids: Iterable[str], cluster: bool
) -> list[Resource]:
    return [
        *((ResourceType.TOPIC, name) for name in topics),
        *((ResourceType.GROUP, name) for name in groups),
        *((ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids),
        *([(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else []),
    ]


def rules(
    resources: Sequence[Resource],
    pattern: PatternType,
    principals: Iterable[str],
    hosts: Iterable[str],
    operations: Iterable[Operation],
    permission: Permission,
) -> list[Acl]:
    return [
        Acl(kind, name, _pattern_of(kind, pattern), principal, host, operation, permission)
        for kind, name in resources
        for principal in principals
        for host in hosts
        for operation in operations
    ]


def filters(resources: Sequence[Resource], pattern: PatternType) -> list[AclFilter]:
    """One for each resource; one for all if none is named."""
    if not resources:
        return [AclFilter(pattern=pattern if pattern is PatternType.MATCH else PatternType.ANY)]
    return [AclFilter(kind, name, _pattern_of(kind, pattern)) for kind, name in resources]


def _pattern_of(kind: ResourceType, pattern: PatternType) -> PatternType:
    """There is one cluster, with one name, whatever the names beside it are the beginnings of."""
    return PatternType.LITERAL if kind is ResourceType.CLUSTER else pattern


def exactly(acl: Acl) -> AclFilter:
    """The filter that this rule alone passes."""
    return AclFilter(
        acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission
    )


def matching(admin: Admin, wanted: Iterable[AclFilter], principal: str | None = None) -> list[Acl]:
    """The rules that pass one of the filters; of one principal if it is named."""
    matching = {acl for acl_filter in wanted for acl in admin.describe_acls(acl_filter)}
    return [acl for acl in matching if principal in (None, acl.principal)]
