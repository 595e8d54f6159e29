"""Options that every client command has: where the cluster is, client settings, tables or JSON."""

import argparse
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ottla.client.settings import read_properties
from ottla.errors import OttlaError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # where commands are added
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
    add_profile_option(group)
    group.add_argument(
        "--command-config", metavar="FILE", help="client settings, name=value lines; win over a profile"
    )
    group.add_argument(
        "-X", action="append", default=[], metavar="NAME=VALUE", help="a client setting; wins over FILE"
    )


def add_profile_option(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--profile",
        metavar="NAME",
        default=os.environ.get("OTTLA_PROFILE"),
        help="client settings in NAME.properties of ~/.config/ottla (default: $OTTLA_PROFILE)",
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
    """Client settings: defaults of the command, then the profile, then the file, then -X, then --bootstrap."""
    timeout_ms = max(1, round(arguments.timeout * 1000))
    defaults = {**more, "default.api.timeout.ms": timeout_ms, **profile_settings(arguments.profile)}
    settings = with_file(defaults, arguments)
    settings |= pairs(arguments.X)
    if arguments.bootstrap:
        settings["bootstrap.servers"] = arguments.bootstrap
    return settings


def producer_settings(arguments: argparse.Namespace, **more: Any) -> dict[str, Any]:
    """A producer waits for topics and for acknowledgements under settings of their own."""
    timeout_ms = max(1, round(arguments.timeout * 1000))
    return client_settings(arguments, max_block_ms=timeout_ms, delivery_timeout_ms=timeout_ms, **more)


def profile_settings(name: str | None) -> dict[str, str]:
    """The settings of a cluster under a name of one's own, for commands that shall not repeat them."""
    if not name:
        return {}
    home = os.environ.get("XDG_CONFIG_HOME")
    folder = (Path(home) if home else Path.home() / ".config") / "ottla"
    path = folder / f"{name}.properties"
    if path.parent != folder or not path.is_file():
        known = ", ".join(sorted(each.stem for each in folder.glob("*.properties"))) or "none"
        raise UsageError(f"there is no profile {name!r}: write {path}; there are {known}")
    return read_properties(path.read_text())


def with_file(defaults: Mapping[str, Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """Defaults of the command, then --command-config."""
    settings = {name.replace("_", "."): value for name, value in defaults.items() if value is not None}
    if arguments.command_config:
        settings |= read_properties(Path(arguments.command_config).read_text())
    return settings


def pairs(texts: Iterable[str]) -> dict[str, str]:
    """`name=value` texts as a mapping."""
    properties: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"{text!r} is not of the form name=value")
        properties[name.strip()] = value
    return properties


def partitions(text: str) -> tuple[str, list[int] | None]:
    """`topic` or `topic:0,1,2`, as Kafka's tools take it."""
    topic, colon, indexes = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(index) for index in indexes.split(",")]
    except ValueError:
        raise UsageError(f"{text!r}: write topic or topic:0,1,2") from None
