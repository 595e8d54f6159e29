"""`ottla kafka-streams-groups`: Apache Kafka's tool of that name, its flags and its output, without Java."""

import argparse
import re
from collections.abc import Sequence

from ottla.cli import kafka_group_offsets
from ottla.cli.asking import groups as asking
from ottla.cli.kafka_group_options import (
    ACTIONS,
    add_group_options,
    add_reset_options,
    carry_out,
    check_groups,
    known_names,
)
from ottla.cli.kafka_options import add_bootstrap, java_error, need, one_of, refuse
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.admin.streams_groups import StreamsGroup, StreamsTasks, Tasks
from ottla.errors import OttlaError

_INTERNAL = re.compile(
    r"(-changelog|-repartition|-subscription-(registration|response)-topic"
    r"|.-KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)$"
)
STATES = ("Assigning", "Dead", "Empty", "NotReady", "Reconciling", "Stable")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser, required=False)
    add_group_options(parser)
    parser.add_argument("--input-topic", action="append", dest="topic", metavar="TOPIC[:0,1]")
    parser.add_argument("--all-input-topics", action="store_true", dest="all_topics")
    parser.add_argument("--delete-internal-topic", action="append", default=[], metavar="TOPIC")
    parser.add_argument(
        "--delete-all-internal-topics", action="store_true", help="of groups that are deleted or reset"
    )
    add_reset_options(parser)


def run(arguments: argparse.Namespace) -> int:
    need(arguments, "bootstrap-server")
    action = one_of(arguments, ACTIONS)
    _check(arguments, action)
    return carry_out(arguments, action, _RUN, "streams")


def _check(arguments: argparse.Namespace, action: str) -> None:
    check_groups(arguments, action, ("describe", "delete", "reset-offsets"))
    if action == "list":
        refuse(arguments, action, "group", "all-groups")
    if action == "reset-offsets":
        kafka_group_offsets.check_reset(arguments)
    _check_internal_topics(arguments, action)
    if action == "delete-offsets" and not (len(arguments.group) == 1 and arguments.topic):
        raise UsageError("Option [delete-offsets] takes the following options: [input-topic], [group]")


def _check_internal_topics(arguments: argparse.Namespace, action: str) -> None:
    if arguments.delete_all_internal_topics:
        if action not in ("delete", "reset-offsets"):
            raise UsageError(
                "Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]"
            )
        if action == "reset-offsets" and not arguments.execute:
            raise UsageError(
                "Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used."
            )
    elif arguments.delete_internal_topic and not (action == "reset-offsets" and arguments.execute):
        raise UsageError("Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.")


def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    wanted = known_names(arguments.state, STATES, "state", "states")
    listed = admin.list_groups(states=wanted, types=["streams"])
    if arguments.state is None:
        for group in listed:
            print(group.id)
        return
    width = max([15, *(len(group.id) for group in listed)])
    for name, state in [("GROUP", "STATE"), *((group.id, group.state) for group in listed)]:
        print(f"{name:<{width}} {state}")


def _chosen(admin: Admin, arguments: argparse.Namespace) -> list[str]:
    if not arguments.all_groups:
        return list(arguments.group)
    return [group.id for group in admin.list_groups(types=["streams"])]


def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    for name in _chosen(admin, arguments):
        group = admin.describe_streams_group(name)
        if arguments.state is not None:
            if group.state == "Empty":
                print(f"\nError: Streams group '{name}' has no active members.")
            _show_state(admin, group, arguments.verbose)
        elif not group.members:
            continue  # Kafka's tool prints nothing
        elif arguments.members:
            _show_members(group, arguments.verbose)
        else:
            _show_offsets(admin, group, arguments.verbose)


def _show_state(admin: Admin, group: StreamsGroup, verbose: bool) -> None:
    at = admin.find_coordinator(group.group_id)
    where = f"{at.host}:{at.port} ({at.id})"
    head = ["GROUP", "COORDINATOR (ID)", "STATE", "#MEMBERS"]
    row: list[object] = [group.group_id, where, group.state, len(group.members)]
    widths = [max(15, len(group.group_id)), max(25, len(where)), 25, 0]
    if verbose:
        head[3:3] = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row[3:3] = [group.epoch, group.assignment_epoch]
        widths[3:3] = [15, 25]
    _print([head, row], widths)


def _show_members(group: StreamsGroup, verbose: bool) -> None:
    members = group.members
    head = ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
    rows: list[list[object]] = [
        [group.group_id, member.member_id, member.process_id, member.client_id, _shown(member.tasks)]
        for member in members
    ]
    widths = [max([15, *(len(str(row[i])) for row in rows)]) for i in range(4)] + [0]
    if not verbose:
        _print([head, *rows], widths)
        return
    head[1:2] = ["TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL", "MEMBER-EPOCH"]
    full: list[list[object]] = []
    for row, member in zip(rows, members, strict=True):
        protocol = "classic" if member.is_classic else "streams"
        tasks = _shown(member.tasks) + _shown(member.target, "TARGET-")
        full.append(
            [
                row[0],
                group.assignment_epoch,
                group.topology_epoch,
                row[1],
                protocol,
                member.epoch,
                *row[2:4],
                tasks,
            ]
        )
    # Kafka's tool has no space between the third and the fourth column.
    lines: list[Sequence[object]] = [head, *full]
    for line in lines:
        cells = [f"{cell!s}" for cell in line]
        first = f"{cells[0]:<{widths[0]}} {cells[1]:<25} {cells[2]:<15}{cells[3]:<{widths[1]}} "
        others = zip(cells[4:], [15, 15, widths[2], widths[3], 0], strict=True)
        print(first + " ".join(f"{cell:<{width}}" for cell, width in others))


def _shown(tasks: StreamsTasks, prefix: str = "") -> str:
    roles: tuple[tuple[str, Tasks], ...] = (
        ("ACTIVE", tasks.active),
        ("STANDBY", tasks.standby),
        ("WARMUP", tasks.warmup),
    )
    text = ""
    for role, rows in roles:
        if rows:
            text += f"{prefix}{role}: "
            text += "".join(f"{part}:[{','.join(map(str, numbers))}]; " for part, numbers in rows)
    return text


def _show_offsets(admin: Admin, group: StreamsGroup, verbose: bool) -> None:
    partitions = [
        progress
        for progress in asking.progress_of(admin, admin.describe_group(group.group_id))
        if progress.owner
    ]
    width = max([15, *(len(progress.partition.topic) for progress in partitions)])
    widths = [max(15, len(group.group_id)), width, 10]
    if not verbose:
        rows = [
            [group.group_id, *progress.partition, progress.lag if progress.lag is not None else progress.end]
            for progress in partitions
        ]
        _print([["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"], *rows], [*widths, 0])
        return
    full: list[list[object]] = [
        ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG"]
    ]
    for progress in partitions:
        epoch = -1 if progress.committed is None else progress.committed.leader_epoch
        offset = "-" if progress.offset is None else progress.offset
        lag = progress.lag if progress.lag is not None else progress.end
        full.append(
            [group.group_id, *progress.partition, offset, "-" if epoch < 0 else epoch, progress.end, lag]
        )
    _print(full, [*widths, 15, 15, 15, 15])


def _print(rows: Sequence[Sequence[object]], widths: list[int]) -> None:
    for row in rows:
        print(" ".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)))


def _delete(admin: Admin, arguments: argparse.Namespace) -> None:
    """The groups, and their internal topics where that was asked for."""
    done: list[str] = []
    failed: dict[str, OttlaError] = {}
    topics: list[str] = []
    for name in _chosen(admin, arguments):
        try:
            group = admin.describe_streams_group(name)
            admin.delete_group(name)
            if arguments.delete_all_internal_topics:
                topics += _internal_topics(group)
            done.append(name)
        except OttlaError as error:
            failed[name] = error
    listed = "', '".join(done)
    if not failed:
        print(f"Deletion of requested streams groups ('{listed}') was successful.")
    else:
        print("\nError: Deletion of some streams groups failed:")
        for name, why in sorted(failed.items()):
            print(f"* Group '{name}' could not be deleted due to: {java_error(why)}")
        if done:
            print(f"\nThese streams groups were deleted successfully: '{listed}'.")
    if topics:
        _delete_topics(admin, topics)
        print(f"Deletion of associated internal topics of the streams groups ('{listed}') was successful.")


def _delete_topics(admin: Admin, names: list[str]) -> None:
    there = admin.list_topics()
    admin.delete_topics([name for name in names if name in there])


def _reset(admin: Admin, arguments: argparse.Namespace) -> None:
    inactive = kafka_group_offsets.reset(admin, arguments, _chosen(admin, arguments))
    if not (arguments.delete_all_internal_topics or arguments.delete_internal_topic):
        return
    for name in inactive:
        internal = _internal_topics(admin.describe_streams_group(name))
        every = arguments.delete_all_internal_topics
        _delete_topics(admin, [t for t in internal if every or t in arguments.delete_internal_topic])


def _internal_topics(group: StreamsGroup) -> list[str]:
    """Those with the names of internal topics alone: a topology may name any topic."""
    names = group.internal_topics
    others = [name for name in names if not _is_internal(name, group.group_id)]
    for name in others:
        print(
            f"\nError: The internal topic '{name}' is not inferred as internal and thus will not be deleted with "
            f"the group '{group.group_id}'."
        )
    return [name for name in names if name not in others]


def _is_internal(topic: str, group: str) -> bool:
    return topic.startswith(f"{group}-") and _INTERNAL.search(topic) is not None


_RUN = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": _reset,
    "delete-offsets": kafka_group_offsets.delete,
}
