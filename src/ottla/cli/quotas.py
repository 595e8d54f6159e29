"""`ottla quotas`: how many bytes a second users and clients may send and be sent."""

import argparse
import re

from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show

KEYS = {"produce": "producer_byte_rate", "consume": "consumer_byte_rate"}
UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3}
DEFAULT = "default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command(commands, "list", "show quotas")
    for name, text in (("set", "set or change a quota"), ("remove", "remove a quota")):
        command = add_command(commands, name, text)
        command.add_argument("--user", help=f"'{DEFAULT}' is every user without a quota of its own")
        command.add_argument("--client-id", help=f"'{DEFAULT}' is every client without one")
        for each in KEYS:
            if name == "set":
                command.add_argument(f"--{each}", metavar="BYTES", help="a second: 500k, 10M, 1G")
            else:
                command.add_argument(f"--{each}", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    from ottla.client import Admin

    with Admin(client_settings(arguments)) as admin:
        if arguments.command != "list":
            chosen = {KEYS[name]: getattr(arguments, name) for name in KEYS if getattr(arguments, name)}
            if arguments.command == "remove" and not chosen:
                chosen = dict.fromkeys(KEYS.values())
            admin.alter_quotas(
                _entity(arguments),
                {key: bytes_of(text) if arguments.command == "set" else None for key, text in chosen.items()},
            )
        rows = [
            (
                _named(quota.entity, "user"),
                _named(quota.entity, "client-id"),
                key,
                f"{value:.0f}" if value == int(value) else str(value),
            )
            for quota in admin.describe_quotas()
            for key, value in quota.values.items()
        ]
        show(arguments, ("USER", "CLIENT-ID", "QUOTA", "BYTES-A-SECOND"), sorted(rows, key=str))
    return 0


def bytes_of(text: str) -> float:
    number = re.fullmatch(r"([\d.]+)([kmg]?)b?(?:/s)?", text.strip().lower())
    if number is None:
        raise UsageError(f"{text!r} is not a number of bytes: write 500k, 10M or 1G")
    return float(number[1]) * UNITS[number[2]]


def _entity(arguments: argparse.Namespace) -> dict[str, str | None]:
    entity = {"user": arguments.user, "client-id": arguments.client_id}
    named = {kind: None if name == DEFAULT else name for kind, name in entity.items() if name is not None}
    if not named:
        raise UsageError("whose? name --user, --client-id or both")
    return named


def _named(entity: dict[str, str | None], kind: str) -> str | None:
    if kind not in entity:
        return None
    return entity[kind] or DEFAULT
