"""`ottla backup TARGET --data DIR`: a copy of a broker's folders as of one moment."""

import argparse
import sys
from pathlib import Path

from ottla.backup.taking import take
from ottla.broker.assembly import METADATA_FOLDER
from ottla.cli.options import UsageError
from ottla.cli.progress import Progress
from ottla.errors import OttlaError
from ottla.migration.our_metadata import read_journal
from ottla.server.disk import OsDisk
from ottla.server.lock import is_locked
from ottla.storage.checkpoints import read_meta, uuid_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", type=Path, metavar="TARGET", help="a folder that does not exist yet")
    parser.add_argument(
        "--data",
        required=True,
        metavar="DIR,...",
        help="the broker's log folders; of a running broker the first one is enough",
    )


def run(arguments: argparse.Namespace) -> int:
    folders = [folder.strip() for folder in arguments.data.split(",")]
    if not is_locked(folders[0]):
        _check_all_named(folders)
    progress = Progress("copying", "B")
    try:
        manifest = take(folders, arguments.target, progress.add)
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


def _check_all_named(folders: list[str]) -> None:
    """Of a stopped broker. Partitions of a folder that was left out would start empty after a restore."""
    disks = [OsDisk(folder) for folder in folders]
    home = next((disk for disk in disks if disk.exists(METADATA_FOLDER)), None)
    metas = [meta for meta in map(read_meta, disks) if meta is not None]
    if home is None or not metas:
        return  # a broker of a cluster, or none at all
    try:
        broker = read_journal(home).brokers.get(metas[0].node_id)
    except (OttlaError, ValueError):
        return  # damaged metadata are worth a copy too
    lacking = set(broker.directories if broker is not None else ()) - {meta.directory_id for meta in metas}
    if lacking:
        raise UsageError(
            f"the broker of {folders[0]} has another log folder, with directory.id "
            f"{', '.join(sorted(map(uuid_text, lacking)))}: name all of them with --data"
        )
