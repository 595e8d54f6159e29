"""What the `kafka-*` commands share: flags as Apache Kafka's tools take them, and their way to fail."""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.cli.options import UsageError, pairs


def add_bootstrap(parser: argparse.ArgumentParser, *, config: str = "--command-config") -> None:
    parser.add_argument("--bootstrap-server", "--broker-list", metavar="HOST:PORT", required=True)
    parser.add_argument(
        config, dest="command_config", metavar="FILE", help="client settings, name=value lines"
    )
    parser.add_argument("--version", action="version", version="4.3.1 (Ottla)")


def settings(arguments: argparse.Namespace, **defaults: Any) -> dict[str, Any]:
    """Defaults of the command, then the file, then the bootstrap address."""
    from ottla.client.settings import read_properties

    found = {name.replace("_", "."): value for name, value in defaults.items() if value is not None}
    if arguments.command_config:
        found |= read_properties(Path(arguments.command_config).read_text())
    found["bootstrap.servers"] = arguments.bootstrap_server
    return found


def list_pairs(text: str | None) -> dict[str, str]:
    """`a=1,b=[2,3]`: brackets keep a list together."""
    found: dict[str, str] = {}
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text or ""):
        found |= {name: value.strip("[]") for name, value in pairs([part]).items()}
    return found


def one_of(arguments: argparse.Namespace, names: Iterable[str]) -> str:
    """The one action that was asked for."""
    chosen = [name for name in names if getattr(arguments, name.replace("-", "_"), False)]
    if len(chosen) != 1:
        flags = ", ".join(f"--{name}" for name in names)
        raise UsageError(f"Command must include exactly one action: {flags}")
    return chosen[0]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
