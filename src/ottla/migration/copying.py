"""Copies of partition folders: durable, with their times, and with a word on how far it is."""

import errno
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ottla.durable import sync_all
from ottla.errors import OttlaError
from ottla.server.lock import is_locked

CHUNK_BYTES = 64 << 20
SAY_EVERY_S = 0.5
_NOT_HERE = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}

Progress = Callable[[int], None]
"""Told how many more bytes are copied."""


class SourceInUse(OttlaError):
    """A broker runs on the folder: what is read from it now is not of one moment."""


def check_unused(folders: Iterable[str]) -> None:
    for folder in folders:
        if is_locked(folder):
            raise SourceInUse(f"a broker runs on {folder}: stop it first")


def check_target(folder: str) -> None:
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise OttlaError(f"{folder} is not empty: name a folder that does not exist yet")


def copy_folder(source: Path, target: Path, names: Iterable[str], progress: Progress) -> None:
    target.mkdir()
    for name in names:
        copy_file(source / name, target / name, progress)
    sync_folder(target)


def copy_file(source: Path, target: Path, progress: Progress) -> None:
    """Shares blocks where the file system can. The source is never linked: the copy will be written to."""
    with source.open("rb") as reader, target.open("xb") as writer:
        _copy_range(reader.fileno(), writer.fileno(), progress)
        sync_all(writer.fileno())
        status = os.fstat(reader.fileno())
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_range(source: int, target: int, progress: Progress) -> None:
    try:
        if not hasattr(os, "copy_file_range"):  # macOS
            raise OSError(errno.ENOSYS, "copy_file_range")
        while copied := os.copy_file_range(source, target, CHUNK_BYTES):
            progress(copied)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        while chunk := os.read(source, 1 << 20):
            view = memoryview(chunk)
            while view:
                view = view[os.write(target, view) :]
            progress(len(chunk))


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        sync_all(fd)
    finally:
        os.close(fd)


def check_space(target: str, wanted_bytes: int) -> None:
    home = Path(target)
    while not home.exists():
        home = home.parent
    free = shutil.disk_usage(home).free
    if free < wanted_bytes:
        raise OttlaError(f"{target} needs {wanted_bytes >> 20} MiB; {free >> 20} MiB are free on its disk")


class Meter:
    """Says on a terminal how far a copy is."""

    def __init__(self, total_bytes: int) -> None:
        self._total, self._done, self._said_at = total_bytes, 0, 0.0
        self._shows = sys.stderr.isatty()

    def __call__(self, copied: int) -> None:
        self._done += copied
        now = time.monotonic()
        if self._shows and now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            print(
                f"\rcopied {self._done >> 20} of {self._total >> 20} MiB", end="", file=sys.stderr, flush=True
            )

    def close(self) -> None:
        if self._shows:
            print(f"\rcopied {self._done >> 20} of {self._total >> 20} MiB", file=sys.stderr, flush=True)
