"""Taking a backup: of a running broker through the socket in its folder, of a stopped one under the folder's lock."""

import json
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ottla.backup.copying import Progress, copy_file, sync_folders, sync_names
from ottla.backup.manifest import UNFINISHED, BadBackup, Kept, Manifest, folder_name, write_manifest
from ottla.errors import OttlaError
from ottla.server.control import short_path
from ottla.server.lock import FolderLock, is_locked
from ottla.server.staging import files_of
from ottla.storage.checkpoints import META_PROPERTIES

ANSWER_S = 60


@dataclass(frozen=True, slots=True)
class Held:
    """Files of one log folder that do not change while they are copied, up to these sizes."""

    path: Path
    sizes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Moment:
    folders: list[Held]
    clustered: bool
    running: bool


def take(folders: Sequence[str], target: Path, progress: Progress = lambda _: None) -> Manifest:
    """All of it or nothing: it has its name once it is whole and durable."""
    if target.exists():
        raise BadBackup(f"{target} is there already: name a folder that does not exist yet")
    unfinished = target.with_name(target.name + UNFINISHED)
    if unfinished.exists():
        shutil.rmtree(unfinished)  # of a backup that was interrupted
    running = is_locked(folders[0])
    with _held_by_broker(folders[0]) if running else _held_by_lock(folders) as moment:
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir(0o700)  # records, and what logins are checked with
        copied = [_copy(held, unfinished / folder_name(i), progress) for i, held in enumerate(moment.folders)]
    manifest = Manifest(
        datetime.now(UTC).isoformat(timespec="seconds"),
        version("ottla"),
        moment.clustered,
        moment.running,
        copied,
    )
    write_manifest(unfinished, manifest)
    sync_folders(unfinished)
    unfinished.rename(target)
    sync_names(target.absolute().parent)
    return manifest


def _copy(held: Held, target: Path, progress: Progress) -> dict[str, Kept]:
    target.mkdir()
    files = {}
    for name, size in held.sizes.items():
        (target / name).parent.mkdir(exist_ok=True)
        files[name] = copy_file(held.path / name, target / name, size, progress)
    return files


@contextmanager
def _held_by_lock(folders: Sequence[str]) -> Iterator[Moment]:
    with ExitStack() as locks:
        for folder in folders:
            if not (Path(folder) / META_PROPERTIES).exists():
                raise BadBackup(f"{folder} is no log folder of a broker: it has no {META_PROPERTIES}")
            locks.callback(FolderLock(folder).release)
        held = [
            Held(Path(folder), {name: (Path(folder) / name).stat().st_size for name in files_of(folder)})
            for folder in folders
        ]
        clustered = not any("metadata/metadata.log" in folder_held.sizes for folder_held in held)
        yield Moment(held, clustered, running=False)


@contextmanager
def _held_by_broker(folder: str) -> Iterator[Moment]:
    """The broker's folders, all of them, at one moment."""
    with _connection(folder) as ask:
        answer = ask("hold")
        held = [Held(Path(folder["path"]), folder["sizes"]) for folder in answer["folders"]]
        yield Moment(held, answer["clustered"], running=True)
        truncated = ask("release")["truncated"]
        if truncated:
            raise BadBackup(
                f"{', '.join(truncated[:3])} lost records to another leader while the backup was taken: take it again"
            )


@contextmanager
def _connection(folder: str) -> Iterator[Any]:
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(ANSWER_S)
        try:
            with short_path(str(Path(folder).absolute())) as path:
                control.connect(path)
        except OSError as error:
            raise OttlaError(
                f"a broker runs on {folder} and does not answer there ({error}). Is it Ottla, and may you write to "
                "the folder? A stopped broker can be backed up too"
            ) from error
        replies = control.makefile("rb")

        def ask(command: str) -> Any:
            try:
                control.sendall(json.dumps({"command": command}).encode() + b"\n")
                line = replies.readline()
            except OSError:
                line = b""
            if not line:
                raise OttlaError(f"the broker of {folder} has stopped; take the backup again")
            answer = json.loads(line)
            if "error" in answer:
                raise OttlaError(f"the broker of {folder} refuses: {answer['error']}")
            return answer

        with replies:
            yield ask
