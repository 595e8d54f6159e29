"""`ottla quotas`: how much users, clients and addresses may use in a second."""

import argparse
import re

from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin

KEYS = {
    "produce": "producer_byte_rate",
    "consume": "consumer_byte_rate",
    "request": "request_percentage",
    "mutations": "controller_mutation_rate",
    "connections": "connection_creation_rate",
}
UNITS_OF_KEYS = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of the event loop",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s",
}
HELP = {
    "produce": ("BYTES", "sent in a second: 500k, 10M, 1G"),
    "consume": ("BYTES", "received in a second"),
    "request": ("PERCENT", "of the broker's time"),
    "mutations": ("COUNT", "partitions created or deleted in a second"),
    "connections": ("COUNT", "new connections in a second; with --ip"),
}
WHO = {"user": "user", "client_id": "client-id", "ip": "ip"}
OF_ADDRESSES = ("connections",)
UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
DEFAULT = "default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command(commands, "list", "show quotas")
    for name, text in (("set", "set or change a quota"), ("remove", "remove a quota")):
        command = add_command(commands, name, text)
        command.add_argument("--user", help=f"'{DEFAULT}' is every user without a quota of its own")
        command.add_argument("--client-id", help=f"'{DEFAULT}' is every client without one")
        command.add_argument("--ip", metavar="ADDRESS", help=f"'{DEFAULT}' is every address without one")
        for quota, (unit, meaning) in HELP.items():
            if name == "set":
                command.add_argument(f"--{quota}", metavar=unit, help=meaning)
            else:
                command.add_argument(f"--{quota}", action="store_true", help="all of them if none is named")


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        if arguments.command != "list":
            admin.alter_quotas(_entity(arguments), _values(arguments))
        rows = [
            (
                *(_named(quota.entity, kind) for kind in WHO.values()),
                key,
                f"{value:.0f}" if value == int(value) else str(value),
                UNITS_OF_KEYS.get(key, ""),
            )
            for quota in admin.describe_quotas()
            for key, value in quota.values.items()
        ]
        show(arguments, ("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE", "UNIT"), sorted(rows, key=str))
    return 0


def _values(arguments: argparse.Namespace) -> dict[str, float | None]:
    chosen = {KEYS[name]: getattr(arguments, name) for name in KEYS if getattr(arguments, name)}
    if arguments.command == "set":
        if not chosen:
            raise UsageError(f"how much? name one of {', '.join(f'--{name}' for name in KEYS)}")
        return {key: number_of(text) for key, text in chosen.items()}
    of_addresses = arguments.ip is not None
    every = [key for name, key in KEYS.items() if (name in OF_ADDRESSES) == of_addresses]
    return dict.fromkeys(chosen or every)


def number_of(text: str) -> float:
    number = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)b?(?:/s)?%?", text.strip().lower())
    if number is None:
        raise UsageError(f"{text!r} is not a number: write 500k, 10M or 1G, or 12.5")
    return float(number[1]) * UNITS[number[2]]


def _entity(arguments: argparse.Namespace) -> dict[str, str | None]:
    names = {kind: getattr(arguments, option) for option, kind in WHO.items()}
    named = {kind: None if name == DEFAULT else name for kind, name in names.items() if name is not None}
    if not named:
        raise UsageError("whose? name --user, --client-id or both, or --ip")
    if "ip" in named and len(named) > 1:
        raise UsageError("--ip is an entity of its own: leave out --user and --client-id")
    return named


def _named(entity: dict[str, str | None], kind: str) -> str | None:
    if kind not in entity:
        return None
    return entity[kind] or DEFAULT
