"""A moment of the log folders, held by hard links: what a `kill -9` at this moment would have left.

All of it happens in one turn of the event loop, so that no append comes between two files. Retention and compaction may
go on afterwards: they unlink and rename, and the links keep the files. Only a truncation changes a file in place.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.broker.assembly import METADATA_FOLDER
from ottla.server.control import CONTROL, LINKS
from ottla.server.lock import LOCK
from ottla.storage.files import CLEANED, DELETED
from ottla.storage.folder_names import DELETE, FUTURE

if TYPE_CHECKING:
    from ottla.server.node import Node

_NOT_KEPT = (CLEANED, DELETED, ".tmp", DELETE, FUTURE)
_FILE_SYSTEMS_OWN = "lost+found"  # where a log folder is a volume; only root may read it
_JOURNAL = f"{METADATA_FOLDER}/metadata.log"


@dataclass(slots=True)
class Staged:
    """One log folder: the links are in `path`, and each file counts up to the size it had."""

    folder: str
    path: str
    sizes: dict[str, int] = field(default_factory=dict)


class Staging:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self.folders: list[Staged] = []
        self._histories: dict[tuple[str, int], tuple[object, int]] = {}

    def hold(self) -> None:
        """On the loop, in one go: about ten microseconds a file."""
        replicas = self._node.broker.replicas
        unique = os.urandom(4).hex()
        try:
            for folder in replicas.folders:
                if folder.is_offline:
                    raise OSError(f"the log folder {folder.path} is offline: {folder.failure}")
                root = os.path.abspath(folder.path)  # noqa: PTH100 - this holds the loop
                staged = Staged(root, f"{root}/{LINKS}{unique}")
                self.folders.append(staged)
                _link_all(staged)
        except BaseException:
            self.release()
            raise
        self._histories = {key: (log, log.durability.generation) for key, _, log in replicas.logs()}

    def truncated(self) -> list[str]:
        """Partitions of which a held file may have changed: their leader had other records."""
        now = {key: (log, log.durability.generation) for key, _, log in self._node.broker.replicas.logs()}
        return [
            f"{topic}-{index}"
            for (topic, index), (log, generation) in self._histories.items()
            if (current := now.get((topic, index))) is not None
            and current[0] is log
            and current[1] != generation
        ]

    def release(self) -> None:
        for staged in self.folders:
            shutil.rmtree(staged.path, ignore_errors=True)


def files_of(root: str) -> Iterator[str]:
    """The files that belong into a backup, by their paths below `root`; the metadata journal is the first.

    A snapshot of the metadata empties the journal after it is written. A reader that takes the journal first has its
    entries either there or in the snapshot.
    """
    if os.path.exists(f"{root}/{_JOURNAL}"):  # noqa: PTH110
        yield _JOURNAL
    for name in sorted(os.listdir(root)):  # noqa: PTH208
        path = f"{root}/{name}"
        if name in (LOCK, CONTROL, _FILE_SYSTEMS_OWN) or name.startswith(LINKS) or name.endswith(_NOT_KEPT):
            continue
        if not os.path.isdir(path):  # noqa: PTH112
            yield name
            continue
        for inside in sorted(os.listdir(path)):  # noqa: PTH208
            if not inside.endswith(_NOT_KEPT) and f"{name}/{inside}" != _JOURNAL:
                yield f"{name}/{inside}"


def _link_all(staged: Staged) -> None:
    os.mkdir(staged.path, 0o700)  # noqa: PTH102
    folders = {""}
    for name in files_of(staged.folder):
        inside = name.rpartition("/")[0]
        if inside not in folders:
            os.mkdir(f"{staged.path}/{inside}")  # noqa: PTH102
            folders.add(inside)
        if name == _JOURNAL:  # it is cut in place, so its few bytes are copied
            shutil.copyfile(f"{staged.folder}/{name}", f"{staged.path}/{name}")
        else:
            os.link(f"{staged.folder}/{name}", f"{staged.path}/{name}")
        staged.sizes[name] = os.stat(f"{staged.path}/{name}").st_size  # noqa: PTH116
