"""`ottla groups`: list, describe, reset-offsets, delete, delete-offsets."""

import argparse
import sys
import time

from ottla import errors
from ottla.cli.asking import groups as asking
from ottla.cli.asking import resets
from ottla.cli.asking.topics import partitions_of
from ottla.cli.options import UsageError, add_command, client_settings, partitions
from ottla.cli.tables import headed, show, show_json
from ottla.client import Admin
from ottla.client.admin.groups import Group, ListedGroup
from ottla.client.exactly_once import is_marker
from ottla.client.values import TopicPartition

COLUMNS = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
    "CONSUMER-ID", "HOST", "CLIENT-ID",
)  # fmt: skip
MEMBER_COLUMNS = (
    "GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT",
)  # fmt: skip
STATE_COLUMNS = ("GROUP", "TYPE", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "#MEMBERS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = add_command(commands, "list", "list groups")
    listing.add_argument("--state", action="append", default=[], help="only groups in this state")
    listing.add_argument(
        "--type", action="append", default=[], help="only classic, consumer, share or streams groups"
    )
    describe = add_command(commands, "describe", "offsets, lag and owners")
    describe.add_argument("group", nargs="*")
    describe.add_argument("--all-groups", action="store_true")
    for command in (listing, describe):
        command.add_argument("--all", action="store_true", help="also exactly-once markers of Spark queries")
    describe.add_argument(
        "-w", "--watch", type=float, nargs="?", const=1.0, metavar="SECONDS", help="again and again (1)"
    )
    shown = describe.add_mutually_exclusive_group()
    shown.add_argument("--members", action="store_true", help="members instead of offsets")
    shown.add_argument("--state", action="store_true", help="state instead of offsets")
    reset = add_command(
        commands, "reset-offsets", "move a group that has no members (dry run unless --execute)"
    )
    reset.add_argument("group")
    _add_ways(reset)
    delete = add_command(commands, "delete", "delete groups that have no members")
    delete.add_argument("group", nargs="+")
    forget = add_command(commands, "delete-offsets", "forget what a group has committed")
    forget.add_argument("group")
    forget.add_argument("-t", "--topic", action="append", required=True, metavar="TOPIC[:0,1]")


def _add_ways(parser: argparse.ArgumentParser) -> None:
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "-t", "--topic", action="append", metavar="TOPIC[:0,1]", help="these topics or partitions"
    )
    scope.add_argument("--all-topics", action="store_true", help="everything the group has committed")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--to-earliest", action="store_true")
    way.add_argument("--to-latest", action="store_true")
    way.add_argument("--to-offset", type=int, metavar="N")
    way.add_argument("--to-datetime", metavar="TIME", help="2026-01-31T12:30:00Z")
    way.add_argument("--by-duration", metavar="DURATION", help="so long ago: PT1H, 90s, 2d")
    way.add_argument("--shift-by", type=int, metavar="N", help="forward, or back with a negative number")
    way.add_argument("--to-current", action="store_true", help="the committed offset (to export it)")
    way.add_argument("--from-file", metavar="FILE", help="lines of topic,partition,offset")
    parser.add_argument("--dry-run", action="store_true", help="only show it (the default)")
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--export", action="store_true", help="print lines for --from-file")


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        every_s = getattr(arguments, "watch", None)
        while True:
            status = _ACTIONS[arguments.command](admin, arguments)
            if every_s is None:
                return status
            time.sleep(every_s)
            print("\033[2J\033[H" if sys.stdout.isatty() else "", end="\n", flush=True)


def _list(admin: Admin, arguments: argparse.Namespace) -> int:
    listed = _without_markers(admin.list_groups(states=arguments.state, types=arguments.type), arguments.all)
    rows = [(g.id, g.type or None, g.protocol_type or None, g.state or None) for g in listed]
    show(arguments, ("GROUP", "TYPE", "PROTOCOL", "STATE"), rows)
    return 0


def _without_markers(groups: list[ListedGroup], all_of_them: bool) -> list[ListedGroup]:
    """No consumer stands behind a marker: it tells a Spark query what it has written (docs/spark.md)."""
    shown = [group for group in groups if all_of_them or not is_marker(group.id)]
    hidden = len(groups) - len(shown)
    if hidden:
        print(
            f"{hidden} exactly-once markers of Spark queries are not shown; --all shows them", file=sys.stderr
        )
    return shown


def _describe(admin: Admin, arguments: argparse.Namespace) -> int:
    names = arguments.group
    if arguments.all_groups:
        names = [
            g.id for g in _without_markers(admin.list_groups(), arguments.all) if g.type.lower() != "share"
        ]
    if not names and not arguments.all_groups:
        raise UsageError("name a group, or give --all-groups")
    columns: tuple[str, ...] = (
        MEMBER_COLUMNS if arguments.members else STATE_COLUMNS if arguments.state else COLUMNS
    )
    blocks: list[list[tuple[object, ...]]] = []
    for name in names:
        group = _described(admin, name)
        if arguments.members:
            blocks.append(_member_rows(group))
        elif arguments.state:
            epoch = group.epoch if group.epoch >= 0 else None
            blocks.append(
                [(name, group.type, group.assignor or None, group.state, epoch, len(group.members))]
            )
        else:
            blocks.append(_offset_rows(admin, group))
            if not group.members:
                print(f"group {name} has no active members", file=sys.stderr)
    if arguments.json:
        keys = [column.lower().replace("-", "_").replace("#", "") for column in columns]
        show_json([dict(zip(keys, row, strict=True)) for block in blocks for row in block])
    else:
        print("\n\n".join(headed(columns, block) for block in blocks))
    return 0


def _described(admin: Admin, name: str) -> Group:
    try:
        group = admin.describe_group(name)
        if asking.is_there(admin, group):
            return group
    except errors.GroupIdNotFound:
        pass
    raise errors.GroupIdNotFound(f"group {name} does not exist; ottla groups list shows those that do")


def _member_rows(group: Group) -> list[tuple[object, ...]]:
    return [
        (
            group.id,
            m.id,
            m.instance_id,
            m.host,
            m.client_id,
            len(m.assignment),
            sorted(map(str, m.assignment)),
        )
        for m in group.members
    ]


def _offset_rows(admin: Admin, group: Group) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for at in asking.progress_of(admin, group):
        owner = (at.owner.id, at.owner.host, at.owner.client_id) if at.owner else (None, None, None)
        rows.append((group.id, *at.partition, at.offset, at.end, at.lag, *owner))
    idle = [member for member in group.members if not member.assignment]
    return rows + [(group.id, None, None, None, None, None, m.id, m.host, m.client_id) for m in idle]


def _reset(admin: Admin, arguments: argparse.Namespace) -> int:
    plan = resets.plan(admin, arguments, arguments.group, int(time.time() * 1000))
    for line in plan.remarks:
        print(line, file=sys.stderr)
    if arguments.execute:
        asking.move(admin, arguments.group, plan.offsets)
    rows = [(arguments.group, p.topic, p.partition, at) for p, at in sorted(plan.offsets.items())]
    if arguments.export:
        for _, topic, partition, offset in rows:
            print(f'"{topic}",{partition},{offset}')
    else:
        show(arguments, ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows)
    if not arguments.execute:
        print("dry run: nothing was changed; add --execute to do it", file=sys.stderr)
    return 0


def _delete(admin: Admin, arguments: argparse.Namespace) -> int:
    for name in arguments.group:
        admin.delete_group(name)
    show(arguments, ("GROUP", "STATUS"), [(name, "DELETED") for name in arguments.group])
    return 0


def _delete_offsets(admin: Admin, arguments: argparse.Namespace) -> int:
    wanted: list[TopicPartition] = []
    for text in arguments.topic:
        topic, indexes = partitions(text)
        if indexes is None:
            indexes = [p.partition for p in admin.group_offsets(arguments.group) if p.topic == topic]
            # As Kafka's tool: a group or a topic that does not exist is an error, and not "nothing to delete".
            indexes = indexes or list(admin.describe_topics([topic])[topic].partitions)
        wanted += partitions_of(topic, indexes)
    results = admin.delete_group_offsets(arguments.group, wanted)
    rows = [
        (p.topic, p.partition, "DELETED" if error is None else str(error))
        for p, error in sorted(results.items())
    ]
    show(arguments, ("TOPIC", "PARTITION", "STATUS"), rows)
    return 1 if any(error is not None for error in results.values()) else 0


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "reset-offsets": _reset,
    "delete": _delete,
    "delete-offsets": _delete_offsets,
}
