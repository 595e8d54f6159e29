"""`ottla kafka-consumer-groups`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse
from typing import Any

from ottla import errors
from ottla.cli import kafka_group_offsets
from ottla.cli.asking import groups as asking
from ottla.cli.kafka_options import add_bootstrap, java_error, need, one_of, refuse, say, settings, table
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.admin.groups import Group, Member
from ottla.client.values import TopicPartition
from ottla.coordination.groups.regex import check
from ottla.errors import OttlaError, ProtocolError

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
VIEWS = ("members", "offsets", "state")
WAYS = ("to-earliest", "to-latest", "to-current")
TYPES = ("Classic", "Consumer")
STATES = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable"
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser, required=False)
    parser.add_argument(
        "--validate-regex", metavar="REGEX", help="whether a pattern is valid RE2; asks nobody"
    )
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--all-groups", action="store_true")
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--offsets", action="store_true", help="the default of --describe")
    parser.add_argument("--state", nargs="?", const="", default=None, metavar="STATES")
    parser.add_argument("--type", nargs="?", const="", default=None, metavar="TYPES")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--timeout", type=int, default=30_000, metavar="MS")
    parser.add_argument("--topic", action="append", metavar="TOPIC[:0,1]")
    parser.add_argument("--all-topics", action="store_true")
    for way in WAYS:
        parser.add_argument(f"--{way}", action="store_true")
    parser.add_argument("--to-offset", type=int)
    parser.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    parser.add_argument("--by-duration", metavar="PnDTnHnMnS")
    parser.add_argument("--shift-by", type=int)
    parser.add_argument("--from-file", metavar="FILE")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--execute", action="store_true")
    parser.add_argument("--export", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    if arguments.validate_regex is not None:
        return _validate(arguments.validate_regex)
    need(arguments, "bootstrap-server")
    action = one_of(arguments, ACTIONS)
    _check(arguments, action)
    with Admin(settings(arguments, default_api_timeout_ms=arguments.timeout)) as admin:
        try:
            _RUN[action](admin, arguments)
        except ProtocolError as error:
            # Kafka's tool exits with 0 here, so scripts look at the text.
            is_group = isinstance(error, errors.GroupIdNotFound)
            told = java_error(error, error.message) if is_group else error.message
            print(f"\nError: Executing consumer group command failed due to {told}")
    return 0


def _check(arguments: argparse.Namespace, action: str) -> None:
    if action in ("describe", "delete", "reset-offsets") and not (arguments.group or arguments.all_groups):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if arguments.all_groups:
        refuse(arguments, "all-groups", "group")
    if action == "describe":
        if sum(getattr(arguments, view) not in (None, False) for view in VIEWS) > 1:
            raise UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if arguments.state:
            raise UsageError("Option [describe] does not take a value for [state]")
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
    states = _known(arguments.state, STATES, "state", "states")
    types = _known(arguments.type, TYPES, "types", "types")
    found = [
        group
        for group in admin.list_groups(states=states, types=types)
        if group.protocol_type in ("consumer", "") or group.type.lower() == "consumer"
    ]
    if arguments.state is None and arguments.type is None:
        for group in found:
            print(group.id)
        return
    width = max([15, *(len(group.id) for group in found)]) + 10
    columns = ["TYPE"] * (arguments.type is not None) + ["STATE"] * (arguments.state is not None)
    rows = [["GROUP", *columns]]
    rows += [[g.id, *(g.type.capitalize() if c == "TYPE" else g.state for c in columns)] for g in found]
    for name, *cells in rows:
        print(f"{name:<{width}} " + " ".join(f"{cell:<20}" for cell in cells))


def _known(text: str | None, names: tuple[str, ...], what: str, all_of: str) -> list[str]:
    """A list of names, whatever the case they are written in."""
    by_small = {name.lower(): name for name in names}
    given = [each.strip() for each in (text or "").split(",") if each.strip()]
    if any(each.lower() not in by_small for each in given):
        raise UsageError(f"Invalid {what} list '{text}'. Valid {all_of} are: {', '.join(names)}")
    return [by_small[each.lower()] for each in given]


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
    rows: list[list[Any]] = []
    for at in asking.progress_of(admin, group):
        who = (at.owner.id, _host(at.owner.host), at.owner.client_id) if at.owner else (None, None, None)
        epoch = [None if at.committed is None else _or_none(at.committed.leader_epoch)] if verbose else []
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


def _epochs(group: Group, member: Member) -> list[Any]:
    current, target = _shown(member.assignment), _shown(member.target)
    return [_or_none(member.epoch), current, _or_none(group.assignment_epoch), target]


def _shown(partitions: tuple[TopicPartition, ...]) -> str | None:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return ";".join(sorted(f"{name}:{','.join(map(str, parts))}" for name, parts in topics.items())) or None


def _show_state(admin: Admin, group: Group, verbose: bool) -> None:
    coordinator = admin.find_coordinator(group.id)
    where = f"{coordinator.host}:{coordinator.port}  ({coordinator.id})"
    head = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    row: list[Any] = [group.id, where, group.assignor or None, group.state, len(group.members)]
    widths = [15, 25, 20, 20, 0]
    if verbose:
        head[4:4] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row[4:4] = [_or_none(group.epoch), _or_none(group.assignment_epoch)]
        widths[4:4] = [15, 25]
    table(head, [row], widths)


def _or_none(epoch: int) -> int | None:
    return None if epoch < 0 else epoch


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
