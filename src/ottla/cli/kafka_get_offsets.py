"""`ottla kafka-get-offsets`: `topic:partition:offset` lines, with Apache Kafka's flags."""

import argparse
import re
from collections.abc import Iterable

from ottla.cli.kafka_options import add_bootstrap, regex_of, say, settings
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.values import TopicPartition

TIMES = {
    "latest": -1, "earliest": -2, "max-timestamp": -3,
    "earliest-local": -4, "latest-tiered": -5, "earliest-pending-upload": -6,
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_bootstrap(parser)
    parser.add_argument("--topic", metavar="PATTERN")
    parser.add_argument("--partitions", metavar="0,1,2")
    parser.add_argument("--topic-partitions", metavar="topic:0,topic:1-3")
    parser.add_argument("--time", default="latest", help=f"ms since 1970, or {', '.join(TIMES)}")
    parser.add_argument("--exclude-internal-topics", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    if arguments.topic_partitions and (arguments.topic or arguments.partitions):
        raise UsageError("--topic-partitions cannot be used with --topic or --partitions")
    stamp = _time(arguments.time)
    with Admin(settings(arguments)) as admin:
        wanted = sorted(_wanted(admin, arguments))
        if not wanted:
            say("Error occurred: Could not match any topic-partitions with the specified filters")
            return 1
        listed = admin.list_offsets(dict.fromkeys(wanted, stamp))
    for partition in wanted:
        offset = listed[partition].offset
        if offset >= 0:  # nothing is as young as that
            print(f"{partition.topic}:{partition.partition}:{offset}")
    return 0


def _time(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise UsageError(
            f"Malformed time argument {text}. Please use "
            + " / ".join(f"{number} or {name}" for name, number in TIMES.items())
            + ", or a specified long format timestamp"
        ) from None


def _wanted(admin: Admin, arguments: argparse.Namespace) -> Iterable[TopicPartition]:
    filters = _filters(arguments)
    for topic in admin.list_topics(internal=not arguments.exclude_internal_topics).values():
        for index in topic.partitions:
            if any(pattern.fullmatch(topic.name) and first <= index < end for pattern, first, end in filters):
                yield TopicPartition(topic.name, index)


def _filters(arguments: argparse.Namespace) -> list[tuple[re.Pattern[str], int, float]]:
    if arguments.topic_partitions:
        ranges = []
        for part in arguments.topic_partitions.split(","):
            topic, _, indexes = part.partition(":")
            ranges.append((regex_of(topic or ".*"), *_range(indexes)))
        return ranges
    pattern = regex_of(arguments.topic or ".*")
    if not arguments.partitions:
        return [(pattern, 0, float("inf"))]
    if not re.fullmatch(r"\d+(,\d+)*", arguments.partitions):
        raise UsageError(
            f"--partitions expects a comma separated list of numbers, not {arguments.partitions}"
        )
    return [(pattern, *_range(indexes)) for indexes in arguments.partitions.split(",")]


def _range(text: str) -> tuple[int, float]:
    """`3`, `1-3` (its end not included), `2-`, or nothing at all."""
    first, dash, end = text.partition("-")
    try:
        low = int(first) if first else 0
        return (low, float(end) if end else float("inf")) if dash or not text else (low, low + 1)
    except ValueError:
        raise UsageError(f"Invalid partition range: {text}") from None
