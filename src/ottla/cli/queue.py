"""`ottla queue`: share groups, whose members share the records of a topic, and what they gave up."""

import argparse
import sys

from ottla.cli import dead_letters
from ottla.cli.leaving import leave_on_sigterm
from ottla.cli.options import add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command(commands, "list", "share groups and their states")
    described = add_command(commands, "describe", "how far a share group has got, and its members")
    described.add_argument("group")
    described.add_argument("--members", action="store_true", help="members instead of partitions")
    consume = add_command(
        commands, "consume", "take records as a member; they are accepted when they are printed"
    )
    consume.add_argument("topic", nargs="+")
    consume.add_argument("-g", "--group", required=True, help="the group whose members share the records")
    consume.add_argument("-n", "--count", type=int, metavar="N", help="stop after N records")
    consume.add_argument(
        "--from-beginning", action="store_true", help="where a group begins that has no position"
    )
    consume.add_argument("--wait", type=float, metavar="SECONDS", help="stop when nothing came for so long")
    text = "records that share groups, connectors and streams gave up"
    dead_letters.add_arguments(commands.add_parser("dead", help=text, description=text))


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "consume":
        return _consume(arguments)
    if arguments.command == "dead":
        return dead_letters.run(arguments)
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "list":
            groups = admin.list_groups(types=["share"])
            show(arguments, ("GROUP", "STATE"), sorted((group.id, group.state) for group in groups))
        elif arguments.members:
            _show_members(admin, arguments)
        else:
            _show_progress(admin, arguments)
    return 0


def _show_progress(admin: Admin, arguments: argparse.Namespace) -> None:
    progress = sorted(admin.share_progress(arguments.group).items())
    rows = [
        (where.topic, where.partition, *(None if n < 0 else n for n in (at.start_offset, at.lag)))
        for where, at in progress
    ]
    show(arguments, ("TOPIC", "PARTITION", "START-OFFSET", "LAG"), rows)


def _show_members(admin: Admin, arguments: argparse.Namespace) -> None:
    members = admin.describe_share_group(arguments.group).members
    rows = [
        (member.member_id, member.client_id, member.host, " ".join(map(str, member.partitions)))
        for member in members
    ]
    show(arguments, ("MEMBER-ID", "CLIENT-ID", "HOST", "PARTITIONS"), rows)


def _consume(arguments: argparse.Namespace) -> int:
    from ottla.client.share_consumer import ShareConsumer

    settings = client_settings(arguments, group_id=arguments.group)
    settings["share.acknowledgement.mode"] = "explicit"
    if arguments.from_beginning:
        with Admin(client_settings(arguments)) as admin:
            admin.alter_configs("group", arguments.group, set_={"share.auto.offset.reset": "earliest"})
    leave_on_sigterm()
    taken = 0
    with ShareConsumer(settings, holds=True) as consumer:  # what is not accepted goes back at the end
        consumer.subscribe(arguments.topic)
        try:
            while arguments.count is None or taken < arguments.count:
                records = consumer.poll(arguments.wait if arguments.wait is not None else 1.0)
                if not records and arguments.wait is not None:
                    break
                wanted = records if arguments.count is None else records[: arguments.count - taken]
                for record in wanted:
                    sys.stdout.buffer.write((record.value or b"") + b"\n")
                sys.stdout.buffer.flush()
                for record in wanted:
                    consumer.acknowledge(record)
                taken += len(wanted)
        except KeyboardInterrupt:
            pass  # the usual end
    return 0
