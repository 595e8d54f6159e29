"""What a backup holds: written last, so that a backup without it is unfinished and refused."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ottla.errors import OttlaError

MANIFEST = "backup.json"
UNFINISHED = ".unfinished"  # behind a folder's name until it is whole
FORMAT = 1


class BadBackup(OttlaError):
    """Not a backup, or not a whole one."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One file: its size and the CRC-32 of its bytes."""

    size: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Manifest:
    taken_at: str
    ottla: str
    clustered: bool
    running: bool
    folders: list[dict[str, Kept]]

    @property
    def size_bytes(self) -> int:
        return sum(file.size for folder in self.folders for file in folder.values())


def folder_name(index: int) -> str:
    """Below the backup, for one log folder."""
    return f"folder-{index}"


def write_manifest(home: Path, manifest: Manifest) -> None:
    (home / MANIFEST).write_text(json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1))


def read_manifest(home: Path) -> Manifest:
    path = home / MANIFEST
    try:
        manifest = json.loads(path.read_text())
        if manifest.pop("format") != FORMAT:
            raise BadBackup(f"{path} is of a later release; use that one to restore it")
        folders = [
            {_checked(name): Kept(int(file["size"]), int(file["crc32"])) for name, file in folder.items()}
            for folder in manifest.pop("folders")
        ]
        return Manifest(folders=folders, **manifest)
    except FileNotFoundError:
        raise BadBackup(f"{home} is no backup, or one that was not finished: {MANIFEST} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadBackup(f"{path} cannot be read: {error}") from error


def _checked(name: str) -> str:
    """Names become paths of files that are written: one that leads elsewhere is not from `ottla backup`."""
    parts = name.split("/")
    if len(parts) > 2 or any(part in ("", ".", "..") for part in parts):
        raise BadBackup(f"{name!r} in {MANIFEST} is no file of a log folder")
    return name
