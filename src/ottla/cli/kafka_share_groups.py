"""`ottla kafka-share-groups`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse
import time

from ottla import errors
from ottla.cli.asking.topics import partitions_of
from ottla.cli.kafka_group_options import (
    ACTIONS,
    add_group_options,
    carry_out,
    check_groups,
    known_names,
    or_none,
    shown,
)
from ottla.cli.kafka_options import add_bootstrap, java_error, one_of, say, table
from ottla.cli.options import UsageError, partitions
from ottla.cli.times import time_ms
from ottla.client import Admin
from ottla.client.admin.shares import ShareGroup
from ottla.client.values import TopicPartition

STATES = ("Empty", "Stable", "Dead")
LATEST, EARLIEST = -1, -2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    add_group_options(parser)
    parser.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1]")
    parser.add_argument("--all-topics", action="store_true")
    parser.add_argument("--to-earliest", action="store_true")
    parser.add_argument("--to-latest", action="store_true")
    parser.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--execute", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    action = one_of(arguments, ACTIONS)
    _check(arguments, action)
    return carry_out(arguments, action, _RUN, "share")


def _check(arguments: argparse.Namespace, action: str) -> None:
    check_groups(arguments, action, ("describe", "delete"))
    if action in ("reset-offsets", "delete-offsets") and len(arguments.group) != 1:
        raise UsageError(f"Option [{action}] takes the following options: [group]")
    if action == "delete-offsets" and not arguments.topic:
        raise UsageError("Option [delete-offsets] takes the following options: [topic], [group]")
    if action == "reset-offsets":
        _check_reset(arguments)


def _check_reset(arguments: argparse.Namespace) -> None:
    if arguments.dry_run == arguments.execute:
        raise UsageError("Option [reset-offsets] takes exactly one of [dry-run] and [execute]")
    if bool(arguments.topic) == arguments.all_topics:
        raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    if sum(map(bool, (arguments.to_earliest, arguments.to_latest, arguments.to_datetime))) != 1:
        raise UsageError(
            "Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest], [to-latest]"
        )


def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    wanted = known_names(arguments.state, STATES, "state", "states")
    groups = sorted(admin.list_groups(states=wanted, types=["share"]), key=lambda group: group.id)
    if arguments.state is None:
        for group in groups:
            print(group.id)
        return
    width = max([15, *(len(group.id) for group in groups)])
    print(f"{'GROUP':<{width}} STATE")
    for group in groups:
        print(f"{group.id:<{width}} {group.state}")


def _chosen(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    return _share_groups(admin) if arguments.all_groups else list(arguments.group)


def _share_groups(admin: Admin) -> list[str]:
    return sorted(group.id for group in admin.list_groups(types=["share"]))


def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    for name in _chosen(admin, arguments):
        group = admin.describe_share_group(name)
        if arguments.members:
            _show_members(group, arguments.verbose)
        elif arguments.state is not None:
            _show_state(admin, group, arguments.verbose)
        else:
            _show_offsets(admin, group, arguments.verbose)


def _show_offsets(admin: Admin, group: ShareGroup, verbose: bool) -> None:
    rows: list[list[object]] = []
    for where, at in sorted(admin.share_progress(group.group_id).items()):
        epoch = [or_none(at.leader_epoch)] if verbose else []
        rows.append([group.group_id, *where, *epoch, or_none(at.start_offset), or_none(at.lag)])
    head, widths = ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"], [15, 15, 10, 13, 0]
    if verbose:
        head.insert(3, "LEADER-EPOCH")
        widths.insert(3, 13)
    table(head, rows, widths)


def _show_members(group: ShareGroup, verbose: bool) -> None:
    if not group.members:
        print(f"\nShare group '{group.group_id}' has no active members.")
        return
    head = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    widths = [15, 15, 15, 15, 12, 0]
    if verbose:
        head.insert(5, "MEMBER-EPOCH")
        widths.insert(5, 13)
    rows = []
    for member in sorted(group.members, key=lambda member: -len(member.partitions)):
        row: list[object] = [
            group.group_id,
            member.member_id,
            member.host,
            member.client_id,
            len(member.partitions),
            shown(member.partitions),
        ]
        if verbose:
            row.insert(5, member.epoch)
        rows.append(row)
    table(head, rows, widths)


def _show_state(admin: Admin, group: ShareGroup, verbose: bool) -> None:
    coordinator = admin.find_coordinator(group.group_id)
    where = f"{coordinator.host}:{coordinator.port}  ({coordinator.id})"
    head: list[str] = ["GROUP", "COORDINATOR (ID)", "STATE", "#MEMBERS"]
    row: list[object] = [group.group_id, where, group.state, len(group.members)]
    widths = [15, 25, 15, 0]
    if verbose:
        head[3:3] = ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"]
        row[3:3] = [group.epoch, group.assignment_epoch]
        widths[3:3] = [12, 17]
    table(head, [row], widths)


def _delete(admin: Admin, arguments: argparse.Namespace) -> None:
    names, known = _chosen(admin, arguments), _share_groups(admin)
    failed: dict[str, str] = {}
    for name in names:
        if name not in known:
            failed[name] = f"java.lang.IllegalArgumentException: Group '{name}' is not a share group."
        elif admin.describe_share_group(name).members:
            failed[name] = java_error(errors.NonEmptyGroup(), f"Share group '{name}' is not EMPTY.")
        else:
            admin.delete_group(name)
    done = ", ".join(f"'{name}'" for name in names if name not in failed)
    if not failed:
        print(f"Deletion of requested share groups ({done}) was successful.")
        return
    print("\nError: Deletion of some share groups failed:")
    for name, why in failed.items():
        print(f"* Group '{name}' could not be deleted due to: {why}")
    if done:
        print(f"\nThese share groups were deleted successfully: {done}")


def _reset(admin: Admin, arguments: argparse.Namespace) -> None:
    (name,) = arguments.group
    if name in _share_groups(admin) and admin.describe_share_group(name).members:
        say(f"Share group '{name}' is not empty.")
        return
    offsets = _targets(admin, arguments, name)
    if arguments.execute:
        admin.alter_share_offsets(name, offsets)
    rows = [(name, *where, offset) for where, offset in sorted(offsets.items())]
    table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows, (15, 15, 10, 0))


def _targets(admin: Admin, arguments: argparse.Namespace, name: str) -> dict[TopicPartition, int]:
    if arguments.all_topics:
        wanted = list(admin.share_progress(name))
    else:
        there = admin.list_topics()
        wanted = []
        for text in arguments.topic:
            topic, indexes = partitions(text)
            if topic not in there:
                raise errors.UnknownTopicOrPartition(f"topic {topic} does not exist")
            wanted += partitions_of(topic, there[topic].partitions if indexes is None else indexes)
    at = EARLIEST if arguments.to_earliest else LATEST
    if arguments.to_datetime:
        at = time_ms(arguments.to_datetime, int(time.time() * 1000))
    listed = admin.list_offsets(dict.fromkeys(wanted, at))
    ends = admin.list_offsets(dict.fromkeys(wanted, LATEST))
    # After a time at which nothing was written yet comes the end.
    return {
        where: listed[where].offset if listed[where].offset >= 0 else ends[where].offset for where in wanted
    }


def _delete_offsets(admin: Admin, arguments: argparse.Namespace) -> None:
    results = admin.delete_share_offsets(arguments.group[0], arguments.topic)
    rows = [
        (topic, f"Error: {java_error(failed)}" if failed else "Successful")
        for topic, failed in sorted(results.items())
    ]
    table(("TOPIC", "STATUS"), rows, (15, 0))


_RUN = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
}
