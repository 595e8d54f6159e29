"""What Apache Kafka's tools for groups have in common: flags, their checks, how a failure is told."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla import errors
from ottla.cli.kafka_options import java_error, settings
from ottla.cli.options import UsageError
from ottla.client import Admin
from ottla.client.values import TopicPartition
from ottla.errors import ProtocolError

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
VIEWS = ("members", "offsets", "state")
WAYS = ("to-earliest", "to-latest", "to-current")
Action = Callable[[Admin, argparse.Namespace], None]


def add_group_options(parser: argparse.ArgumentParser) -> None:
    for action in ACTIONS:
        parser.add_argument(f"--{action}", action="store_true")
    parser.add_argument("--group", action="append", default=[])
    parser.add_argument("--all-groups", action="store_true")
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--offsets", action="store_true", help="the default of --describe")
    parser.add_argument("--state", nargs="?", const="", default=None, metavar="STATES")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--timeout", type=int, default=30_000, metavar="MS")


def add_reset_options(parser: argparse.ArgumentParser) -> None:
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


def check_groups(arguments: argparse.Namespace, action: str, needed: Sequence[str]) -> None:
    """Groups are named where an action needs them; a description is of one kind."""
    if action in needed and not (arguments.group or arguments.all_groups):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")
    if action != "describe":
        return
    if sum(getattr(arguments, view) not in (None, False) for view in VIEWS) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if arguments.state:
        raise UsageError("Option [describe] does not take a value for [state]")


def known_names(text: str | None, names: Sequence[str], list_name: str, all_of: str) -> list[str]:
    """A list of names, whatever the case they are written in."""
    by_small = {name.lower(): name for name in names}
    wanted = [name.strip() for name in (text or "").split(",") if name.strip()]
    if any(name.lower() not in by_small for name in wanted):
        raise UsageError(f"Invalid {list_name} list '{text}'. Valid {all_of} are: {', '.join(names)}")
    return [by_small[name.lower()] for name in wanted]


def carry_out(arguments: argparse.Namespace, action: str, actions: Mapping[str, Action], kind: str) -> int:
    """Kafka's tools exit with 0 when the cluster refuses, so scripts look at the text."""
    with Admin(settings(arguments, default_api_timeout_ms=arguments.timeout)) as admin:
        try:
            actions[action](admin, arguments)
        except ProtocolError as error:
            is_group = isinstance(error, errors.GroupIdNotFound)
            reason = java_error(error, error.message) if is_group else error.message
            print(f"\nError: Executing {kind} group command failed due to {reason}")
    return 0


def shown(partitions: Iterable[TopicPartition]) -> str | None:
    """`topic:0,1;other:2`"""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return ";".join(f"{name}:{','.join(map(str, numbers))}" for name, numbers in topics.items()) or None


def or_none(number: int) -> int | None:
    return None if number < 0 else number
