"""What handlers ask: may this client do that? The standard answer comes from ACLs, super users and a default."""

from collections.abc import Iterable
from typing import Protocol

from ottla.frozen import frozen
from ottla.security.acls import Acl, Operation, Question, ResourceType, Rules

MEMO_MAX = 10_000  # questions whose answers are remembered,
NAME_KEPT_MAX = 256  # about resources with names of so many characters: a client may ask about longer ones
CLUSTER_NAME = "kafka-cluster"


class Authorizer(Protocol):
    def allows(self, question: Question) -> bool: ...

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be a resource of the type on which the operation is allowed."""
        ...


@frozen
class Explanation:
    """An answer and its reason, for people."""

    allowed: bool
    reason: str
    rule: Acl | None = None


class StandardAuthorizer:
    """Kafka's StandardAuthorizer. Answers are remembered until a rule changes."""

    def __init__(self, rules: Rules, super_users: Iterable[str] = (), allow_unruled: bool = False) -> None:
        self._rules = rules
        self._super_users = frozenset(super_users)
        self._allow_unruled = allow_unruled  # allow.everyone.if.no.acl.found
        self._memo: dict[Question, bool] = {}
        self._memo_of_any: dict[tuple[str, str, Operation, ResourceType], bool] = {}

    def on_rules_changed(self) -> None:
        self._memo.clear()
        self._memo_of_any.clear()

    def allows(self, question: Question) -> bool:
        if len(question.name) > NAME_KEPT_MAX:
            return self._decide(question)
        answer = self._memo.get(question)
        if answer is None:
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            answer = self._memo[question] = self._decide(question)
        return answer

    def allows_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        # A resource that no rule names: answers for super users, for wildcards, and for the default.
        unruled = Question(principal, host, operation, resource_type, "hardcode")
        return self.allows(unruled) or self._allows_some(principal, host, operation, resource_type)

    def _allows_some(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Looks at all rules, which takes 10 ms for 10,000 of them: once for each client."""
        asked = principal, host, operation, resource_type
        answer = self._memo_of_any.get(asked)
        if answer is None:
            if len(self._memo_of_any) >= MEMO_MAX:
                self._memo_of_any.clear()
            answer = self._memo_of_any[asked] = self._rules.allows_any(*asked)
        return answer

    def explain(self, question: Question) -> Explanation:
        if question.principal in self._super_users:
            return Explanation(True, f"{question.principal} is a super user")
        verdict = self._rules.decide(question)
        if verdict.rule is not None:
            return Explanation(verdict.allowed, str(verdict.rule), verdict.rule)
        if verdict.is_ruled:
            return Explanation(False, "other rules name this resource, and none of them lets the client in")
        setting = f"allow.everyone.if.no.acl.found={str(self._allow_unruled).lower()}"
        return Explanation(self._allow_unruled, f"no rule names this resource, and {setting}")

    def _decide(self, question: Question) -> bool:
        if question.principal in self._super_users:
            return True
        verdict = self._rules.decide(question)
        return verdict.allowed or (self._allow_unruled and not verdict.is_ruled)
