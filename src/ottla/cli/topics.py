"""`ottla topics`: create, list, describe, alter, delete, add-partitions, truncate."""

import argparse
import sys
import time

from ottla.cli.asking import topics as asking
from ottla.cli.options import UsageError, add_command, client_settings, pairs
from ottla.cli.progress import Progress
from ottla.cli.tables import show, show_json, table
from ottla.cli.times import time_ms
from ottla.client import Admin
from ottla.client.admin.topics import NewTopic

MANY_PARTITIONS = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    create = add_command(commands, "create", "create topics")
    create.add_argument("topic", nargs="+")
    create.add_argument(
        "-p", "--partitions", type=int, default=-1, help="default: the broker's num.partitions"
    )
    create.add_argument("-r", "--replication-factor", type=int, default=-1, help="default: the broker's")
    create.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE")
    create.add_argument("--if-not-exists", action="store_true", help="no error when it is there")
    create.add_argument("--validate-only", action="store_true", help="check, do not create")
    listing = add_command(commands, "list", "list topics")
    listing.add_argument("--internal", action="store_true", help="internal topics too")
    describe = add_command(commands, "describe", "partitions, replicas, offsets and settings")
    describe.add_argument("topic", nargs="+")
    alter = add_command(commands, "alter", "change settings of topics")
    alter.add_argument("topic", nargs="+")
    alter.add_argument("-s", "--set", action="append", default=[], metavar="NAME=VALUE")
    alter.add_argument(
        "-d", "--delete", action="append", default=[], metavar="NAME", help="back to the default"
    )
    delete = add_command(commands, "delete", "delete topics with all their records")
    delete.add_argument("topic", nargs="+")
    delete.add_argument("--if-exists", action="store_true", help="no error when it is not there")
    grow = add_command(commands, "add-partitions", "give a topic more partitions (keys will move)")
    grow.add_argument("topic")
    how_many = grow.add_mutually_exclusive_group(required=True)
    how_many.add_argument("-n", "--num", type=int, help="how many to add")
    how_many.add_argument("--to", type=int, help="how many there shall be")
    truncate = add_command(commands, "truncate", "delete records before an offset or a time")
    truncate.add_argument("topic")
    truncate.add_argument("-p", "--partition", type=int, action="append", help="default: all")
    truncate.add_argument("--before", required=True, metavar="N|end|@TIME", help="first offset to keep")


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        _ACTIONS[arguments.command](admin, arguments)
    return 0


def _create(admin: Admin, arguments: argparse.Namespace) -> None:
    configs = pairs(arguments.config)
    rows: list[tuple[object, ...]] = []
    for name in arguments.topic:
        new = NewTopic(name, arguments.partitions, arguments.replication_factor, configs)
        created = asking.create(
            admin, new, may_exist=arguments.if_not_exists, validate_only=arguments.validate_only
        )
        if created is None:
            rows.append((name, None, None, "EXISTS"))
            continue
        state = "VALID" if arguments.validate_only else "CREATED"
        rows.append((name, created.partitions, created.replication_factor, state))
        advice = partition_advice(created.partitions)
        if advice:
            print(f"{name}: {advice}", file=sys.stderr)
    show(arguments, ("TOPIC", "PARTITIONS", "REPLICAS", "STATUS"), rows)


def partition_advice(partitions: int) -> str | None:
    """What courses say of over-partitioning, where it is worth saying."""
    if partitions <= MANY_PARTITIONS:
        return None
    return (
        f"{partitions} partitions: each costs files, memory and time when a leader changes, and a group uses at "
        "most as many consumers. Partitions can be added later, though keys then go elsewhere; they "
        "cannot be taken away"
    )


def _list(admin: Admin, arguments: argparse.Namespace) -> None:
    topics = admin.list_topics(internal=arguments.internal)
    rows = [
        (
            topic.name,
            len(topic.partitions),
            max((len(p.replicas) for p in topic.partitions.values()), default=0),
        )
        for topic in topics.values()
    ]
    show(arguments, ("TOPIC", "PARTITIONS", "REPLICAS"), rows)


def _describe(admin: Admin, arguments: argparse.Namespace) -> None:
    described = []
    for name, topic in admin.describe_topics(arguments.topic).items():
        changed = asking.settings_from(admin, name, ("DYNAMIC_TOPIC_CONFIG",))
        all_ = asking.partitions_of(name, topic.partitions)
        starts, ends = (admin.list_offsets(dict.fromkeys(all_, which)) for which in (-2, -1))
        rows = [
            (p.index, p.leader, p.leader_epoch, p.replicas, p.isr, starts[tp].offset, ends[tp].offset)
            for tp, p in zip(all_, (topic.partitions[tp.partition] for tp in all_), strict=True)
        ]
        described.append((topic, changed, rows))
    columns = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "LOG-START-OFFSET", "LOG-END-OFFSET")
    if arguments.json:
        keys = [column.lower().replace("-", "_") for column in columns]
        show_json(
            [
                {
                    "topic": topic.name,
                    "id": topic.id.hex(),
                    "internal": topic.internal,
                    "configs": changed,
                    "partitions": [dict(zip(keys, row, strict=True)) for row in rows],
                }
                for topic, changed, rows in described
            ]
        )
        return
    for i, (topic, changed, rows) in enumerate(described):
        print(("\n" if i else "") + f"TOPIC  {topic.name}   ID  {topic.id.hex()}   PARTITIONS  {len(rows)}")
        for name, value in sorted(changed.items()):
            print(f"CONFIG {name}={value}")
        print(table(columns, rows))


def _alter(admin: Admin, arguments: argparse.Namespace) -> None:
    changes = pairs(arguments.set)
    if not changes and not arguments.delete:
        raise UsageError("nothing to change; give --set name=value or --delete name")
    for name in arguments.topic:
        admin.alter_configs("topic", name, set_=changes, delete=arguments.delete)
    show(arguments, ("TOPIC", "STATUS"), [(name, "ALTERED") for name in arguments.topic])


def _delete(admin: Admin, arguments: argparse.Namespace) -> None:
    rows = []
    progress = Progress("deleting topics")
    for i, name in enumerate(arguments.topic):
        was_there = asking.delete(admin, name, may_be_missing=arguments.if_exists)
        rows.append((name, "DELETED" if was_there else "NOT THERE"))
        progress.at(i + 1, len(arguments.topic))
    progress.done()
    show(arguments, ("TOPIC", "STATUS"), rows)


def _add_partitions(admin: Admin, arguments: argparse.Namespace) -> None:
    now = asking.partition_count(admin, arguments.topic)
    count = arguments.to if arguments.to is not None else now + arguments.num
    print(
        f"warning: keys of {arguments.topic} go to {count} instead of {now} partitions from now on; "
        "records of one key before and after lie in different partitions, out of order",
        file=sys.stderr,
    )
    admin.add_partitions(arguments.topic, count)
    show(arguments, ("TOPIC", "PARTITIONS", "STATUS"), [(arguments.topic, count, "GROWN")])


def _truncate(admin: Admin, arguments: argparse.Namespace) -> None:
    there = admin.describe_topics([arguments.topic])[arguments.topic].partitions
    chosen = asking.partitions_of(
        arguments.topic, arguments.partition if arguments.partition is not None else there
    )
    before = arguments.before
    if before in ("end", "latest"):
        cut = dict.fromkeys(chosen, -1)
    elif before.startswith("@"):
        stamp = time_ms(before[1:], int(time.time() * 1000))
        # Nothing as young as that: -1, which stands for the end here too.
        cut = {tp: at.offset for tp, at in admin.list_offsets(dict.fromkeys(chosen, stamp)).items()}
    elif before.isdecimal():
        cut = dict.fromkeys(chosen, int(before))
    else:
        raise UsageError(f"--before {before}: give an offset, end, or @TIME")
    done = admin.delete_records(cut)
    rows = [(tp.topic, tp.partition, done[tp]) for tp in sorted(done)]
    show(arguments, ("TOPIC", "PARTITION", "LOG-START-OFFSET"), rows)


_ACTIONS = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
    "add-partitions": _add_partitions,
    "truncate": _truncate,
}
