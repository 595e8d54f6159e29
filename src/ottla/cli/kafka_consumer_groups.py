"""`ottla kafka-consumer-groups`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse

from ottla import errors
from ottla.cli import kafka_group_offsets
from ottla.cli.asking import groups as asking
from ottla.cli.kafka_group_options import (
    ACTIONS,
    add_group_options,
    add_reset_options,
    carry_out,
    check_groups,
    known_names,
    or_none,
    shown,
)
from ottla.cli.kafka_options import add_bootstrap, java_error, need, one_of, refuse, say, table
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.admin.groups import Group, Member
from ottla.coordination.groups.regex import check
from ottla.errors import OttlaError

TYPES = ("Classic", "Consumer")
STATES = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable"
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser, required=False)
    parser.add_argument(
        "--validate-regex", metavar="REGEX", help="whether a pattern is valid RE2; needs no broker"
    )
    add_group_options(parser)
    parser.add_argument("--type", nargs="?", const="", default=None, metavar="TYPES")
    parser.add_argument("--topic", action="append", metavar="TOPIC[:0,1]")
    parser.add_argument("--all-topics", action="store_true")
    add_reset_options(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.validate_regex is not None:
        return _validate(arguments.validate_regex)
    need(arguments, "bootstrap-server")
    action = one_of(arguments, ACTIONS)
    _check(arguments, action)
    return carry_out(arguments, action, _RUN, "consumer")


def _check(arguments: argparse.Namespace, action: str) -> None:
    check_groups(arguments, action, ("describe", "delete", "reset-offsets"))
    if arguments.all_groups:
        refuse(arguments, "all-groups", "group")
    if action == "list":
        refuse(arguments, action, "group", "all-groups", "topic")
    if action == "delete":
        refuse(arguments, action, "topic")
    if action == "reset-offsets":
        kafka_group_offsets.check_reset(arguments)
    if action == "delete-offsets" and not (len(arguments.group) == 1 and arguments.topic):
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")


def _validate(regex: str) -> int:
    try:
        check(regex, len(regex))
        print(f"The regular expression `{regex}` is valid.")
    except errors.InvalidRegularExpression as error:
        reason = error.message.rpartition("regular expression: ")[2]
        print(f"The regular expression `{regex}` is invalid: {reason}")
    return 0


def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    states = known_names(arguments.state, STATES, "state", "states")
    types = known_names(arguments.type, TYPES, "types", "types")
    listed = [
        group
        for group in admin.list_groups(states=states, types=types)
        if group.protocol_type in ("consumer", "") or group.type.lower() == "consumer"
    ]
    if arguments.state is None and arguments.type is None:
        for group in listed:
            print(group.id)
        return
    width = max([15, *(len(group.id) for group in listed)]) + 10
    columns = ["TYPE"] * (arguments.type is not None) + ["STATE"] * (arguments.state is not None)
    rows = [["GROUP", *columns]]
    rows += [[g.id, *(g.type.capitalize() if c == "TYPE" else g.state for c in columns)] for g in listed]
    for name, *cells in rows:
        print(f"{name:<{width}} " + " ".join(f"{cell:<20}" for cell in cells))


def _chosen(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    if not arguments.all_groups:
        return list(arguments.group)
    return [group.id for group in admin.list_groups() if group.type.lower() not in ("share", "streams")]


def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    groups = [admin.describe_group(name) for name in _chosen(admin, arguments)]
    for group in groups:
        if not asking.is_there(admin, group):
            raise errors.GroupIdNotFound(f"Group {group.id} not found.")
    for group in groups:
        if not group.members:
            say(f"\nConsumer group '{group.id}' has no active members.")
        elif group.state != "Stable":
            say(f"\nWarning: Consumer group '{group.id}' is rebalancing.")
        if arguments.members:
            _show_members(group, arguments.verbose)
        elif arguments.state is not None:
            _show_state(admin, group, arguments.verbose)
        else:
            _show_offsets(admin, group, arguments.verbose)


def _show_offsets(admin: Admin, group: Group, verbose: bool) -> None:
    rows: list[list[object]] = []
    for at in asking.progress_of(admin, group):
        who = (at.owner.id, _host(at.owner.host), at.owner.client_id) if at.owner else (None, None, None)
        epoch = [None if at.committed is None else or_none(at.committed.leader_epoch)] if verbose else []
        rows.append([group.id, *at.partition, *epoch, at.offset, at.end, at.lag, *who])
    head = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST"]
    widths = [15, 15, 10, 15, 15, 15, 15, 15, 0]
    if verbose:
        head.insert(3, "LEADER-EPOCH")
        widths.insert(3, 15)
    table([*head, "CLIENT-ID"], rows, widths)


def _show_members(group: Group, verbose: bool) -> None:
    static = any(member.instance_id for member in group.members)
    head = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [15, 15, 15, 15, 15]
    if static:
        head.insert(2, "GROUP-INSTANCE-ID")
        widths.insert(2, 17)
    if verbose:
        head += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        widths += [15, 20, 15, 20]
    rows = []
    for member in group.members:
        row = [group.id, member.id, _host(member.host), member.client_id, len(member.assignment)]
        if static:
            row.insert(2, member.instance_id)
        rows.append(row + (_epochs(group, member) if verbose else []))
    table(head, rows, widths, end="" if verbose else " ")


def _epochs(group: Group, member: Member) -> list[object]:
    current, target = shown(member.assignment), shown(member.target)
    return [or_none(member.epoch), current, or_none(group.assignment_epoch), target]


def _show_state(admin: Admin, group: Group, verbose: bool) -> None:
    coordinator = admin.find_coordinator(group.id)
    where = f"{coordinator.host}:{coordinator.port}  ({coordinator.id})"
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    row: list[object] = [group.id, where, group.assignor or None, group.state, len(group.members)]
    widths = [15, 25, 20, 20, 0]
    if verbose:
        head[4:4] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row[4:4] = [or_none(group.epoch), or_none(group.assignment_epoch)]
        widths[4:4] = [15, 25]
    table(head, [row], widths)


def _delete(admin: Admin, arguments: argparse.Namespace) -> None:
    names = _chosen(admin, arguments)
    failed: dict[str, OttlaError] = {}
    for name in names:
        try:
            admin.delete_group(name)
        except OttlaError as error:
            failed[name] = error
    if not failed:
        listed = ", ".join(f"'{name}'" for name in names)
        print(f"Deletion of requested consumer groups ({listed}) was successful.")
        return
    print("\nError: Deletion of some consumer groups failed:")
    for name, why in sorted(failed.items()):
        print(f"* Group '{name}' could not be deleted due to: {java_error(why)}")
    done = [name for name in names if name not in failed]
    if done:
        listed = ", ".join(f"'{name}'" for name in done)
        print(f"\nThese consumer groups were deleted successfully: {listed}")


def _reset(admin: Admin, arguments: argparse.Namespace) -> None:
    kafka_group_offsets.reset(admin, arguments, _chosen(admin, arguments))


def _host(host: str) -> str:
    return host if host.startswith("/") else f"/{host}"


_RUN = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": kafka_group_offsets.delete,
}
