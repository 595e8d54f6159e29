"""`ottla aliases DIR`: small scripts named as Apache Kafka's, so that a course's commands run as printed."""

import argparse
import shlex
import sys
from pathlib import Path

TOOLS = (
    "connect-distributed",
    "connect-standalone",
    "kafka-acls",
    "kafka-client-metrics",
    "kafka-delegation-tokens",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-console-share-consumer",
    "kafka-consumer-groups",
    "kafka-consumer-perf-test",
    "kafka-e2e-latency",
    "kafka-get-offsets",
    "kafka-producer-perf-test",
    "kafka-share-groups",
    "kafka-streams-groups",
    "kafka-topics",
)
# Each course's habit: with .sh from the download, without from a package or an image.
ENDINGS = (".sh", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="created if need be")
    parser.add_argument("--force", action="store_true", help="write over files that are not ours")


def run(arguments: argparse.Namespace) -> int:
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for tool in TOOLS:
        for ending in ENDINGS:
            _write(arguments.folder / f"{tool}{ending}", tool, arguments.force)
    print(
        f'{len(TOOLS)} commands in {arguments.folder}; put it in front: export PATH="{arguments.folder}:$PATH"'
    )
    return 0


def _write(path: Path, tool: str, force: bool) -> None:
    text = f'#!/bin/sh\n# {_MARK}\nexec {shlex.quote(sys.executable)} -m ottla.cli.main {tool} "$@"\n'
    if path.exists() and not force and _MARK not in path.read_text(errors="replace"):
        raise FileExistsError(f"{path} is there already and not ours; use --force to write over it")
    path.write_text(text)
    path.chmod(0o755)


_MARK = "Written by ottla aliases: this command without Java."
