"""`ottla restore BACKUP --data DIR`: folders that a broker starts from; `--check` looks at the backup alone."""

import argparse
import sys
from pathlib import Path

from ottla.backup.manifest import read_manifest
from ottla.backup.restoring import problems, restore
from ottla.cli.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backup", type=Path, metavar="BACKUP", help="a folder written by `ottla backup`")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--data", metavar="DIR,...", help="log folders to make; they must be new or empty")
    action.add_argument("--check", action="store_true", help="read all of the backup and compare checksums")


def run(arguments: argparse.Namespace) -> int:
    if arguments.check:
        damages = list(problems(arguments.backup))
        for problem in damages:
            print(problem, file=sys.stderr)
        print(f"{arguments.backup}: {len(damages) or 'no'} problems")
        return 1 if damages else 0
    folders = [folder.strip() for folder in arguments.data.split(",")]
    progress, total = Progress("restoring", "B"), read_manifest(arguments.backup).size_bytes
    try:
        manifest = restore(arguments.backup, folders, lambda count: progress.add(count, total))
    finally:
        progress.done()
    print(f"{arguments.data}: as of {manifest.taken_at}, {manifest.size_bytes >> 20} MiB")
    print(f"check it with: ottla doctor --deep --data {folders[0]}")
    return 0
