"""Where the state of a stream task is kept: a folder of mapped files that one process at a time may use, or memory."""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ottla.durable import allocate, sync_all
from ottla.pipelines.state.arrays import Arrays, MemoryArrays
from ottla.pipelines.state.header import MARK_AT, Header, read_header
from ottla.pipelines.state.mapped import MappedArrays, disk_full, file_sizes, sync_file

_LOCK, _HEADER, _STORE = "lock", "header", "store-"
_LOCK_POLL_S = 0.01


class Place(Protocol):
    """A header, and the arrays of each store."""

    def read(self) -> Header | None: ...

    def write(self, header: Header) -> None: ...

    def mark(self, mark: int, *, synced: bool) -> None:
        """Changes the header's mark alone; `synced`: on the disk before this returns."""

    def arrays(self, store: str) -> Arrays:
        """Always the same until they are wiped, or until another process has replaced them."""

    def wipe(self, stores: Iterable[str]) -> None:
        """The arrays of these stores begin again, empty."""

    def is_current(self) -> bool:
        """False: arrays that were given out are no longer those of this place."""

    def sizes(self) -> dict[str, int]: ...

    def sync(self) -> None:
        """All arrays, and the header as it is, on the disk."""


class MemoryPlace:
    """Private, and gone with the process."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._arrays: dict[str, MemoryArrays] = {}

    def read(self) -> Header | None:
        return self._header

    def write(self, header: Header) -> None:
        self._header = header

    def mark(self, mark: int, *, synced: bool) -> None:
        if self._header is not None:
            self._header = Header(**{**self._header.__dict__, "mark": mark})

    def arrays(self, store: str) -> Arrays:
        return self._arrays.setdefault(store, MemoryArrays())

    def wipe(self, stores: Iterable[str]) -> None:
        for store in stores:
            self._arrays.pop(store, None)

    def is_current(self) -> bool:
        return True

    def sizes(self) -> dict[str, int]:
        return {}

    def sync(self) -> None:
        """Nothing survives the process, so nothing is promised."""


class FolderPlace:
    """Use it between `lock` and `unlock` only. Mappings are kept in between: the next step finds its pages mapped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None
        self._header: int | None = None
        self._arrays: dict[str, MappedArrays] = {}

    def lock(self, wait_s: float) -> bool:
        """The lock is a file of its own that is never renamed. False: another process kept it for all of `wait_s`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + wait_s
        while (descriptor := _try_lock(self._folder / _LOCK)) is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_POLL_S)
        self._lock = descriptor
        self._header = os.open(self._folder / _HEADER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not self._is_mapped_still():
            self._arrays = {}
        return True

    def close(self) -> None:
        self._arrays = {}

    def unlock(self) -> None:
        for descriptor in (self._header, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._lock = self._header = None

    def read(self) -> Header | None:
        return read_header(os.pread(self._open(), os.fstat(self._open()).st_size, 0))

    def write(self, header: Header) -> None:
        data = header.to_bytes()
        try:
            allocate(self._open(), len(data))  # a disk that fills up must not take half of it
            os.pwrite(self._open(), data, 0)
        except OSError as error:
            raise disk_full(error, len(data), self._folder / _HEADER) from error

    def mark(self, mark: int, *, synced: bool) -> None:
        os.pwrite(self._open(), bytes([mark]), MARK_AT)
        if synced:
            sync_all(self._open())

    def arrays(self, store: str) -> Arrays:
        return self._arrays.setdefault(store, MappedArrays(self._store_folder(store)))

    def wipe(self, stores: Iterable[str]) -> None:
        for store in stores:
            self._arrays.pop(store, None)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self._store_folder(store))

    def is_current(self) -> bool:
        return bool(self._arrays)

    def sizes(self) -> dict[str, int]:
        return {
            f"{store}/{name}": size
            for store in file_sizes(self._folder)
            if store.startswith(_STORE)
            for name, size in file_sizes(self._folder / store).items()
        }

    def sync(self) -> None:
        for arrays in self._arrays.values():
            arrays.sync()
        sync_file(self._folder)
        sync_all(self._open())

    def _is_mapped_still(self) -> bool:
        return all(arrays.is_current() for arrays in self._arrays.values())

    def _store_folder(self, store: str) -> Path:
        return self._folder / f"{_STORE}{store}"

    def _open(self) -> int:
        if self._header is None:
            raise RuntimeError(f"the state in {self._folder} was used without its lock")
        return self._header


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The folder may have been removed in between: then this lock keeps nobody out.
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
