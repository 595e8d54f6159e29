"""Restoring a backup into folders that do not exist yet, with every byte checked on the way."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.backup.copying import Progress, checksum, copy_file, sync_folders, sync_names
from ottla.backup.manifest import UNFINISHED, BadBackup, Manifest, folder_name, read_manifest


def restore(backup: Path, folders: Sequence[str], progress: Progress = lambda _: None) -> Manifest:
    """The backup stays as it is. A folder has its name once it is whole and durable."""
    manifest = read_manifest(backup)
    if len(folders) != len(manifest.folders):
        raise BadBackup(
            f"{backup} is of a broker with {len(manifest.folders)} log folders; name as many with --data, in its order"
        )
    for folder in map(Path, folders):
        if folder.is_mount():  # a restored folder gets its name by a rename
            raise BadBackup(f"{folder} is a mount point: name a folder below it")
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadBackup(f"{folder} is not empty: name a folder that does not exist yet")
    restored = [
        _restore(backup, manifest, index, Path(folder), progress) for index, folder in enumerate(folders)
    ]
    for unfinished, folder in zip(restored, map(Path, folders), strict=True):
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
        sync_names(folder.absolute().parent)
    return manifest


def _restore(backup: Path, manifest: Manifest, index: int, folder: Path, progress: Progress) -> Path:
    source, unfinished = backup / folder_name(index), folder.with_name(folder.name + UNFINISHED)
    if unfinished.exists():
        shutil.rmtree(unfinished)
    unfinished.mkdir(parents=True)
    for name, file in manifest.folders[index].items():
        (unfinished / name).parent.mkdir(exist_ok=True)
        try:
            copied = copy_file(source / name, unfinished / name, file.size, progress)
        except FileNotFoundError:
            raise BadBackup(f"{source / name} is missing from the backup") from None
        if copied != file:
            raise BadBackup(
                f"{source / name} is damaged: its checksum is not the one of the day it was taken"
            )
    sync_folders(unfinished)
    return unfinished


def problems(backup: Path) -> Iterator[str]:
    """What is wrong with a backup; nothing is written."""
    manifest = read_manifest(backup)
    for index, folder in enumerate(manifest.folders):
        for name, file in folder.items():
            path = backup / folder_name(index) / name
            if not path.exists():
                yield f"{path} is missing"
            elif checksum(path) != file:
                yield f"{path} is damaged"
