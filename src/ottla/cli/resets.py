"""Where a group shall go on: the eight ways of `groups reset-offsets`."""

import argparse
import csv
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.options import UsageError, partitions
from ottla.cli.times import duration_ms, time_ms
from ottla.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client import Admin
    from ottla.client.values import TopicPartition


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    way.add_argument("--to-current", action="store_true", help="where it is (to export it)")
    way.add_argument("--from-file", metavar="FILE", help="lines of topic,partition,offset")
    parser.add_argument("--dry-run", action="store_true", help="only show it (the default)")
    parser.add_argument("--execute", action="store_true", help="do it")
    parser.add_argument("--export", action="store_true", help="print lines for --from-file")


def plan(admin: "Admin", arguments: argparse.Namespace, now_ms: int) -> "dict[TopicPartition, int]":
    """The new offset of each partition, within what is there."""
    from ottla.client.values import TopicPartition

    if arguments.execute and arguments.dry_run:
        raise UsageError("--dry-run or --execute, one of the two")
    if arguments.from_file:
        return read_plan(Path(arguments.from_file).read_text(), arguments.group)
    committed = {p: at.offset for p, at in admin.group_offsets(arguments.group).items()}
    if arguments.topic:
        chosen = []
        for text in arguments.topic:
            topic, indexes = partitions(text)
            there = sorted(admin.describe_topics([topic])[topic].partitions)
            missing = [f'"{topic}-{p}"' for p in indexes or () if p not in there]
            if missing:
                raise UnknownTopicOrPartition(f"The partitions {', '.join(missing)} do not exist")
            chosen += [TopicPartition(topic, p) for p in (there if indexes is None else indexes)]
    elif arguments.all_topics:
        chosen = sorted(committed)
    else:
        raise UsageError("which topics? give --topic TOPIC or --all-topics")
    if not chosen:
        raise UsageError(f"group {arguments.group} has committed nothing; give --topic")
    starts = {p: at.offset for p, at in admin.list_offsets(dict.fromkeys(chosen, -2)).items()}
    ends = {p: at.offset for p, at in admin.list_offsets(dict.fromkeys(chosen, -1)).items()}
    stamp = _stamp(arguments, now_ms)
    at_time: dict[TopicPartition, int] = {}
    if stamp is not None:
        at_time = {p: at.offset for p, at in admin.list_offsets(dict.fromkeys(chosen, stamp)).items()}
        for p in (p for p, offset in at_time.items() if offset < 0):
            print(f"{p}: no record is as young as that; its end is taken", file=sys.stderr)
    return {p: _target(arguments, p, committed, starts, ends, at_time) for p in chosen}


def _target(
    arguments: argparse.Namespace,
    partition: "TopicPartition",
    committed: "Mapping[TopicPartition, int]",
    starts: "Mapping[TopicPartition, int]",
    ends: "Mapping[TopicPartition, int]",
    at_time: "Mapping[TopicPartition, int]",
) -> int:
    start, end = starts[partition], ends[partition]
    if arguments.to_earliest:
        return start
    if arguments.to_latest:
        return end
    if partition in at_time:
        return at_time[partition] if at_time[partition] >= 0 else end
    if arguments.to_offset is not None:
        return clamp(arguments.to_offset, start, end)
    if arguments.shift_by is not None:
        if partition not in committed:
            raise UsageError(f"{partition} has no committed offset to shift from")
        return clamp(committed[partition] + arguments.shift_by, start, end)
    # to-current: where nothing is committed the group would begin at the end
    return clamp(committed.get(partition, end), start, end)


def clamp(offset: int, start: int, end: int) -> int:
    return max(start, min(offset, end))


def read_plan(text: str, group: str) -> "dict[TopicPartition, int]":
    """`topic,partition,offset` lines, as --export writes them; with the group in front those of the group."""
    from ottla.client.values import TopicPartition

    found: dict[TopicPartition, int] = {}
    for row in csv.reader(text.splitlines()):
        if not row:
            continue
        try:
            if len(row) == 4:
                owner, *row = row
                if owner != group:
                    continue
            topic, partition, offset = row
            found[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise UsageError(f"{','.join(row)!r} is not of the form topic,partition,offset") from None
    return found


def _stamp(arguments: argparse.Namespace, now_ms: int) -> int | None:
    if arguments.to_datetime:
        return time_ms(arguments.to_datetime, now_ms)
    return now_ms - duration_ms(arguments.by_duration) if arguments.by_duration else None
