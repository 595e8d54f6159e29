"""Where a group shall go on: eight ways to say it."""

import argparse
import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.cli.asking.topics import partitions_of
from ottla.cli.options import UsageError, partitions
from ottla.cli.times import duration_ms, time_ms
from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.errors import UnknownTopicOrPartition


class Plan(NamedTuple):
    """Where a group shall go on; `past_the_end` are those in which no record is as young as was asked for."""

    offsets: dict[TopicPartition, int]
    past_the_end: tuple[TopicPartition, ...] = ()

    @property
    def remarks(self) -> list[str]:
        return [
            f"{partition}: no record is as young as that; its end is taken" for partition in self.past_the_end
        ]


def plan(admin: Admin, arguments: argparse.Namespace, group: str, now_ms: int) -> Plan:
    """The new offset of each partition, within the log."""
    if arguments.execute and arguments.dry_run:
        raise UsageError("--dry-run or --execute, one of the two")
    if arguments.from_file:
        return Plan(_within(admin, read_plan(Path(arguments.from_file).read_text(), group)))
    committed = {p: at.offset for p, at in admin.group_offsets(group).items()}
    if arguments.topic:
        chosen = []
        for text in arguments.topic:
            topic, indexes = partitions(text)
            chosen += _existing(admin, topic, indexes)
    elif arguments.all_topics:
        chosen = sorted(committed)
    else:
        raise UsageError("which topics? give --topic TOPIC or --all-topics")
    if not chosen:
        raise UsageError(f"group {group} has committed nothing; give --topic")
    starts, ends = _edges(admin, chosen)
    stamp = _stamp(arguments, now_ms)
    at_time: dict[TopicPartition, int] = {}
    if stamp is not None:
        at_time = {p: at.offset for p, at in admin.list_offsets(dict.fromkeys(chosen, stamp)).items()}
    offsets = {p: _target(arguments, p, committed, starts, ends, at_time) for p in chosen}
    return Plan(offsets, tuple(p for p, offset in at_time.items() if offset < 0))


def _existing(admin: Admin, topic: str, indexes: Sequence[int] | None) -> list[TopicPartition]:
    """All partitions of the topic if none is named."""
    there = admin.describe_topics([topic])[topic].partitions
    missing = [f'"{topic}-{index}"' for index in indexes or () if index not in there]
    if missing:
        raise UnknownTopicOrPartition(f"The partitions {', '.join(missing)} do not exist")
    return partitions_of(topic, there if indexes is None else indexes)


def _edges(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where each log starts and ends."""
    wanted = list(partitions)
    starts, ends = (admin.list_offsets(dict.fromkeys(wanted, which)) for which in (-2, -1))
    return {p: at.offset for p, at in starts.items()}, {p: at.offset for p, at in ends.items()}


def _within(admin: Admin, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """As Kafka's tool: what lies beyond the log becomes its start or its end."""
    for topic in {partition.topic for partition in offsets}:
        _existing(admin, topic, [index for name, index in offsets if name == topic])
    starts, ends = _edges(admin, offsets)
    return {p: clamp(offset, starts[p], ends[p]) for p, offset in offsets.items()}


def _target(
    arguments: argparse.Namespace,
    partition: TopicPartition,
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
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


def read_plan(text: str, group: str) -> dict[TopicPartition, int]:
    """`topic,partition,offset` lines, as --export writes them; with the group in front those of the group."""
    offsets: dict[TopicPartition, int] = {}
    for row in csv.reader(text.splitlines()):
        if not row:
            continue
        try:
            if len(row) == 4:
                owner, *row = row
                if owner != group:
                    continue
            topic, partition, offset = row
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise UsageError(f"{','.join(row)!r} is not of the form topic,partition,offset") from None
    return offsets


def _stamp(arguments: argparse.Namespace, now_ms: int) -> int | None:
    if arguments.to_datetime:
        return time_ms(arguments.to_datetime, now_ms)
    return now_ms - duration_ms(arguments.by_duration) if arguments.by_duration else None
