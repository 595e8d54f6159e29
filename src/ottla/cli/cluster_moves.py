"""`ottla cluster describe|move|elect`: where leaders and replicas are, and how they get elsewhere."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.cli.balance import balanced, drained
from ottla.cli.options import Commands, UsageError, add_command, client_settings, partitions
from ottla.cli.progress import Progress
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.client.values import TopicPartition

LOOK_S = 0.5
LOOKS_MAX = 20  # after the controller ended a move: until the broker that is asked has heard of it


def add_arguments(commands: Commands) -> None:
    add_command(commands, "describe", "leaders and replicas of each broker, and what is amiss")
    move = add_command(commands, "move", "move the replicas of topics to other brokers")
    move.add_argument("topics", nargs="+", metavar="TOPIC[:0,1]")
    move.add_argument("--to", metavar="ID,...", help="the brokers to spread them over (default: all)")
    move.add_argument("--replicas", type=int, metavar="N", help="how many of each (default: as many as now)")
    move.add_argument("--cancel", action="store_true", help="cancel a move that is under way")
    move.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    drain = add_command(commands, "drain", "move everything away from a broker, so that it can go")
    drain.add_argument("broker", type=int)
    balance = add_command(commands, "balance", "spread replicas and leaders evenly, after a broker came")
    for command in (drain, balance):
        command.add_argument("--dry-run", action="store_true", help="only show the plan")
        command.add_argument("--no-wait", action="store_true", help="do not wait for the end")
    elect = add_command(commands, "elect", "give preferred leaders their partitions back")
    elect.add_argument("topics", nargs="*", metavar="TOPIC[:0,1]", help="default: all")
    elect.add_argument(
        "--unclean", action="store_true", help="any live replica rather than none: may lose records"
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
    described = [
        (name, partition) for name, topic in topics.items() for partition in topic.partitions.values()
    ]
    rows = []
    for broker in info.brokers:
        held = [partition for _, partition in described if broker.id in partition.replicas]
        rows.append(
            (
                broker.id,
                f"{broker.host}:{broker.port}",
                broker.rack,
                "yes" if broker.id == info.controller else "no",
                sum(partition.leader == broker.id for partition in held),
                len(held),
                sum(broker.id not in partition.isr for partition in held),
            )
        )
    show(arguments, ("BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS", "OUT-OF-SYNC"), rows)
    amiss = 0
    for name, partition in described:
        if partition.leader < 0 or len(partition.isr) < len(partition.replicas):
            amiss += 1
            state = "has no leader" if partition.leader < 0 else f"in sync are only {_ids(partition.isr)}"
            print(f"{name}-{partition.index}: {state}, of {_ids(partition.replicas)}", file=sys.stderr)
    for where, move in sorted(admin.reassignments().items()):
        print(f"{where.topic}-{where.partition}: on the move to {_ids(move.adding)}", file=sys.stderr)
    return 1 if amiss else 0


def _move(admin: Admin, arguments: argparse.Namespace) -> int:
    now = _chosen(admin, arguments.topics)
    if arguments.cancel:
        admin.reassign(dict.fromkeys(now))
        return 0
    known = [broker.id for broker in admin.describe_cluster().brokers]
    brokers = [int(broker_id) for broker_id in arguments.to.split(",")] if arguments.to else sorted(known)
    targets = spread(now, brokers, arguments.replicas)
    admin.reassign(targets)
    for where, replicas in targets.items():
        print(f"{where.topic}-{where.partition}: {_ids(now[where])} -> {_ids(replicas)}", file=sys.stderr)
    return 0 if arguments.no_wait or _wait(admin, targets) else 1


def _plan(admin: Admin, arguments: argparse.Namespace) -> int:
    """Internal topics too: their coordinators go with them."""
    now = _chosen(admin, list(admin.list_topics()))
    brokers = sorted(broker.id for broker in admin.describe_cluster().brokers)
    if arguments.command == "drain":
        if arguments.broker not in brokers:
            raise UsageError(f"there is no broker {arguments.broker}; the brokers are {_ids(brokers)}")
        targets = drained(now, arguments.broker, brokers)
    else:
        targets = balanced(now, brokers)
    rows = [
        (where.topic, where.partition, _ids(now[where]), _ids(replicas))
        for where, replicas in sorted(targets.items())
    ]
    show(arguments, ("TOPIC", "PARTITION", "NOW", "THEN"), rows)
    if not targets:
        print("nothing has to move", file=sys.stderr)
    if arguments.dry_run or not targets:
        return 0
    admin.reassign(targets)
    if arguments.no_wait:
        return 0
    is_moved = _wait(admin, targets)
    admin.elect_leaders(list(targets))
    return 0 if is_moved else 1


def spread(
    now: Mapping[TopicPartition, Sequence[int]], brokers: Sequence[int], replicas: int | None
) -> dict[TopicPartition, list[int]]:
    """One broker after the other leads; replicas follow on the next ones."""
    if replicas is not None and replicas < 1:
        raise UsageError(f"--replicas {replicas}: a partition has one replica or more")
    targets = {}
    for number, (where, before) in enumerate(sorted(now.items())):
        count = replicas or len(before)
        if count > len(brokers):
            raise UsageError(f"{count} replicas need as many brokers, there are {len(brokers)}")
        targets[where] = [brokers[(number + step) % len(brokers)] for step in range(count)]
    return targets


def _wait(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> bool:
    """A bar of the bytes that new replicas have of what their leaders have. False if a move was cancelled."""
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
        progress.at(
            done if moving else whole, whole, f"{len(targets) - len(moving)}/{len(targets)} no longer moving"
        )
        if not moving:
            progress.done()
            return _tell_moved(admin, targets)
        time.sleep(LOOK_S)


def _tell_moved(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> bool:
    """A move that was cancelled is not under way any more either: only the replicas tell that it came to its end."""
    elsewhere = _elsewhere(admin, targets)
    for _ in range(LOOKS_MAX):
        if not elsewhere:
            break
        time.sleep(LOOK_S)
        elsewhere = _elsewhere(admin, targets)
    print(f"{len(targets) - len(elsewhere)}/{len(targets)} moved", file=sys.stderr)
    for where, replicas in sorted(elsewhere.items()):
        state = (
            f"no move is under way, and its replicas are {_ids(replicas)} rather than {_ids(targets[where])}"
        )
        print(f"{where.topic}-{where.partition}: {state}", file=sys.stderr)
    return not elsewhere


def _elsewhere(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, Sequence[int]]:
    """The partitions whose replicas are not those that were asked for, with the replicas they have."""
    topics = admin.describe_topics({where.topic for where in targets})
    replicas = {where: topics[where.topic].partitions[where.partition].replicas for where in targets}
    return {where: now for where, now in replicas.items() if sorted(now) != sorted(targets[where])}


def _bytes(admin: Admin, moving: Mapping[TopicPartition, Any]) -> dict[TopicPartition, tuple[int, int]]:
    """What the new replicas of each partition have, and what they will have."""
    sizes = {(f.broker, where): size for f in admin.log_dirs() for where, size in f.sizes.items()}
    moved_bytes = {}
    for where, move in moving.items():
        largest = max((sizes.get((broker_id, where), 0) for broker_id in move.replicas), default=0)
        moved_bytes[where] = (
            sum(sizes.get((broker_id, where), 0) for broker_id in move.adding),
            largest * len(move.adding),
        )
    return moved_bytes


def _elect(admin: Admin, arguments: argparse.Namespace) -> int:
    wanted = list(_chosen(admin, arguments.topics)) if arguments.topics else None
    failed = 0
    for where, error in sorted(admin.elect_leaders(wanted, unclean=arguments.unclean).items()):
        outcome = "elected" if error is None else str(error)
        needless = error is not None and type(error).__name__ == "ElectionNotNeeded"
        failed += error is not None and not needless
        print(f"{where.topic}-{where.partition}: {outcome}")
    return 1 if failed else 0


def _chosen(admin: Admin, texts: Sequence[str]) -> dict[TopicPartition, Sequence[int]]:
    """Partitions by name, with their replicas."""
    current: dict[TopicPartition, Sequence[int]] = {}
    for text in texts:
        name, numbers = partitions(text)
        known = admin.describe_topics([name])[name].partitions
        for index in known if numbers is None else numbers:
            if index not in known:
                raise UsageError(f"{name} has no partition {index}; it has {len(known)}, from 0 on")
            current[TopicPartition(name, index)] = known[index].replicas
    return current


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "nobody"
