"""`ottla cluster describe|move|elect`: where leaders and replicas are, and how they get elsewhere."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.cli.balance import balanced, drained
from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.progress import Progress
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.client.values import TopicPartition

LOOK_S = 0.5


def add_arguments(commands: Any) -> None:
    add_command(commands, "describe", "leaders and replicas of each broker, and what is amiss")
    move = add_command(commands, "move", "move the replicas of topics to other brokers")
    move.add_argument("topics", nargs="+", metavar="TOPIC[:PARTITION]")
    move.add_argument("--to", metavar="ID,...", help="the brokers to spread them over (default: all)")
    move.add_argument("--replicas", type=int, metavar="N", help="how many of each (default: as many as now)")
    move.add_argument("--cancel", action="store_true", help="give a move up that is under way")
    move.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    drain = add_command(commands, "drain", "move everything away from a broker, so that it can go")
    drain.add_argument("broker", type=int)
    balance = add_command(commands, "balance", "spread replicas and leaders evenly, after a broker came")
    for each in (drain, balance):
        each.add_argument("--dry-run", action="store_true", help="only show the plan")
        each.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    elect = add_command(commands, "elect", "give preferred leaders their partitions back")
    elect.add_argument("topics", nargs="*", metavar="TOPIC[:PARTITION]", help="default: all")
    elect.add_argument(
        "--unclean", action="store_true", help="any replica that lives rather than none: may lose records"
    )


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "describe":
            return _describe(admin, arguments)
        if arguments.command == "move":
            return _move(admin, arguments)
        if arguments.command in ("drain", "balance"):
            return _plan(admin, arguments)
        return _elect(admin, arguments)


def _describe(admin: Admin, arguments: argparse.Namespace) -> int:
    info = admin.describe_cluster()
    topics = admin.describe_topics(admin.list_topics())
    partitions = [(name, each) for name, topic in topics.items() for each in topic.partitions.values()]
    rows = []
    for broker in info.brokers:
        held = [each for _, each in partitions if broker.id in each.replicas]
        rows.append(
            (
                broker.id,
                f"{broker.host}:{broker.port}",
                broker.rack,
                "yes" if broker.id == info.controller else "no",
                sum(each.leader == broker.id for each in held),
                len(held),
                sum(broker.id not in each.isr for each in held),
            )
        )
    show(arguments, ("BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "OUT-OF-SYNC"), rows)
    amiss = 0
    for name, each in partitions:
        if each.leader < 0 or len(each.isr) < len(each.replicas):
            amiss += 1
            state = "has no leader" if each.leader < 0 else f"in sync are only {_ids(each.isr)}"
            print(f"{name}-{each.index}: {state}, of {_ids(each.replicas)}", file=sys.stderr)
    for where, move in sorted(admin.reassignments().items()):
        print(f"{where.topic}-{where.partition}: on the move to {_ids(move.adding)}", file=sys.stderr)
    return 1 if amiss else 0


def _move(admin: Admin, arguments: argparse.Namespace) -> int:
    now = _chosen(admin, arguments.topics)
    if arguments.cancel:
        admin.reassign(dict.fromkeys(now))
        return 0
    known = [each.id for each in admin.describe_cluster().brokers]
    brokers = [int(each) for each in arguments.to.split(",")] if arguments.to else sorted(known)
    targets = spread(now, brokers, arguments.replicas)
    admin.reassign(targets)
    for where, replicas in targets.items():
        print(f"{where.topic}-{where.partition}: {_ids(now[where])} -> {_ids(replicas)}", file=sys.stderr)
    if not arguments.no_wait:
        _wait(admin, targets)
    return 0


def _plan(admin: Admin, arguments: argparse.Namespace) -> int:
    """Internal topics too: their coordinators go with them."""
    now = _chosen(admin, list(admin.list_topics()))
    brokers = sorted(each.id for each in admin.describe_cluster().brokers)
    if arguments.command == "drain":
        if arguments.broker not in brokers:
            raise UsageError(f"there is no broker {arguments.broker}; there are {_ids(brokers)}")
        targets = drained(now, arguments.broker, brokers)
    else:
        targets = balanced(now, brokers)
    rows = [
        (where.topic, where.partition, _ids(now[where]), _ids(replicas))
        for where, replicas in sorted(targets.items())
    ]
    show(arguments, ("TOPIC", "PARTITION", "NOW", "THEN"), rows)
    if arguments.dry_run or not targets:
        return 0
    admin.reassign(targets)
    if not arguments.no_wait:
        _wait(admin, targets)
        admin.elect_leaders(list(targets))
    return 0


def spread(
    now: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], replicas: int | None
) -> dict[TopicPartition, list[int]]:
    """One broker after the other leads; replicas follow on the next ones."""
    targets = {}
    for number, (where, before) in enumerate(sorted(now.items())):
        count = replicas or len(before)
        if count > len(brokers):
            raise UsageError(f"{count} replicas need as many brokers, there are {len(brokers)}")
        targets[where] = [brokers[(number + step) % len(brokers)] for step in range(count)]
    return targets


def _wait(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """A bar of the bytes that new replicas have of what their leaders have."""
    progress = Progress("moving", "B")
    whole = finished = 0  # bytes: of all moves seen so far, and of those that have ended
    last: dict[TopicPartition, tuple[int, int]] = {}
    while True:
        moving = admin.reassignments(targets)
        now = _bytes(admin, moving)
        finished += sum(size for where, (_, size) in last.items() if where not in now)
        whole = max(whole, finished + sum(size for _, size in now.values()))
        done = finished + sum(copied for copied, _ in now.values())
        last = now
        moved = f"{len(targets) - len(moving)}/{len(targets)} moved"
        progress.at(done if moving else whole, whole, moved)
        if not moving:
            progress.done()
            print(moved, file=sys.stderr)
            return
        time.sleep(LOOK_S)


def _bytes(admin: Admin, moving: Mapping[TopicPartition, Any]) -> dict[TopicPartition, tuple[int, int]]:
    """What the new replicas of each partition have, and what they will have."""
    sizes = {(f.broker, where): size for f in admin.log_dirs() for where, size in f.sizes.items()}
    found = {}
    for where, move in moving.items():
        largest = max((sizes.get((each, where), 0) for each in move.replicas), default=0)
        found[where] = sum(sizes.get((each, where), 0) for each in move.adding), largest * len(move.adding)
    return found


def _elect(admin: Admin, arguments: argparse.Namespace) -> int:
    wanted = list(_chosen(admin, arguments.topics)) if arguments.topics else None
    failed = 0
    for where, error in sorted(admin.elect_leaders(wanted, unclean=arguments.unclean).items()):
        told = "elected" if error is None else str(error)
        needless = error is not None and type(error).__name__ == "ElectionNotNeeded"
        failed += error is not None and not needless
        print(f"{where.topic}-{where.partition}: {told}")
    return 1 if failed else 0


def _chosen(admin: Admin, texts: Sequence[str]) -> dict[TopicPartition, Sequence[int]]:
    """Partitions by name, with their replicas."""
    found: dict[TopicPartition, Sequence[int]] = {}
    for text in texts:
        name, colon, number = text.rpartition(":")
        name, only = (name, int(number)) if colon else (text, None)
        for index, each in admin.describe_topics([name])[name].partitions.items():
            if only in (None, index):
                found[TopicPartition(name, index)] = each.replicas
    if not found:
        raise UsageError("there is no such partition")
    return found


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "nobody"
