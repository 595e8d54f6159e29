"""What `ottla kafka-consumer-groups` does to offsets: resets them, deletes them."""

import argparse
import csv
import sys
import time
from typing import Any

from ottla import errors
from ottla.cli.asking import groups as asking
from ottla.cli.asking import resets
from ottla.cli.asking.topics import partitions_of
from ottla.cli.kafka_options import java_error, say, table
from ottla.cli.options import UsageError, partitions
from ottla.client import Admin
from ottla.client.values import TopicPartition

SCENARIOS = (
    "to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current", "from-file"
)  # fmt: skip
NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. You should add the --dry-run option "
    "explicitly if you are scripting this command: in version 5.0 it will require either --dry-run or --execute."
)
Rows = list[tuple[str, str, int, int]]


def check_reset(arguments: argparse.Namespace) -> None:
    """Before anything is asked: a reset that was not meant so is not easily taken back."""
    chosen = [name for name in SCENARIOS if getattr(arguments, name.replace("-", "_")) not in (None, False)]
    if not chosen:
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: {', '.join(SCENARIOS)}"
        )
    if len(chosen) > 1:
        raise UsageError(f'Option "[{chosen[0]}]" can\'t be used with option "[{chosen[1]}]"')
    if arguments.dry_run and arguments.execute:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not (arguments.topic or arguments.all_topics or arguments.from_file):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")


def reset(admin: Admin, arguments: argparse.Namespace, groups: list[str]) -> list[str]:
    """The groups that were inactive, and so were reset."""
    if not (arguments.dry_run or arguments.execute):
        say(NO_ACTION)
    now_ms = int(time.time() * 1000)
    rows: Rows = []
    inactive: list[str] = []
    for group in groups:
        state = _state_if_active(admin, group)
        if state is not None:
            print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, "
                f"but the current state is {state}."
            )
            continue
        inactive.append(group)
        plan = _plan(admin, arguments, group, now_ms)
        for line in plan.remarks:
            say(line)
        if arguments.execute:
            asking.move(admin, group, plan.offsets)
        rows += [(group, p.topic, p.partition, at) for p, at in sorted(plan.offsets.items())]
    if arguments.export:
        _export(rows, with_group=len(groups) > 1)
    else:
        width = max([15, *map(len, groups)])  # of those too that were left out
        table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows, (width, 15, 10, 0))
    return inactive


def _state_if_active(admin: Admin, group: str) -> str | None:
    try:
        described = admin.describe_group(group)
    except errors.GroupIdNotFound:
        return None  # it comes to be with its offsets
    return described.state if described.members else None


def _plan(admin: Admin, arguments: argparse.Namespace, group: str, now_ms: int) -> resets.Plan:
    if arguments.all_topics and not admin.group_offsets(group):
        return resets.Plan({})
    return resets.plan(admin, arguments, group, now_ms)


def _export(rows: Rows, *, with_group: bool) -> None:
    """Lines for --from-file, and an empty one at the end, as Kafka's tool prints it."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows(row if with_group else row[1:] for row in rows)
    print()


def delete(admin: Admin, arguments: argparse.Namespace) -> None:
    (group,) = arguments.group
    there = admin.list_topics()
    rows: list[tuple[str, int | str, str]] = []
    wanted: list[TopicPartition] = []
    for text in arguments.topic:
        topic, indexes = partitions(text)
        if indexes is not None:
            wanted += partitions_of(topic, indexes)
        elif topic in there:
            wanted += partitions_of(topic, there[topic].partitions)
        else:
            rows.append((topic, "-", f"Error: {java_error(errors.UnknownTopicOrPartition())}"))
    message = f"Request succeeded for deleting offsets from group {group}."
    try:
        results: dict[TopicPartition, Any] = admin.delete_group_offsets(group, wanted) if wanted else {}
        if any(results.values()):
            message = "\nError: Encountered some partition-level error, see the follow-up details."
    except errors.GroupIdNotFound as error:
        results = dict.fromkeys(wanted, error)
        message = "\nError: The group id does not exist."
    print(message)
    for partition, failed in sorted(results.items(), key=lambda result: result[0]):
        rows.append((*partition, f"Error: {java_error(failed)}" if failed else "Successful"))
    width = max([15, *(len(topic) for topic, _, _ in rows)])
    print()
    for topic, index, status in [("TOPIC", "PARTITION", "STATUS"), *rows]:
        print(f"{topic:<{width}} {index:<10} {status:<15}")
