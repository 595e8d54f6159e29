"""One broker for each log folder: the lock dies with the process, however it ends.

Two locks on one file: Apache Kafka takes the kind that fcntl knows, which does not see a second broker in this
process; flock does."""

import fcntl
import os

from ottla.errors import OttlaError

LOCK = ".lock"


class FolderInUse(OttlaError):
    """Another broker has the folder."""


def is_locked(folder: str) -> bool:
    """Whether a broker, ours or Apache Kafka's, runs on the folder. Leaves no file behind."""
    try:
        fd = os.open(f"{folder}/{LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


class FolderLock:
    def __init__(self, folder: str) -> None:
        self._fd = os.open(f"{folder}/{LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            raise FolderInUse(f"another broker uses {folder}") from error

    def release(self) -> None:
        os.close(self._fd)
