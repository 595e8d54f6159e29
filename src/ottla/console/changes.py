"""Changes to the cluster that a page may ask for. Each returns what to say and where to go then."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from ottla.client.admin.topics import NewTopic
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.console import words
from ottla.console.context import BadRequest, Context
from ottla.console.decoding import headers_of
from ottla.console.views import resets
from ottla.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from ottla.serialization.registry_client import RegistryClient

Fields = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Outcome:
    text: str
    goto: str | None = None  # None: back to the page with the form


async def create_topic(context: Context, form: Fields) -> Outcome:
    name = _needed(form, "name")
    settings = _pairs(form.get("settings", ""))
    new = NewTopic(name, _number(form, "partitions", -1), _number(form, "replication", -1), settings)
    await context.workspace.admin.create_topics([new])
    return Outcome(f"Topic {name} was created.", words.topic_address(name))


async def delete_topic(context: Context, form: Fields) -> Outcome:
    name = _confirmed(form, "topic")
    await context.workspace.admin.delete_topics([name])
    return Outcome(f"Topic {name} was deleted.", "/topics")


async def set_topic(context: Context, form: Fields) -> Outcome:
    return await _set(context, "topic", _needed(form, "topic"), form)


async def set_broker(context: Context, form: Fields) -> Outcome:
    return await _set(context, "broker", _needed(form, "broker"), form)


async def _set(context: Context, kind: str, name: str, form: Fields) -> Outcome:
    setting, value = _needed(form, "setting"), form.get("value", "").strip()
    if value:
        await context.workspace.admin.alter_configs(kind, name, set_={setting: value})
        shown = _HIDDEN if _SECRET_SETTING.search(setting) else value
        return Outcome(f"{setting} of {kind} {name} is {shown} now.")
    await context.workspace.admin.alter_configs(kind, name, delete=[setting])
    return Outcome(f"{setting} of {kind} {name} is back at its default.")


async def add_partitions(context: Context, form: Fields) -> Outcome:
    name, count = _needed(form, "topic"), _number(form, "count")
    await context.workspace.admin.add_partitions(name, count)
    return Outcome(f"Topic {name} has {count} partitions now.")


async def truncate(context: Context, form: Fields) -> Outcome:
    name = _confirmed(form, "topic")
    partitions = (await context.workspace.admin.describe_topics([name]))[name].partitions
    chosen = _number(form, "partition", -1)
    if chosen >= 0 and chosen not in partitions:
        raise BadRequest(f"topic {name} has no partition {chosen}")
    before = _number(form, "before", -1)
    wanted = {TopicPartition(name, p): before for p in ([chosen] if chosen >= 0 else partitions)}
    lows = await context.workspace.admin.delete_records(wanted)
    firsts = ", ".join(f"{place.partition}: {at}" for place, at in sorted(lows.items()))
    return Outcome(f"Records of {name} were deleted; the first offsets are {firsts}.")


async def produce(context: Context, form: Fields) -> Outcome:
    name = _needed(form, "topic")
    try:
        headers = headers_of(form.get("headers", "").splitlines())
    except ValueError as error:
        raise BadRequest(str(error)) from None
    value = None if form.get("null") else form.get("value", "").replace("\r\n", "\n").encode()
    key = form.get("key", "").encode() or None
    partition = _number(form, "partition", -1)
    async with context.workspace.producer() as producer:
        placed = await producer.send_and_wait(
            name, value, key=key, headers=headers, partition=None if partition < 0 else partition
        )
    return Outcome(
        f"The record is at partition {placed.partition}, offset {placed.offset}.",
        words.topic_address(name, "messages"),
    )


async def delete_group(context: Context, form: Fields) -> Outcome:
    name = _confirmed(form, "group")
    await context.workspace.admin.delete_group(name)
    return Outcome(f"Group {name} was deleted.", "/groups")


async def reset_offsets(context: Context, form: Fields) -> Outcome:
    group = _needed(form, "group")
    plan = await resets.plan(context, group, form)
    if form.get("preview") != resets.fingerprint(plan):
        raise BadRequest("the offsets have changed since the preview; look at the new one first")
    admin, changed = context.workspace.admin, {row.place: row.after for row in plan}
    if resets.is_share(context, group):
        await admin.alter_share_offsets(group, changed)
    else:
        await admin.alter_group_offsets(
            group, {place: OffsetAndMetadata(at) for place, at in changed.items()}
        )
    return Outcome(
        f"Group {group} goes on at the new offsets of {words.plural(len(changed), 'partition')}.",
        words.group_address(group),
    )


async def abort_transaction(context: Context, form: Fields) -> Outcome:
    place = TopicPartition(_needed(form, "topic"), _number(form, "partition"))
    offset = _number(form, "start_offset")
    await context.workspace.admin.abort_transaction(place, offset)
    return Outcome(f"The transaction that began at offset {offset} of {place} was aborted.", "/transactions")


async def elect_leaders(context: Context, form: Fields) -> Outcome:
    outcomes = await context.workspace.admin.elect_leaders(None)
    failed = [
        f"{place}: {error}"
        for place, error in outcomes.items()
        if error is not None and type(error).__name__ != "ElectionNotNeeded"
    ]
    if failed:
        raise BadRequest("; ".join(failed[:5]))
    return Outcome("Every partition is led by its preferred replica, where that one is in sync.")


async def add_acl(context: Context, form: Fields) -> Outcome:
    acl = _acl(form)
    await context.workspace.admin.create_acls([acl])
    return Outcome(f"{acl}.", "/access")


async def remove_acl(context: Context, form: Fields) -> Outcome:
    acl = _acl(form)
    exact = AclFilter(
        acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission
    )
    gone = await context.workspace.admin.delete_acls([exact])
    return Outcome(f"{words.plural(len(gone), 'rule')} removed: {acl}.", "/access")


async def set_user(context: Context, form: Fields) -> Outcome:
    name, password = _needed(form, "name"), _needed(form, "password")
    await context.workspace.admin.set_user(name, password, ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    return Outcome(f"User {name} has the new password.", "/access?part=users")


async def remove_user(context: Context, form: Fields) -> Outcome:
    name = _needed(form, "name")
    mechanisms = [part for part in form.get("mechanisms", "").split(",") if part]
    await context.workspace.admin.remove_user(name, mechanisms)
    return Outcome(f"User {name} cannot log in any more.", "/access?part=users")


async def set_quota(context: Context, form: Fields) -> Outcome:
    entity: dict[str, str | None] = {}
    for kind in ("user", "client-id", "ip"):
        if text := form.get(kind, "").strip():
            entity[kind] = None if text == "<default>" else text
    if not entity:
        raise BadRequest("a quota needs a user, a client id or an address")
    key, text = _needed(form, "key"), form.get("value", "").strip()
    try:
        value = float(text) if text else None
    except ValueError:
        raise BadRequest(f"value={text!r} is not a number") from None
    await context.workspace.admin.alter_quotas(entity, {key: value})
    said = "removed" if value is None else f"{value:g} now"
    whose = ", ".join(f"{kind} {name or 'default'}" for kind, name in entity.items())
    return Outcome(f"{key} of {whose} is {said}.", "/access?part=quotas")


async def register_schema(context: Context, form: Fields) -> Outcome:
    registry = context.console.schemas
    if registry is None:
        raise BadRequest("this console has no schema registry; start it with --registry")
    subject, schema, kind = _needed(form, "subject"), _needed(form, "schema"), form.get("type", "AVRO")
    if form.get("check"):
        return Outcome(await asyncio.to_thread(_checked, registry.client, subject, schema, kind))
    await asyncio.to_thread(registry.client.register, subject, schema, kind)
    latest = await asyncio.to_thread(registry.client.version, subject)
    text = f"Version {latest.version} of {subject} has the id {latest.schema_id}."
    return Outcome(text, f"/schemas/{quote(subject, safe='')}")


def _checked(client: RegistryClient, subject: str, schema: str, kind: str) -> str:
    path = f"/compatibility/subjects/{quote(subject, safe='')}/versions?verbose=true"
    answer = client.ask("POST", path, {"schema": schema, "schemaType": kind})
    if not answer.get("is_compatible"):
        reasons = "; ".join(map(str, answer.get("messages") or ())) or "the registry gives no reason"
        raise BadRequest(f"the schema is not compatible with {subject}: {reasons}")
    return f"The schema is compatible with {subject}. It was not registered."


async def set_level(context: Context, form: Fields) -> Outcome:
    registry = context.console.schemas
    if registry is None:
        raise BadRequest("this console has no schema registry; start it with --registry")
    subject, level = form.get("subject", ""), _needed(form, "level")
    path = f"/config/{quote(subject, safe='')}" if subject else "/config"
    await asyncio.to_thread(registry.client.ask, "PUT", path, {"compatibility": level})
    return Outcome(f"The compatibility of {subject or 'all other subjects'} is {level} now.")


async def connector(context: Context, form: Fields) -> Outcome:
    name, action = _needed(form, "connector"), _needed(form, "action")
    if context.console.connect is None:
        raise BadRequest("this console has no Connect worker; start it with --connect")
    await context.console.connect.act(name, action)
    return Outcome(f"The worker was asked to {action} {name}.")


async def restart_task(context: Context, form: Fields) -> Outcome:
    name, task = _needed(form, "connector"), _number(form, "task")
    if context.console.connect is None:
        raise BadRequest("this console has no Connect worker; start it with --connect")
    await context.console.connect.restart_task(name, task)
    return Outcome(f"The worker was asked to restart task {task} of {name}.")


Action = Callable[[Context, Fields], Awaitable[Outcome]]
ACTIONS: dict[str, Action] = {
    "create-topic": create_topic,
    "delete-topic": delete_topic,
    "set-topic": set_topic,
    "add-partitions": add_partitions,
    "truncate": truncate,
    "produce": produce,
    "delete-group": delete_group,
    "reset-offsets": reset_offsets,
    "abort-transaction": abort_transaction,
    "elect-leaders": elect_leaders,
    "set-broker": set_broker,
    "add-acl": add_acl,
    "remove-acl": remove_acl,
    "set-user": set_user,
    "remove-user": remove_user,
    "set-quota": set_quota,
    "register-schema": register_schema,
    "set-level": set_level,
    "connector": connector,
    "restart-task": restart_task,
}
_HIDDEN = "[hidden]"
_SECRET_SETTING = re.compile(r"(?i)password|secret|jaas\.config|token|keystore\.key$")
_SECRET = ("csrf", "back", "password", "value", "key", "headers", "settings", "preview", "schema")


def told_of(action: str, form: Fields) -> str:
    """What was asked for, for the change log: no passwords and no records, but the values of settings and quotas
    that are not secret themselves."""
    shown = {name: text for name, text in form.items() if text and name not in _SECRET}
    if action in ("set-topic", "set-broker", "set-quota"):
        shown |= {name: form[name] for name in ("value", "key") if form.get(name)}
    if _SECRET_SETTING.search(form.get("setting", "")) and form.get("value"):
        shown["value"] = _HIDDEN
    if action == "create-topic" and form.get("settings"):
        shown["settings"] = " ".join(form["settings"].split())
    return " ".join(f"{name}={text}" for name, text in shown.items())


def _needed(form: Fields, name: str) -> str:
    text = form.get(name, "").strip()
    if not text:
        raise BadRequest(f"{name} is missing")
    return text


def _confirmed(form: Fields, name: str) -> str:
    wanted = form.get(name, "")
    if form.get("confirm", "") != wanted:
        raise BadRequest(f"to confirm, type {wanted} exactly")
    return wanted


def _number(form: Fields, name: str, default: int | None = None) -> int:
    text = form.get(name, "").strip()
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f"{name}={text!r} is not a number") from None


def _pairs(text: str) -> dict[str, str]:
    settings = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise BadRequest(f"{line!r} is not of the form name=value")
        settings[name.strip()] = value.strip()
    return settings


def _acl(form: Fields) -> Acl:
    try:
        return Acl(
            ResourceType[_needed(form, "resource").upper()],
            _needed(form, "name"),
            PatternType[form.get("pattern", "LITERAL").upper()],
            _needed(form, "principal"),
            form.get("host", "").strip() or "*",
            Operation[_needed(form, "operation").upper()],
            Permission[form.get("permission", "ALLOW").upper()],
        )
    except KeyError as error:
        raise BadRequest(f"{error.args[0]} is not known in rules") from None
