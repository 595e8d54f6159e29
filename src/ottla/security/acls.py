"""Access control lists: a rule, the index of all rules, and which rule decides a question.

The answers are those of Apache Kafka's StandardAuthorizer: a deny that matches wins; a resource that no rule
names falls back to the default; a resource that some rule names is closed to everybody no rule lets in.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from ipaddress import ip_address, ip_network

from ottla.frozen import frozen

WILDCARD = "*"
EVERYBODY = "User:*"


class ResourceType(IntEnum):
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PatternType(IntEnum):
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


# An allowed operation on the right brings the one on the left with it; a denied one does not.
IMPLIED_BY = {
    Operation.DESCRIBE: frozenset(
        (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)),
}


@frozen
class Acl:
    """One rule: `principal` from `host` may, or may not, do `operation` to the resources that match."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"{self.principal} from {self.host} is {_WORDS[self.permission]} {self.operation.name} on "
            f"{self.resource_type.name.lower()} {self.name}{'...' if self.pattern is PatternType.PREFIXED else ''}"
        )


_WORDS = {Permission.ALLOW: "allowed", Permission.DENY: "denied"}


@frozen
class Question:
    """May `principal`, connected from `host`, do `operation` to this resource?"""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


@frozen
class Verdict:
    """`rule` is the one that decided; None where no rule did. `is_ruled`: some rule names the resource."""

    allowed: bool
    rule: Acl | None
    is_ruled: bool


class Rules:
    """Looked up by exact name, by the wildcard, and by each length of prefix that exists: the cost of a question
    grows with the rules of its resource, not with all of them."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._literal: dict[tuple[ResourceType, str], set[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], set[Acl]] = {}
        self._lengths: dict[ResourceType, dict[int, int]] = {}  # how many prefixes have a length
        self._all: set[Acl] = set()
        for acl in acls:
            self.add(acl)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._all)

    def __contains__(self, acl: Acl) -> bool:
        return acl in self._all

    def add(self, acl: Acl) -> None:
        if acl in self._all:
            return
        self._all.add(acl)
        key = acl.resource_type, acl.name
        if acl.pattern is PatternType.LITERAL:
            self._literal.setdefault(key, set()).add(acl)
            return
        if key not in self._prefixed:
            lengths = self._lengths.setdefault(acl.resource_type, {})
            lengths[len(acl.name)] = lengths.get(len(acl.name), 0) + 1
        self._prefixed.setdefault(key, set()).add(acl)

    def remove(self, acl: Acl) -> None:
        if acl not in self._all:
            return
        self._all.discard(acl)
        key = acl.resource_type, acl.name
        index = self._literal if acl.pattern is PatternType.LITERAL else self._prefixed
        index[key].discard(acl)
        if not index[key]:
            del index[key]
            if index is self._prefixed:
                self._forget_length(acl.resource_type, len(acl.name))

    def of(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """Every rule whose pattern matches the resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for length in self._lengths.get(resource_type, ()):
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), ())

    def decide(self, question: Question) -> Verdict:
        allowing: Acl | None = None
        is_ruled = False
        for acl in self.of(question.resource_type, question.name):
            is_ruled = True
            if not applies(acl, question):
                continue
            if acl.permission is Permission.DENY:
                return Verdict(False, acl, True)
            allowing = acl
        return Verdict(allowing is not None, allowing, is_ruled)

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether some resource of the type may exist on which the operation is allowed."""
        allowed: list[Acl] = []
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        for acl in self._all:
            if acl.resource_type is not resource_type or acl.operation not in (operation, Operation.ALL):
                continue
            if not _is_meant(acl, principal, host):
                continue
            if acl.permission is Permission.ALLOW:
                allowed.append(acl)
            elif acl.pattern is PatternType.PREFIXED:
                denied_prefixes.add(acl.name)
            elif acl.name == WILDCARD:
                return False
            else:
                denied_names.add(acl.name)
        return any(not _is_overruled(acl, denied_names, denied_prefixes) for acl in allowed)

    def _forget_length(self, resource_type: ResourceType, length: int) -> None:
        lengths = self._lengths[resource_type]
        lengths[length] -= 1
        if not lengths[length]:
            del lengths[length]


def applies(acl: Acl, question: Question) -> bool:
    """Whether the rule speaks of this principal, host and operation; its resource is known to match."""
    if not _is_meant(acl, question.principal, question.host):
        return False
    if acl.operation in (Operation.ALL, question.operation):
        return True
    implied_by = IMPLIED_BY.get(question.operation, frozenset())
    return acl.permission is Permission.ALLOW and acl.operation in implied_by


def _is_meant(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, EVERYBODY) and (
        acl.host in (WILDCARD, host) or (_has_spellings(acl.host) and _is_in(host, acl.host))
    )


def _has_spellings(host: str) -> bool:
    """A range, or an address of IPv6, which Java writes otherwise than Python: compared by value, not as text."""
    return "/" in host or ":" in host


def is_range(host: str) -> bool:
    try:
        ip_network(host, strict=False)
    except ValueError:
        return False
    return True


def _is_in(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _is_overruled(acl: Acl, denied_names: set[str], denied_prefixes: set[str]) -> bool:
    """By a deny of the same name, or of a prefix of it. An allowed wildcard is overruled by a denied one only."""
    if acl.pattern is PatternType.LITERAL:
        if acl.name == WILDCARD:
            return False
        if acl.name in denied_names:
            return True
    return any(acl.name[:length] in denied_prefixes for length in range(1, len(acl.name) + 1))


@frozen
class AclFilter:
    """Which rules are meant; None is any. `pattern` MATCH is every rule that matches the resource `name`."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)
