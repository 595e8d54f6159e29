"""What a client may do: handlers ask here, the authorizer decides, and every denial is noted for auditors."""

import logging
from collections.abc import Callable

from ottla import errors
from ottla.broker.context import Client
from ottla.errors import ProtocolError
from ottla.metadata.image import Image
from ottla.metadata.records import AclAdded, AclRemoved, Record
from ottla.security.acls import Operation, Question, ResourceType, Rules
from ottla.security.administration import acl_of
from ottla.security.authorizer import Authorizer, StandardAuthorizer

audit_logger = logging.getLogger("ottla.audit")

_REFUSALS: dict[ResourceType, type[ProtocolError]] = {
    ResourceType.TOPIC: errors.TopicAuthorizationFailed,
    ResourceType.GROUP: errors.GroupAuthorizationFailed,
    ResourceType.CLUSTER: errors.ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: errors.DelegationTokenAuthorizationFailed,
    ResourceType.USER: errors.DelegationTokenAuthorizationFailed,
}


class Access:
    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer

    def allows(self, client: Client, operation: int, resource_type: int, name: str) -> bool:
        question = Question(
            client.principal, client.host, Operation(operation), ResourceType(resource_type), name
        )
        allowed = self.authorizer.allows(question)
        _note(question, allowed)
        return allowed

    def allows_any(self, client: Client, operation: int, resource_type: int) -> bool:
        """Whether there may be a resource of the type on which the operation is allowed."""
        return self.authorizer.allows_any(
            client.principal, client.host, Operation(operation), ResourceType(resource_type)
        )


def refusal_of(resource_type: int) -> ProtocolError:
    return _REFUSALS[ResourceType(resource_type)]()


def standard_access(image: Image, super_users: list[str], allow_unruled: bool) -> Access:
    """Over the rules of the metadata log, those that are there and those that come."""
    rules = Rules(acl_of(record) for record in image.security.acls)
    authorizer = StandardAuthorizer(rules, super_users, allow_unruled)
    changes: dict[type, Callable[[AclAdded], None]] = {
        AclAdded: lambda record: rules.add(acl_of(record)),
        AclRemoved: lambda record: rules.remove(acl_of(record)),
    }

    def on_record(record: Record) -> None:
        change = changes.get(type(record))
        if change is not None:
            change(record)  # type: ignore[arg-type]  # both have the fields of a rule
            authorizer.on_rules_changed()

    image.watch(on_record)
    return Access(authorizer)


def _note(question: Question, allowed: bool) -> None:
    level = logging.DEBUG if allowed else logging.INFO
    if audit_logger.isEnabledFor(level):
        audit_logger.log(
            level,
            "principal=%s host=%s operation=%s resource=%s:%s decision=%s",
            question.principal,
            question.host,
            question.operation.name,
            question.resource_type.name,
            question.name,
            "allowed" if allowed else "denied",
        )
