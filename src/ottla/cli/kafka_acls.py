"""`ottla kafka-acls`: rules, with Apache Kafka's flags and output."""

import argparse
from collections.abc import Sequence

from ottla.cli.asking import acls as options
from ottla.cli.asking.acls import Resource
from ottla.cli.kafka_options import add_bootstrap, one_of, refuse, settings
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

PATTERNS = ("any", "match", "literal", "prefixed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    for action in ("add", "remove", "list"):
        parser.add_argument(f"--{action}", action="store_true")
    for name in ("topic", "group", "transactional-id", "delegation-token", "user-principal"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--resource-pattern-type", choices=PATTERNS, default="literal", type=str.lower)
    for name in ("allow-principal", "deny-principal", "allow-host", "deny-host", "principal", "operation"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--producer", action="store_true", help="Write, Describe and Create on the topics")
    parser.add_argument("--consumer", action="store_true", help="Read and Describe on topics, Read on groups")
    parser.add_argument("--idempotent", action="store_true", help="with --producer")
    parser.add_argument("--force", action="store_true", help="do not ask before removing")


def run(arguments: argparse.Namespace) -> int:
    action = one_of(arguments, ("add", "remove", "list"))
    _check(arguments, action)
    with Admin(settings(arguments, default_api_timeout_ms=15_000)) as admin:
        if action == "list":
            _list(admin, arguments)
        elif action == "add":
            _add(admin, arguments)
        else:
            _remove(admin, arguments)
    return 0


def _check(arguments: argparse.Namespace, action: str) -> None:
    """A rule that was not meant so lets somebody in, or shuts somebody out."""
    if action == "list":
        refuse(
            arguments,
            "list",
            *("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"),
        )
    for role in ("producer", "consumer"):
        if getattr(arguments, role):
            refuse(arguments, role, "operation", "deny-principal", "deny-host")
    if arguments.principal and action != "list":
        raise UsageError("The --principal option is only available if --list is set")
    if arguments.producer and not arguments.topic:
        raise UsageError("With --producer you must specify a --topic")
    if arguments.idempotent and not arguments.producer:
        raise UsageError("The --idempotent option is only available if --producer is set")
    other = not arguments.producer and (arguments.cluster or arguments.transactional_id)
    if arguments.consumer and (not arguments.topic or not arguments.group or other):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
            "option should be specified."
        )


def _add(admin: Admin, arguments: argparse.Namespace) -> None:
    acls = _rules(arguments)
    if not acls:
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    admin.create_acls(acls)
    for resource, rules in _by_resource(acls).items():
        lines = "\n".join(f"\t{_entry(acl)}" for acl in rules)
        print(f"Adding ACLs for resource `{resource}`: \n {lines}\n")


def _remove(admin: Admin, arguments: argparse.Namespace) -> None:
    acls = _rules(arguments)
    if acls:
        wanted = [options.exactly(acl) for acl in acls]
        question = f"Are you sure you want to remove {len(acls)} ACLs"
    else:
        wanted = _filters(arguments)
        question = "Are you sure you want to delete all ACLs for the resource filters"
    if arguments.force or _is_confirmed(f"{question}? (y/n)\n"):
        admin.delete_acls(wanted)


def _is_confirmed(question: str) -> bool:
    try:
        return input(question).strip().lower() == "y"
    except EOFError:
        raise UsageError("nobody answered, so nothing was removed; --force does not ask") from None


def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    acls = options.matching(admin, _filters(arguments))
    for principal in arguments.principal or [None]:
        if principal is not None:
            print(f"ACLs for principal `{principal}`")
        shown = [acl for acl in acls if principal in (None, acl.principal)]
        for resource, rules in _by_resource(shown).items():
            print(f"Current ACLs for resource `{resource}`:")
            print("\n".join(f"\t{_entry(acl)}" for acl in rules))
            print()


def _rules(arguments: argparse.Namespace) -> list[Acl]:
    pattern = PatternType[arguments.resource_pattern_type.upper()]
    roles: list[tuple[list[options.Resource], Sequence[Operation]]] = []
    topics = [(ResourceType.TOPIC, name) for name in arguments.topic]
    groups = [(ResourceType.GROUP, name) for name in arguments.group]
    ids = [(ResourceType.TRANSACTIONAL_ID, name) for name in arguments.transactional_id]
    cluster = options.resources_of((), (), (), True)
    if arguments.producer:
        roles.append((topics, (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)))
        roles.append((ids, (Operation.WRITE, Operation.DESCRIBE)))
        if arguments.idempotent:
            roles.append((cluster, (Operation.IDEMPOTENT_WRITE,)))
    if arguments.consumer:
        roles.append((topics, (Operation.READ, Operation.DESCRIBE)))
        roles.append((groups, (Operation.READ,)))
    if not roles:
        named = [options.operation_of(name) for name in arguments.operation]
        roles.append((_resources(arguments), named or [Operation.ALL]))
    acls: list[Acl] = []
    for whom, hosts, permission in (
        (arguments.allow_principal, arguments.allow_host, Permission.ALLOW),
        (arguments.deny_principal, arguments.deny_host, Permission.DENY),
    ):
        for principal in whom:
            if ":" not in principal:
                raise UsageError(
                    f"expected a string in format principalType:principalName but got {principal}"
                )
        for resources, operations in roles:
            acls += options.rules(resources, pattern, whom, hosts or ["*"], operations, permission)
    return acls


def _resources(arguments: argparse.Namespace) -> list[Resource]:
    resources = options.resources_of(
        arguments.topic, arguments.group, arguments.transactional_id, arguments.cluster
    )
    resources += [(ResourceType.DELEGATION_TOKEN, name) for name in arguments.delegation_token]
    resources += [(ResourceType.USER, name) for name in arguments.user_principal]
    if not resources and not arguments.list:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> "
            "or --transactional-id <id> or --delegation-token <token>"
        )
    return resources


def _filters(arguments: argparse.Namespace) -> list[AclFilter]:
    return options.filters(
        _resources(arguments),
        PatternType[arguments.resource_pattern_type.upper()],
    )


def _by_resource(acls: Sequence[Acl]) -> dict[str, list[Acl]]:
    by_resource: dict[str, list[Acl]] = {}
    for acl in acls:
        resource = (
            f"ResourcePattern(resourceType={acl.resource_type.name}, name={acl.name}, "
            f"patternType={acl.pattern.name})"
        )
        by_resource.setdefault(resource, []).append(acl)
    return by_resource


def _entry(acl: Acl) -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )
