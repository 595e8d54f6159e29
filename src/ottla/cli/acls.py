"""`ottla acls`: who may do what, and which rule decides."""

import argparse

from ottla.cli.asking import acls as options
from ottla.cli.asking.acls import Resource
from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.config.security import principals_of
from ottla.security.acls import Acl, AclFilter, PatternType, Permission, Question, Rules
from ottla.security.authorizer import StandardAuthorizer

COLUMNS = ("PERMISSION", "PRINCIPAL", "HOST", "OPERATION", "RESOURCE", "NAME", "PATTERN")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = add_command(commands, "list", "show rules")
    _add_resources(listing)
    listing.add_argument("--principal", help="only of this one")
    for name, text in (("allow", "let a principal do something"), ("deny", "forbid it; wins over allow")):
        command = add_command(commands, name, text)
        _add_rule(command)
    remove = add_command(commands, "remove", "take a rule away")
    _add_rule(remove)
    remove.add_argument("--deny", action="store_true", help="a rule that denies")
    explain = add_command(commands, "explain", "may a principal do something, and which rule decides?")
    explain.add_argument("principal", help="alice or User:alice")
    explain.add_argument("operation", help="read, write, describe, ...")
    _add_resources(explain)
    explain.add_argument("--host", default="127.0.0.1", help="where it connects from (default: 127.0.0.1)")
    explain.add_argument("--super-users", default="", help="as in the brokers' super.users")
    explain.add_argument("--allow-everyone", action="store_true", help="allow.everyone.if.no.acl.found=true")


def _add_rule(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("principal", help="alice, User:alice, or User:* for everybody")
    parser.add_argument("operation", nargs="+", help="read, write, create, delete, alter, describe, all, ...")
    _add_resources(parser)
    parser.add_argument(
        "--host", action="append", help="an address or a range such as 10.0.0.0/8 (default: *)"
    )


def _add_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", action="append", default=[], help="* is every topic")
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--transactional-id", action="append", default=[])
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--prefix", action="store_true", help="names are beginnings of names")


def run(arguments: argparse.Namespace) -> int:
    resources = options.resources_of(
        arguments.topic, arguments.group, arguments.transactional_id, arguments.cluster
    )
    pattern = PatternType.PREFIXED if arguments.prefix else PatternType.LITERAL
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "list":
            wanted = [AclFilter(kind, name, PatternType.MATCH) for kind, name in resources] or [AclFilter()]
            whom = arguments.principal and options.principal_of(arguments.principal)
            _show(arguments, options.matching(admin, wanted, whom))
            return 0
        if not resources:
            raise UsageError("name a resource: --topic, --group, --transactional-id or --cluster")
        if arguments.command == "explain":
            return _explain(arguments, resources, list(admin.describe_acls(AclFilter())))
        denies = arguments.command == "deny" or getattr(arguments, "deny", False)
        acls = options.rules(
            resources,
            pattern,
            [options.principal_of(arguments.principal)],
            arguments.host or ["*"],
            [options.operation_of(name) for name in arguments.operation],
            Permission.DENY if denies else Permission.ALLOW,
        )
        if arguments.command == "remove":
            gone = admin.delete_acls([options.exactly(acl) for acl in acls])
            if not gone:
                raise UsageError("there is no such rule")
            acls = gone
        else:
            admin.create_acls(acls)
        _show(arguments, acls)
    return 0


def _explain(arguments: argparse.Namespace, resources: list[Resource], acls: list[Acl]) -> int:
    """0 if everything is allowed, else 1."""
    supers = principals_of(arguments.super_users)
    authorizer = StandardAuthorizer(Rules(acls), supers, arguments.allow_everyone)
    rows = []
    for kind, name in resources:
        question = Question(
            options.principal_of(arguments.principal),
            arguments.host,
            options.operation_of(arguments.operation),
            kind,
            name,
        )
        answer = authorizer.explain(question)
        rows.append((kind.name.lower(), name, "yes" if answer.allowed else "no", answer.reason))
    show(arguments, ("RESOURCE", "NAME", "ALLOWED", "BECAUSE"), rows)
    return 0 if all(row[2] == "yes" for row in rows) else 1


def _show(arguments: argparse.Namespace, acls: list[Acl]) -> None:
    rows = sorted(
        (
            acl.permission.name,
            acl.principal,
            acl.host,
            acl.operation.name,
            acl.resource_type.name,
            acl.name,
            acl.pattern.name,
        )
        for acl in acls
    )
    show(arguments, COLUMNS, rows)
