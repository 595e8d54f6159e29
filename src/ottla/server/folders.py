"""The log folders of a broker: locked, and offline from the start where the disk does not play along."""

import logging
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.config.settings import Config
from ottla.errors import KafkaStorageError
from ottla.ports import Disk
from ottla.server.disk import OsDisk
from ottla.server.lock import FolderLock
from ottla.storage.files import FileCache
from ottla.storage.folder import LogFolder

log = logging.getLogger("ottla.server")

OnOffline = Callable[[LogFolder, OSError], None]


@dataclass(slots=True)
class Folders:
    all: list[LogFolder] = field(default_factory=list)
    locks: list[FolderLock] = field(default_factory=list)

    @classmethod
    def open(cls, config: Config, disks: list[Disk] | None, on_offline: OnOffline) -> "Folders":
        """`disks` stand for the folders of the configuration. FolderInUse when another broker has one."""
        opened = cls()
        handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = FileCache(files_max=max(1, min(config.ottla_open_files_max, handles // 4)))
        try:
            if disks is None:
                for path in config.log_dirs_in_use():
                    disk = OsDisk(path)
                    folder = _folder(disk, path, files, on_offline)
                    opened.all.append(folder)
                    opened._lock(folder, disk)
            else:
                names = [f"memory-{index}" for index in range(len(disks))]
                opened.all = [
                    _folder(disk, name, files, on_offline) for disk, name in zip(disks, names, strict=True)
                ]
        except BaseException:
            opened.release()
            raise
        return opened

    def release(self) -> None:
        for lock in self.locks:
            lock.release()
        self.locks.clear()

    def _lock(self, folder: LogFolder, disk: OsDisk) -> None:
        """The first folder has the metadata: without it there is no broker. The others may be missing."""
        try:
            with folder.guard():
                disk.make_folder("")
                self.locks.append(FolderLock(disk.root))
        except KafkaStorageError:
            if folder is self.all[0]:
                raise


def _folder(disk: Disk, path: str, files: FileCache, on_offline: OnOffline) -> LogFolder:
    return LogFolder(
        disk, path, files=files, report=log.warning, on_offline=on_offline, exclusive=threading.Lock()
    )
