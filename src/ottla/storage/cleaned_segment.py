"""The segment that compaction writes: `.cleaned` files beside the segments it will replace."""

from collections.abc import Iterable

from ottla.ports import Buffer, Disk
from ottla.storage.files import CLEANED, SEGMENT_KINDS, FileCache, file_name
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.segment import Segment

_WRITE_BYTES = 256 * 1024


class CleanedSegment:
    """Batches go in, in order; `finish` writes the indexes, `sync` (slow) makes all of it durable."""

    def __init__(self, disk: Disk, folder: str, base_offset: int, *, index_interval_bytes: int) -> None:
        self._disk = disk
        self._paths = [f"{folder}/{file_name(base_offset, kind, CLEANED)}" for kind in SEGMENT_KINDS]
        for path in self._paths:  # of an attempt that was given up
            disk.remove(path)
        self._segment = Segment(disk, FileCache(), folder, base_offset, suffix=CLEANED)
        self._file = self._segment.open_for_append()
        self._interval_bytes = index_interval_bytes
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._segment.size_bytes

    def append(self, batch: Buffer, *, last_offset: int, max_timestamp: int) -> None:
        self._segment.note(len(batch), last_offset, max_timestamp, self._interval_bytes)
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= _WRITE_BYTES:
            self._write()

    def finish(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._write()
        for transaction in aborted:
            self._segment.note_aborted(transaction)
        self._segment.seal()

    def sync(self) -> None:
        """May run in a thread: nothing else touches these files any more."""
        for path in self._paths:
            if self._disk.exists(path):
                file = self._disk.open(path)
                try:
                    file.sync()
                finally:
                    file.close()

    def close(self) -> None:
        self._segment.close()

    def _write(self) -> None:
        if self._waiting:
            self._file.append(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
