"""One broker for each log folder: the lock dies with the process, however it ends."""

import fcntl
import os

from ottla.errors import OttlaError


class FolderInUse(OttlaError):
    """Another broker has the folder."""


class FolderLock:
    def __init__(self, folder: str) -> None:
        self._fd = os.open(f"{folder}/.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise FolderInUse(f"another broker uses {folder}") from error

    def release(self) -> None:
        os.close(self._fd)
