"""`ottla users`: the users that log in with SCRAM."""

import argparse
import getpass
import sys

from ottla.cli.options import UsageError, add_command, client_settings
from ottla.cli.tables import show
from ottla.client import Admin

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_command(commands, "list", "show users and their mechanisms")
    for name, text in (("add", "add a user, or change its password"), ("remove", "remove a user")):
        command = add_command(commands, name, text)
        command.add_argument("name")
        command.add_argument(
            "--mechanism", action="append", choices=MECHANISMS, help="default: all that apply"
        )
        if name == "add":
            command.add_argument(
                "--password-file",
                metavar="FILE",
                help="its first line; - is standard input; else it is asked for",
            )
            command.add_argument("--iterations", type=int, default=4096)


def run(arguments: argparse.Namespace) -> int:
    with Admin(client_settings(arguments)) as admin:
        if arguments.command == "add":
            password = _password(arguments)
            mechanisms = arguments.mechanism or MECHANISMS
            admin.set_user(arguments.name, password, mechanisms, arguments.iterations)
        elif arguments.command == "remove":
            (user,) = admin.describe_users([arguments.name])
            admin.remove_user(arguments.name, arguments.mechanism or user.mechanisms)
        names = [] if arguments.command != "add" else [arguments.name]
        rows = [
            (user.name, mechanism, iterations)
            for user in admin.describe_users(names)
            for mechanism, iterations in sorted(user.mechanisms.items())
        ]
        show(arguments, ("USER", "MECHANISM", "ITERATIONS"), rows)
    return 0


def _password(arguments: argparse.Namespace) -> str:
    """Never from the command line, where everybody on the machine sees it."""
    if arguments.password_file == "-":
        password = sys.stdin.readline()
    elif arguments.password_file:
        with open(arguments.password_file) as file:  # noqa: PTH123
            password = file.readline()
    elif sys.stdin.isatty():
        password = getpass.getpass(f"Password of {arguments.name}: ")
        if password != getpass.getpass("Once more: "):
            raise UsageError("the two are not the same")
    else:
        raise UsageError("there is no terminal to ask for a password; use --password-file FILE or -")
    password = password.rstrip("\r\n")
    if not password:
        raise UsageError("a password is not empty")
    return password
