"""`ottla tokens`: delegation tokens, with which a program logs in for its user without knowing the password."""

import argparse
import base64
import binascii
import re

from ottla.cli.kafka_delegation_tokens import local_time
from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin
from ottla.client.admin.tokens import Token

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = add_command(commands, "create", "a new token for the user that is logged in")
    command.add_argument("--owner", metavar="USER", help="for another user, if that is allowed")
    command.add_argument(
        "--renewer", metavar="USER", action="append", default=[], help="may renew and expire it too"
    )
    command.add_argument("--lifetime", metavar="TIME", help="at most: 30m, 12h, 7d")
    command = add_command(commands, "list", "show the tokens that the user may see")
    command.add_argument("--owner", metavar="USER", action="append")
    for name, text, help_text in (
        ("renew", "go on with a token", "for so long: 30m, 12h, 1d"),
        ("expire", "end a token", "not at once but after 30m, 12h, 1d"),
    ):
        command = add_command(commands, name, text)
        command.add_argument("secret", help="the token's secret, as `create` and `list` show it")
        command.add_argument("--period", metavar="TIME", help=help_text)


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "create":
            lifetime_ms = milliseconds(arguments.lifetime)
            _show(
                arguments,
                [admin.create_token(arguments.renewer, lifetime_ms=lifetime_ms, owner=arguments.owner)],
            )
        elif arguments.command == "list":
            _show(arguments, admin.describe_tokens(arguments.owner))
        else:
            change = admin.renew_token if arguments.command == "renew" else admin.expire_token
            expires_ms = change(secret_of(arguments.secret), milliseconds(arguments.period))
            show(arguments, ("EXPIRES",), [(local_time(expires_ms),)])
    return 0


def _show(arguments: argparse.Namespace, tokens: list[Token]) -> None:
    rows = [
        (
            token.id,
            base64.b64encode(token.secret).decode(),
            token.owner,
            ",".join(token.renewers),
            local_time(token.expires_ms),
            local_time(token.ends_ms),
        )
        for token in tokens
    ]
    show(arguments, ("ID", "SECRET", "OWNER", "RENEWERS", "EXPIRES", "ENDS"), rows)


def secret_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UsageError("the secret of a token is base64 text, as `ottla tokens list` shows it") from None


def milliseconds(text: str | None) -> int | None:
    if text is None:
        return None
    number = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text.strip().lower())
    if number is None:
        raise UsageError(f"{text!r} is not a time: write 30m, 12h or 7d")
    return int(number[1]) * UNITS_MS[number[2]]
