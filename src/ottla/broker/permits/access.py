"""What a client may do: handlers ask here, the authorizer decides, and every denial is noted for auditors."""

import json
import logging
from collections.abc import Callable

from ottla import errors
from ottla.broker.requests.client import Client
from ottla.errors import ProtocolError
from ottla.metadata.image import Image
from ottla.metadata.records import AclAdded, AclRemoved, Record
from ottla.security.acls import Operation, Question, ResourceType, Rules
from ottla.security.administration import acl_of
from ottla.security.authorizer import NAME_KEPT_MAX, Authorizer, StandardAuthorizer
from ottla.security.operations import TOPIC, WRITE

audit_logger = logging.getLogger("ottla.audit")

_REFUSALS: dict[ResourceType, type[ProtocolError]] = {
    ResourceType.TOPIC: errors.TopicAuthorizationFailed,
    ResourceType.GROUP: errors.GroupAuthorizationFailed,
    ResourceType.CLUSTER: errors.ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: errors.TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: errors.DelegationTokenAuthorizationFailed,
    ResourceType.USER: errors.DelegationTokenAuthorizationFailed,
}


RIGHTS_MAX = 256  # that are remembered for a connection


class Access:
    """What a connection was allowed is remembered with it until a rule changes: most ask the same for every request.
    Denials are not: each is noted. Nor is what a class of one's own says, which may change its mind."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self._remembers = isinstance(authorizer, StandardAuthorizer)
        self.rules = object()  # stands for the rules as they are now
        self.denied = 0  # questions, for metrics

    def on_rules_changed(self) -> None:
        self.rules = object()

    def remembers(self, client: Client) -> bool:
        """Whether the rights that are remembered with the connection hold, and nobody wants each of them noted."""
        return client.rights_under is self.rules and not audit_logger.isEnabledFor(logging.DEBUG)

    def allows(self, client: Client, operation: int, resource_type: int, name: str) -> bool:
        right = operation, resource_type, name
        if right in client.rights and self.remembers(client):
            return True
        allowed = self._ask(client, operation, resource_type, name)
        if allowed and self._remembers and len(name) <= NAME_KEPT_MAX:
            self._remember(client, right)
        return allowed

    def _remember(self, client: Client, right: tuple[int, int, str]) -> None:
        if client.rights_under is not self.rules or len(client.rights) >= RIGHTS_MAX:
            client.rights_under, client.rights, client.writable = self.rules, set(), set()
        client.rights.add(right)
        operation, resource_type, name = right
        if operation == WRITE and resource_type == TOPIC and name:
            client.writable.add(name)

    def _ask(self, client: Client, operation: int, resource_type: int, name: str) -> bool:
        question = Question(
            client.principal, client.host, Operation(operation), ResourceType(resource_type), name
        )
        allowed = self.authorizer.allows(question)
        _note(question, allowed)
        self.denied += not allowed
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
    access = Access(authorizer)
    changes: dict[type, Callable[[AclAdded], None]] = {
        AclAdded: lambda record: rules.add(acl_of(record)),
        AclRemoved: lambda record: rules.remove(acl_of(record)),
    }

    def on_record(record: Record) -> None:
        change = changes.get(type(record))
        if change is not None:
            change(record)  # type: ignore[arg-type]  # both have the fields of a rule
            authorizer.on_rules_changed()
            access.on_rules_changed()

    image.watch(on_record)
    return access


def _note(question: Question, allowed: bool) -> None:
    """As JSON: a name that a client has made up cannot look like another line."""
    level = logging.DEBUG if allowed else logging.INFO
    if audit_logger.isEnabledFor(level):
        line = {
            "principal": question.principal,
            "host": question.host,
            "operation": question.operation.name,
            "resource_type": question.resource_type.name,
            "resource": question.name,
            "decision": "allowed" if allowed else "denied",
        }
        audit_logger.log(level, "%s", json.dumps(line), extra={"fields": line})
