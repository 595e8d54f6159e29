"""Arrays in mapped files: shared by all processes of a host, there again after a restart."""

import errno
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from ottla.durable import allocate, sync_all
from ottla.errors import OttlaError
from ottla.pipelines.state.arrays import Array

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StateDiskFull(OttlaError):
    """The disk has no room for the state."""


class StateRemoved(OttlaError):
    """Somebody removed the state under a step."""


class MappedArrays:
    """A file for each array. Files only grow; to begin again they are removed, so that no mapping loses its pages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arrays: dict[str, Array] = {}
        self._seen: dict[str, tuple[int, int]] = {}

    def open(self, name: str, dtype: np.dtype[Any], rows: int) -> Array:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._map(name, dtype.base, dtype.shape, rows)

    def grow(self, name: str, rows: int) -> Array:
        old = self._arrays[name]
        return self._map(name, old.dtype, old.shape[1:], rows)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def sizes(self) -> dict[str, int]:
        return {name: size for name, (_, size) in self._seen.items()}

    def is_current(self) -> bool:
        """Whether the files are still the mapped ones, in inode and size."""
        try:
            return all(_seen((self._folder / name).stat()) == stamp for name, stamp in self._seen.items())
        except FileNotFoundError:
            return False

    def sync(self) -> None:
        for name in self._arrays:
            sync_file(self._folder / name)
        sync_file(self._folder)

    def _map(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], rows: int) -> Array:
        path = self._folder / name
        row_bytes = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = self._size(descriptor, name)
            if size < rows * row_bytes and (name in self._arrays or not size):
                # Otherwise a full disk would be noticed on a write to the mapping, which kills the process.
                _allocate(descriptor, rows * row_bytes, path)
            self._seen[name] = _seen(os.fstat(descriptor))
            mapping = mmap.mmap(descriptor, self._seen[name][1])
        finally:
            os.close(descriptor)
        items = np.frombuffer(mapping, dtype, len(mapping) // row_bytes * (row_bytes // dtype.itemsize))
        self._arrays[name] = items.reshape(-1, *shape)
        return self._arrays[name]

    def _size(self, descriptor: int, name: str) -> int:
        inode, size = _seen(os.fstat(descriptor))
        if name in self._seen and self._seen[name][0] != inode:
            raise StateRemoved(f"{self._folder / name} was removed while it was in use")
        return size


def file_sizes(folder: Path) -> dict[str, int]:
    """Of all arrays in a folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries}
    except FileNotFoundError:
        return {}


def sync_file(path: Path) -> None:
    """What was written through a mapping is on the disk afterwards too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def disk_full(error: OSError, size: int, path: Path) -> Exception:
    """The error in words if it says that the disk is full, else as it is."""
    if error.errno not in _FULL:
        return error
    return StateDiskFull(
        f"no room for {size} bytes of state in {path}: {error.strerror}; free disk space or move the state folder"
    )


def _allocate(descriptor: int, size: int, path: Path) -> None:
    try:
        allocate(descriptor, size)
    except OSError as error:
        raise disk_full(error, size, path) from error


def _seen(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_size
