"""`ottla backup TARGET --data DIR`: a copy of a broker's folders as of one moment."""

import argparse
import sys
from pathlib import Path

from ottla.backup.taking import take
from ottla.cli.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", type=Path, metavar="TARGET", help="a folder that does not exist yet")
    parser.add_argument(
        "--data",
        required=True,
        metavar="DIR,...",
        help="the broker's log folders; of a running broker the first one is enough",
    )


def run(arguments: argparse.Namespace) -> int:
    progress = Progress("copying", "B")
    try:
        manifest = take([each.strip() for each in arguments.data.split(",")], arguments.target, progress.add)
    finally:
        progress.done()
    files = sum(map(len, manifest.folders))
    state = "running" if manifest.running else "stopped"
    print(f"{arguments.target}: {files} files, {manifest.size_bytes >> 20} MiB, of a {state} broker")
    if manifest.clustered:
        print(
            "This is one broker of a cluster: backups of several brokers are not of the same moment, and the metadata "
            "is in ZooKeeper. See docs/deployment.md",
            file=sys.stderr,
        )
    return 0
