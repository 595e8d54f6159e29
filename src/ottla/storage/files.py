"""Names of a partition's files, and a bounded cache of open files and loaded indexes."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.ports import Disk, File
from ottla.storage.buffers import ReadBuffers

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

CLEANED = ".cleaned"  # being written by compaction; worthless after a crash
SWAP = ".swap"  # complete; a crash from here on finishes the swap
DELETED = ".deleted"  # out of the log, unlinked after file.delete.delay.ms
CORRUPT = ".corrupt"  # cut off by recovery and kept for a person to look at

EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"


def file_name(offset: int, kind: str, suffix: str = "") -> str:
    return f"{offset:020d}{kind}{suffix}"


def base_offset_of(name: str) -> int | None:
    """The offset in a file's name; None for files that are not named after one."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isdecimal() else None


def replace_quickly(disk: Disk, path: str, data: bytes) -> None:
    """Whole or not at all, but not yet durable: small files that the next flush syncs."""
    aside = path + ".tmp"
    disk.remove(aside)
    file = disk.open(aside, create=True)
    try:
        file.append((data,))
    finally:
        file.close()
    disk.rename(aside, path)


def sync(disk: Disk, path: str) -> None:
    """Slow."""
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


class IndexWrite(NamedTuple):
    """Entries that an index file does not have yet."""

    path: str
    position: int
    data: bytes

    def run(self, disk: Disk) -> None:
        file = disk.open(self.path, create=True)
        try:
            file.write_at(self.position, self.data)
        finally:
            file.close()


class Sized(Protocol):
    @property
    def size_bytes(self) -> int: ...


class FileCache:
    """Open files for reading, and indexes of closed segments; the least recently used one goes first.

    Only the event loop uses it: a file it hands out may be closed by the next call. Work in threads opens
    files of its own.
    """

    def __init__(self, *, files_max: int = 1024, index_bytes_max: int = 64 << 20) -> None:
        self._files_max = files_max
        self._index_bytes_max = index_bytes_max
        self._files: OrderedDict[tuple[int, str], File] = OrderedDict()
        self._indexes: OrderedDict[tuple[int, str], Sized] = OrderedDict()
        self._index_bytes = 0
        self.buffers = ReadBuffers()

    def file(self, disk: Disk, path: str) -> File:
        key = (id(disk), path)
        file = self._files.get(key)
        if file is not None:
            self._files.move_to_end(key)
            return file
        file = disk.open(path)
        self._files[key] = file
        while len(self._files) > self._files_max:
            self._files.popitem(last=False)[1].close()
        return file

    def index(self, disk: Disk, path: str, load: Callable[[], Sized]) -> Sized:
        key = (id(disk), path)
        index = self._indexes.get(key)
        if index is not None:
            self._indexes.move_to_end(key)
            return index
        index = self._indexes[key] = load()
        self._index_bytes += index.size_bytes
        while self._index_bytes > self._index_bytes_max and len(self._indexes) > 1:
            self._index_bytes -= self._indexes.popitem(last=False)[1].size_bytes
        return index

    def forget(self, disk: Disk, path: str) -> None:
        """The file of this path changes its name, goes away, or its index was rewritten."""
        file = self._files.pop((id(disk), path), None)
        if file is not None:
            file.close()
        index = self._indexes.pop((id(disk), path), None)
        if index is not None:
            self._index_bytes -= index.size_bytes

    def __len__(self) -> int:
        return len(self._files)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._indexes.clear()
        self._index_bytes = 0


class Location(NamedTuple):
    """Where a log is: its folder on a disk, and the cache of that disk's open files."""

    disk: Disk
    folder: str
    files: FileCache
