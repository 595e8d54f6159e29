"""`ottla kafka-consumer-groups`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse
import time
from typing import TYPE_CHECKING, Any

from ottla import errors
from ottla.cli import resets
from ottla.cli.kafka_options import add_bootstrap, one_of, say, settings
from ottla.cli.options import UsageError, partitions
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.admin.groups import Group
    from ottla.client.values import TopicPartition

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
WAYS = ("to-earliest", "to-latest", "to-current")
NOT_FOUND = "org.apache.kafka.common.errors.GroupIdNotFoundException"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
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
    from ottla.client import Admin

    action = one_of(arguments, ACTIONS)
    with Admin(settings(arguments, default_api_timeout_ms=arguments.timeout)) as admin:
        try:
            _RUN[action](admin, arguments)
        except errors.GroupIdNotFound as error:
            # Kafka's tool exits with 0 here, so scripts look at the text.
            print(f"\nError: Executing consumer group command failed due to {NOT_FOUND}: {error.message}")
    return 0


def _list(admin: "Admin", arguments: argparse.Namespace) -> None:
    states = [each for each in (arguments.state or "").split(",") if each]
    types = [each for each in (arguments.type or "").split(",") if each]
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


def _describe(admin: "Admin", arguments: argparse.Namespace) -> None:
    names = [group.id for group in admin.list_groups()] if arguments.all_groups else arguments.group
    if not names and not arguments.all_groups:
        raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
    for name in names:
        group = admin.describe_group(name)
        if group.state == "Dead" and not admin.group_offsets(name):
            raise errors.GroupIdNotFound(f"Group {name} not found.")
        if not group.members:
            say(f"\nConsumer group '{name}' has no active members.")
        if arguments.members:
            _show_members(group, arguments.verbose)
        elif arguments.state is not None:
            _show_state(admin, group, arguments.verbose)
        else:
            _show_offsets(admin, group)


def _show_offsets(admin: "Admin", group: "Group") -> None:
    committed = {p: at.offset for p, at in admin.group_offsets(group.id).items()}
    owners = {p: member for member in group.members for p in member.assignment}
    wanted = sorted(set(committed) | set(owners))
    ends = _ends(admin, wanted)
    rows: list[tuple[Any, ...]] = []
    for partition in wanted:
        at, end, owner = committed.get(partition), ends.get(partition), owners.get(partition)
        lag = None if at is None or end is None else end - at
        who = (owner.id, _host(owner.host), owner.client_id) if owner else (None, None, None)
        rows.append((group.id, *partition, at, end, lag, *who))
    for member in group.members:
        if not member.assignment:
            nothing = (None,) * 5
            rows.append((group.id, *nothing, member.id, _host(member.host), member.client_id))
    head = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    _table(head, rows, (15, 15, 10, 15, 15, 15, 15, 15, 0))


def _show_members(group: "Group", verbose: bool) -> None:
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
        if verbose:
            topics: dict[str, list[int]] = {}
            for topic, partition in sorted(member.assignment):
                topics.setdefault(topic, []).append(partition)
            shown = ",".join(f"{topic}:{','.join(map(str, parts))}" for topic, parts in topics.items())
            epoch = group.epoch if group.epoch >= 0 else None
            row += [epoch, shown or None, epoch, shown or None]
        rows.append(row)
    _table(head, rows, widths)


def _show_state(admin: "Admin", group: "Group", verbose: bool) -> None:
    coordinator = admin.find_coordinator(group.id)
    where = f"{coordinator.host}:{coordinator.port}  ({coordinator.id})"
    head = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    row = (group.id, where, group.assignor or None, group.state, len(group.members))
    _table(head, [row], (15, 25, 20, 20, 0))


def _delete(admin: "Admin", arguments: argparse.Namespace) -> None:
    names = [group.id for group in admin.list_groups()] if arguments.all_groups else arguments.group
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
    for name, why in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {_java(why)}")
    done = [name for name in names if name not in failed]
    if done:
        listed = ", ".join(f"'{name}'" for name in done)
        print(f"\nThese consumer groups were deleted successfully: {listed}")


def _reset(admin: "Admin", arguments: argparse.Namespace) -> None:
    if not (arguments.dry_run or arguments.execute or arguments.export):
        say(
            "WARN: No action will be performed as the --execute option is missing. "
            "In a future major release, the default behavior of this command will be to prompt the user before "
            "executing the reset rather than doing a dry run. You should add the --dry-run option explicitly if "
            "you are scripting this command and want to keep the current default behavior without prompting."
        )
    names = [group.id for group in admin.list_groups()] if arguments.all_groups else arguments.group
    rows: list[tuple[Any, ...]] = []
    for name in names:
        if admin.describe_group(name).members:
            state = admin.describe_group(name).state
            print(
                "\nError: Assignments can only be reset if the group "
                f"'{name}' is inactive, but the current state is {state}."
            )
            continue
        plan = resets.plan(admin, _for_group(arguments, name), int(time.time() * 1000))
        if arguments.execute:
            from ottla.client.values import OffsetAndMetadata

            admin.alter_group_offsets(name, {p: OffsetAndMetadata(at) for p, at in plan.items()})
        rows += [(name, p.topic, p.partition, at) for p, at in sorted(plan.items())]
    if arguments.export:
        for _, topic, partition, offset in rows:
            print(f'"{topic}",{partition},{offset}')
    else:
        _table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows, (15, 15, 10, 0))


def _for_group(arguments: argparse.Namespace, group: str) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(arguments), "group": group, "dry_run": not arguments.execute})


def _delete_offsets(admin: "Admin", arguments: argparse.Namespace) -> None:
    from ottla.client.values import TopicPartition

    (group,) = arguments.group
    wanted: list[TopicPartition] = []
    for text in arguments.topic or ():
        topic, indexes = partitions(text)
        there = admin.describe_topics([topic])[topic].partitions
        wanted += [TopicPartition(topic, p) for p in (sorted(there) if indexes is None else indexes)]
    results = admin.delete_group_offsets(group, wanted)
    if any(results.values()):
        print("\nError: Encountered some partition level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    rows = [
        (p.topic, p.partition, "Successful" if error is None else f"Error: {error}")
        for p, error in sorted(results.items())
    ]
    _table(("TOPIC", "PARTITION", "STATUS"), rows, (15, 10, 15))


def _ends(admin: "Admin", wanted: "list[TopicPartition]") -> "dict[TopicPartition, int]":
    """Offsets may outlive their topic: what is gone has no end."""
    there = admin.list_topics() if wanted else {}
    alive = [p for p in wanted if p.topic in there and p.partition in there[p.topic].partitions]
    return {p: at.offset for p, at in admin.list_offsets(dict.fromkeys(alive, -1)).items()} if alive else {}


def _table(head: Any, rows: Any, least: Any) -> None:
    """Kafka's tables: a blank line, then columns to the left, each at least so wide."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max([least[i], *(len(row[i]) for row in cells)]) if least[i] else 0 for i in range(len(head))]
    print()
    for row in [list(head), *cells]:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


def _host(host: str) -> str:
    return host if host.startswith("/") else f"/{host}"


def _java(error: OttlaError) -> str:
    if isinstance(error, errors.GroupIdNotFound):
        return f"{NOT_FOUND}: The group id does not exist."
    if isinstance(error, errors.NonEmptyGroup):
        return "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    return str(error)


_RUN = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
