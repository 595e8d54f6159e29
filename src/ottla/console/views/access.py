"""Who may do what: rules, users, quotas."""

from ottla.console import words
from ottla.console.context import Context
from ottla.console.model import (
    Block,
    Cell,
    Column,
    Filter,
    Form,
    Input,
    Notice,
    Notices,
    Page,
    Pager,
    Row,
    Table,
)
from ottla.console.views.tables import matcher, paged
from ottla.errors import OttlaError, SecurityDisabled
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType

_PARTS = (("Rules", ""), ("Users", "users"), ("Quotas", "quotas"))
_QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)


async def access(context: Context) -> Page:
    part = context.query.get("part", "")
    text = context.query.get("filter", "")
    pager: Pager | None = None
    blocks: list[Block]
    try:
        match part:
            case "users":
                blocks = await _users(context)
            case "quotas":
                blocks = await _quotas(context)
            case _:
                blocks, pager = await _rules(context, text)
    except SecurityDisabled:
        said = "This cluster has no authorizer: everybody who can connect may do everything."
        blocks = [Notices("trouble", [Notice("warn", said)])]
    except OttlaError as error:
        blocks = [Notices("trouble", [Notice("bad", str(error))])]
    return Page(
        "Access",
        "access",
        subtitle="rules, users and quotas of the cluster",
        blocks=blocks,
        tabs=[(label, words.address("/access", part=key), key == part) for label, key in _PARTS],
        filter=Filter(text, "Filter by user or resource", {"part": part}) if not part else None,
        pager=pager,
        live=False,
    )


async def _rules(context: Context, text: str) -> tuple[list[Block], Pager | None]:
    matches = matcher(text)
    rules: list[Acl] = await context.workspace.admin.describe_acls(AclFilter())
    acls = sorted(
        (acl for acl in rules if matches(acl.principal) or matches(acl.name)),
        key=lambda a: (a.principal, a.resource_type, a.name, a.operation),
    )
    shown, pager = paged(context, "/access", acls)
    columns = [
        Column("principal", "Who"),
        Column("permission", "May", "state"),
        Column("operation", "Do what"),
        Column("resource", "To", priority=2),
        Column("name", "Name", "code"),
        Column("host", "From", "code", 2),
        Column("remove", "Remove", "action"),
    ]
    rows = [_rule(context, acl) for acl in shown]
    empty = "No rule matches." if text else "There are no rules."
    return [Table("rules", columns, rows, "Rules", empty), *context.forms(_rule_form())], pager


def _rule(context: Context, acl: Acl) -> Row:
    inputs = [Input(name, "", "hidden", value) for name, value in _acl_fields(acl).items()]
    remove = Form("remove-acl", "Remove", inputs, danger=True)
    allows = acl.permission is Permission.ALLOW
    cells = [
        Cell(acl.principal),
        Cell(acl.permission.name, "may" if allows else "may not", tone="good" if allows else "bad"),
        Cell(acl.operation.name, acl.operation.name.replace("_", " ").lower()),
        Cell(acl.resource_type.name, acl.resource_type.name.replace("_", " ").lower(), tone="quiet"),
        Cell(acl.name, f"{acl.name}{'…' if acl.pattern is PatternType.PREFIXED else ''}"),
        Cell(acl.host),
        Cell(None, "", form=remove) if context.may_change else Cell(None, ""),
    ]
    return Row(str(acl), cells)


async def _users(context: Context) -> list[Block]:
    users = await context.workspace.admin.describe_users()
    rows = []
    for user in sorted(users, key=lambda listed: listed.name):
        inputs = [
            Input("name", "", "hidden", user.name),
            Input("mechanisms", "", "hidden", ",".join(user.mechanisms)),
        ]
        remove = Form("remove-user", "Remove", inputs, danger=True)
        rows.append(
            Row(
                user.name,
                [
                    Cell(user.name),
                    Cell(list(user.mechanisms), ", ".join(user.mechanisms)),
                    Cell(None, "", form=remove) if context.may_change else Cell(None, ""),
                ],
            )
        )
    columns = [
        Column("user", "User"),
        Column("mechanisms", "Logs in by"),
        Column("remove", "Remove", "action"),
    ]
    form = Form(
        "set-user",
        "Set",
        [Input("name", "Name", required=True), Input("password", "Password", "password", required=True)],
        "Add a user, or set a password",
        folded=True,
    )
    return [
        Table("users", columns, rows, "SCRAM users", "No user has a SCRAM password."),
        *context.forms(form),
    ]


async def _quotas(context: Context) -> list[Block]:
    quotas = await context.workspace.admin.describe_quotas()
    rows = []
    for quota in quotas:
        entity = ", ".join(f"{kind} {name or '<default>'}" for kind, name in sorted(quota.entity.items()))
        for key, value in sorted(quota.values.items()):
            text = f"{words.size(value)}/s" if key.endswith("byte_rate") else f"{value:g}"
            rows.append(Row(f"{entity}/{key}", [Cell(entity), Cell(key), Cell(value, text)]))
    inputs = [
        Input("user", "User", hint="<default> for all others"),
        Input("client-id", "Client id"),
        Input("ip", "Address"),
        Input("key", "Quota", "select", _QUOTAS[0], [(quota, quota) for quota in _QUOTAS]),
        Input("value", "A second", "number", hint="empty: remove"),
    ]
    columns = [
        Column("entity", "Whose"),
        Column("quota", "Quota", "code"),
        Column("value", "A second", "number"),
    ]
    return [
        Table("quotas", columns, rows, "Quotas", "There are no quotas."),
        *context.forms(Form("set-quota", "Set", inputs, "Set a quota", folded=True)),
    ]


def _rule_form() -> Form:
    resources = [
        (kind.name, kind.name.replace("_", " ").lower())
        for kind in ResourceType
        if kind is not ResourceType.ANY
    ]
    operations = [
        (kind.name, kind.name.replace("_", " ").lower()) for kind in Operation if kind is not Operation.ANY
    ]
    inputs = [
        Input("principal", "Who", hint="User:alice, or User:* for everybody", required=True),
        Input("permission", "May", "select", "ALLOW", [("ALLOW", "may"), ("DENY", "may not")]),
        Input("operation", "Do what", "select", "READ", operations),
        Input("resource", "To", "select", "TOPIC", resources),
        Input(
            "pattern", "Names", "select", "LITERAL", [("LITERAL", "exactly"), ("PREFIXED", "that begin with")]
        ),
        Input("name", "Name", hint="* for all; kafka-cluster for the cluster", required=True),
        Input("host", "From", hint="empty: anywhere"),
    ]
    return Form("add-acl", "Add", inputs, "Add a rule", folded=True)


def _acl_fields(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name,
        "operation": acl.operation.name,
        "resource": acl.resource_type.name,
        "pattern": acl.pattern.name,
        "name": acl.name,
        "host": acl.host,
    }
