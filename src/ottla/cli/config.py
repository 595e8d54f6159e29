"""`ottla config`: settings of topics, brokers and groups, with where each value comes from."""

import argparse

from ottla.cli.options import UsageError, add_command, client_settings, pairs
from ottla.cli.tables import show
from ottla.client import Admin

KINDS = ("topic", "broker", "group", "client-metrics", "broker-logger")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    describe = add_command(commands, "describe", "show settings (those that differ from the default)")
    describe.add_argument("kind", choices=KINDS)
    describe.add_argument("name", help="topic, broker id or group; '' for the default of all brokers")
    describe.add_argument("setting", nargs="*", help="only these")
    describe.add_argument("-a", "--all", action="store_true", help="defaults too")
    set_ = add_command(commands, "set", "change settings")
    set_.add_argument("kind", choices=KINDS)
    set_.add_argument("name")
    set_.add_argument("setting", nargs="+", metavar="NAME=VALUE")
    unset = add_command(commands, "unset", "back to the default")
    unset.add_argument("kind", choices=KINDS)
    unset.add_argument("name")
    unset.add_argument("setting", nargs="+")


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "set":
            admin.alter_configs(arguments.kind, arguments.name, set_=pairs(arguments.setting))
        elif arguments.command == "unset":
            admin.alter_configs(arguments.kind, arguments.name, delete=arguments.setting)
        else:
            configs = admin.describe_configs(arguments.kind, arguments.name, keys=arguments.setting or None)
            missing = [setting for setting in arguments.setting if setting not in configs]
            if missing:
                raise UsageError(f"{arguments.kind} {arguments.name} has no setting {missing[0]}")
            rows = [
                (
                    config.name,
                    "******" if config.sensitive else config.value,
                    config.source,
                    "yes" if config.read_only else "no",
                )
                for _, config in sorted(configs.items())
                if arguments.all or arguments.setting or not config.is_default
            ]
            show(arguments, ("NAME", "VALUE", "SOURCE", "READ-ONLY"), rows)
            return 0
        changed = [(arguments.kind, arguments.name, setting) for setting in arguments.setting]
        show(arguments, ("KIND", "NAME", arguments.command.upper()), changed)
    return 0
