"""Options that every client command has: where the cluster is, client settings, tables or JSON."""

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ottla.client.settings import read_properties
from ottla.errors import OttlaError

BOOTSTRAP = "127.0.0.1:9092"
TIMEOUT_S = 15
PRODUCE_TIMEOUT_S = 60  # longer than a cluster takes to elect new leaders


class UsageError(OttlaError):
    """The command line asks for something that cannot be."""


def add_client_options(parser: argparse.ArgumentParser, timeout_s: int = TIMEOUT_S) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "-b",
        "--bootstrap",
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=os.environ.get("OTTLA_BOOTSTRAP"),
        help=f"broker to ask first (default: $OTTLA_BOOTSTRAP, else {BOOTSTRAP})",
    )
    add_timeout_option(group, timeout_s)
    group.add_argument("--command-config", metavar="FILE", help="client settings, name=value lines")
    group.add_argument(
        "-X", action="append", default=[], metavar="NAME=VALUE", help="a client setting; wins over FILE"
    )


def add_timeout_option(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup, timeout_s: float = TIMEOUT_S
) -> None:
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        default=timeout_s,
        help=f"give up after (default: {timeout_s})",
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON for programs instead of a table")


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    timeout_s: int = TIMEOUT_S,
) -> argparse.ArgumentParser:
    """A sub-command with the options that all have."""
    parser = commands.add_parser(name, help=text, description=text)
    add_client_options(parser, timeout_s)
    add_json_option(parser)
    return parser


def client_settings(arguments: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """Client settings: defaults of the command, then the file, then -X, then --bootstrap."""
    timeout_ms = max(1, round(arguments.timeout * 1000))
    settings = with_file({**more, "default.api.timeout.ms": timeout_ms}, arguments)
    settings |= pairs(arguments.X)
    if arguments.bootstrap:
        settings["bootstrap.servers"] = arguments.bootstrap
    return settings


def producer_settings(arguments: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """A producer waits for topics and for acknowledgements under settings of their own."""
    timeout_ms = max(1, round(arguments.timeout * 1000))
    return client_settings(arguments, max_block_ms=timeout_ms, delivery_timeout_ms=timeout_ms, **more)


def with_file(defaults: Mapping[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Defaults of the command, then --command-config."""
    settings = {name.replace("_", "."): value for name, value in defaults.items() if value is not None}
    if arguments.command_config:
        settings |= read_properties(Path(arguments.command_config).read_text())
    return settings


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """`name=value` texts as a mapping."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r} is not of the form name=value")
        found[name.strip()] = value
    return found


def partitions(text: str) -> tuple[str, list[int] | None]:
    """`topic` or `topic:0,1,2`, as Kafka's tools take it."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(each) for each in indexes.split(",")]
    except ValueError:
        raise UsageError(f"{text!r}: write topic or topic:0,1,2") from None
