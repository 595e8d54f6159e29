"""`ottla cluster`: start one to try out, describe it, move replicas; folders, features, API versions."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli import cluster_moves, cluster_start
from ottla.cli.options import add_command, client_settings
from ottla.cli.tables import show, show_json, table
from ottla.client import Admin

if TYPE_CHECKING:
    from ottla.client.admin.brokers import LogDir


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    cluster_start.add_arguments(commands)
    cluster_moves.add_arguments(commands)
    add_command(commands, "info", "cluster id, controller, brokers, features")
    folders = add_command(commands, "log-dirs", "folders of every broker and what they hold")
    folders.add_argument("-t", "--topic", action="append", help="sizes of these topics' partitions")
    versions = add_command(commands, "api-versions", "the APIs that a broker serves")
    versions.add_argument("--broker", type=int, help="default: any")


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "start":
        return cluster_start.run(arguments)
    if arguments.command in ("describe", "move", "drain", "balance", "elect"):
        return cluster_moves.run(arguments)
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "api-versions":
            served = admin.api_versions(arguments.broker)
            show(
                arguments, ("API", "MIN", "MAX"), [(name, low, high) for name, (low, high) in served.items()]
            )
        elif arguments.command == "log-dirs":
            _log_dirs(admin.log_dirs(), arguments)
        else:
            info = admin.describe_cluster()
            rows = [
                (b.id, b.host, b.port, b.rack, "yes" if b.id == info.controller else "no")
                for b in info.brokers
            ]
            columns = ("BROKER", "HOST", "PORT", "RACK", "CONTROLLER")
            if arguments.json:
                names = [column.lower() for column in columns]
                brokers = [dict(zip(names, row, strict=True)) for row in rows]
                show_json(
                    {
                        "id": info.id,
                        "controller": info.controller,
                        "brokers": brokers,
                        "features": info.features,
                    }
                )
                return 0
            print(f"CLUSTER  {info.id}")
            print(table(columns, rows))
            if info.features:
                print("\n" + table(("FEATURE", "VERSION"), sorted(info.features.items())))
    return 0


def _log_dirs(folders: "Sequence[LogDir]", arguments: argparse.Namespace) -> None:
    if arguments.topic:
        partitions = [
            (folder.broker, folder.path, tp.topic, tp.partition, size)
            for folder in folders
            for tp, size in sorted(folder.sizes.items())
            if tp.topic in arguments.topic
        ]
        show(arguments, ("BROKER", "FOLDER", "TOPIC", "PARTITION", "BYTES"), partitions)
        return
    rows = [
        (f.broker, f.path, len(f.sizes), sum(f.sizes.values()), f.total_bytes, f.usable_bytes, f.error)
        for f in folders
    ]
    show(arguments, ("BROKER", "FOLDER", "PARTITIONS", "BYTES", "DISK-TOTAL", "DISK-FREE", "ERROR"), rows)
