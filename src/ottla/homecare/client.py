"""Where the brokers are and how to log in there: the options that all commands have."""

import argparse
from pathlib import Path

from ottla.client.settings import read_properties

Client = dict[str, str]  # the settings that every client of home care starts from


def add_client(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="default: 127.0.0.1:9092")
    parser.add_argument(
        "--command-config", metavar="FILE", help="client settings, name=value lines (TLS, a login)"
    )


def client_of(arguments: argparse.Namespace) -> Client:
    path = arguments.command_config
    settings = read_properties(Path(path).read_text()) if path else {}
    return settings | {"bootstrap.servers": arguments.bootstrap}
