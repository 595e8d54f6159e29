"""One segment: a file of batches with its sparse indexes.

The last segment of a log is open: its file is held, its indexes grow in memory. `seal` closes it: its indexes
are written, and from then on files and indexes are opened on demand through the cache.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import cast

from ottla.config.log import LogConfig
from ottla.ports import Buffer, Disk, File
from ottla.storage.buffers import POOLED_BYTES_MIN
from ottla.storage.files import (
    LOG,
    OFFSET_INDEX,
    SEGMENT_KINDS,
    TIME_INDEX,
    TRANSACTION_INDEX,
    FileCache,
    IndexWrite,
    file_name,
)
from ottla.storage.indexes import (
    RELATIVE_OFFSET_MAX,
    AbortedTransaction,
    BadIndex,
    Indexes,
    OffsetIndex,
    TimeIndex,
    dump_aborted,
    load_aborted,
)
from ottla.wire.batch import HEADER_BYTES, BatchHeader, CorruptBatch, read_header

_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35
_CHUNK_BYTES = 1 << 20
_NO_TIMESTAMP = -1


class Segment:
    __slots__ = (
        "_aborted",
        "_aborted_written",
        "_file",
        "_first_timestamp",
        "_indexes",
        "_max_timestamp",
        "_offset_entries_written",
        "_since_index_bytes",
        "_time_entries_written",
        "base_offset",
        "created_ms",
        "disk",
        "files",
        "folder",
        "hint",
        "mark",
        "max_timestamp_offset",
        "next_offset",
        "size_bytes",
        "suffix",
    )

    def __init__(
        self,
        disk: Disk,
        files: FileCache,
        folder: str,
        base_offset: int,
        *,
        suffix: str = "",
        created_ms: int = 0,
    ) -> None:
        """A new and empty one; nothing is on disk before the first append."""
        self.disk = disk
        self.files = files
        self.folder = folder
        self.base_offset = base_offset
        self.suffix = suffix
        self.created_ms = created_ms
        self.next_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp_offset = base_offset
        self._max_timestamp: int | None = _NO_TIMESTAMP
        self._first_timestamp: int | None = None
        self._file: File | None = None
        self._indexes: Indexes | None = Indexes()
        self._aborted: list[AbortedTransaction] | None = []
        self._offset_entries_written = self._time_entries_written = self._aborted_written = 0
        self._since_index_bytes = 0
        self.hint = (-1, 0)  # (offset, position) where the last read ended: the next one mostly starts there
        self.mark = (-1, 0)  # (offset, position) that was looked up last

    @classmethod
    def sealed(
        cls,
        disk: Disk,
        files: FileCache,
        folder: str,
        base_offset: int,
        *,
        next_offset: int,
        suffix: str = "",
        created_ms: int = 0,
    ) -> "Segment":
        """One that is on disk already, with its indexes."""
        segment = cls(disk, files, folder, base_offset, suffix=suffix, created_ms=created_ms)
        segment.next_offset = next_offset
        segment.size_bytes = disk.size(segment.path(LOG))
        segment._indexes = segment._aborted = segment._max_timestamp = None
        return segment

    def path(self, kind: str) -> str:
        return f"{self.folder}/{file_name(self.base_offset, kind, self.suffix)}"

    @property
    def is_sealed(self) -> bool:
        return self._indexes is None

    # Writing.

    def append(
        self, buffers: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int, interval: int
    ) -> None:
        """One batch in one gathered write. An OSError leaves the segment as it was."""
        file = self._file
        if file is None:
            file = self.open_for_append()
        file.append(buffers)
        self.note(size, last_offset, max_timestamp, interval)

    def append_many(self, data: Buffer, headers: Sequence[BatchHeader], interval: int) -> None:
        """Several batches in one write."""
        (self._file or self.open_for_append()).append((data,))
        for header in headers:
            self.note(header.size, header.last_offset, header.max_timestamp, interval)

    def note(self, size: int, last_offset: int, max_timestamp: int, interval: int) -> None:
        """A batch stands at the end of the file: take it into account and into the indexes."""
        if max_timestamp > self._max_timestamp:  # type: ignore[operator]
            self._max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_index_bytes > interval:
            indexes = self._indexes
            assert indexes is not None, "only an open segment is written to"
            indexes.offset.append(last_offset - self.base_offset, self.size_bytes)
            indexes.time.maybe_append(self._max_timestamp, self.max_timestamp_offset - self.base_offset)  # type: ignore[arg-type]
            self._since_index_bytes = 0
        self._since_index_bytes += size
        self.size_bytes += size
        self.next_offset = last_offset + 1

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        assert self._aborted is not None, "only an open segment is written to"
        self._aborted.append(transaction)

    def open_for_append(self) -> File:
        if self._file is None:
            self.disk.make_folder(self.folder)
            self._file = self.disk.open(self.path(LOG), create=True)
        return self._file

    def cut_back(self) -> None:
        """After a failed append: truncates what was half written."""
        if self._file is not None and self._file.size() != self.size_bytes:
            self._file.truncate(self.size_bytes)

    def should_roll(
        self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int
    ) -> bool:
        """Is a batch of this size, offset and timestamp one too many? As Kafka asks it."""
        if self.size_bytes > config.segment_bytes - size:
            return True
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if self.size_bytes == 0:
            return False
        first = self._first_timestamp if self._first_timestamp is not None else self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        if waited_ms > segment_ms(config, self.base_offset):
            return True
        indexes = self._indexes
        assert indexes is not None
        return (
            len(indexes.offset.offsets) * OffsetIndex.ENTRY_BYTES >= config.segment_index_bytes
            or (len(indexes.time.offsets) + 1) * TimeIndex.ENTRY_BYTES >= config.segment_index_bytes
        )

    def seal(self) -> None:
        """No more appends. The last entry of the time index tells the newest timestamp."""
        if self._indexes is None:
            return
        self.finish_time_index()
        if self.size_bytes or self.disk.exists(self.path(LOG)):
            try:
                for write in self.index_writes():
                    write.run(self.disk)
            except OSError:
                self.forget_written_indexes()
                raise
        self.close()
        if self.disk.exists(self.path(LOG)):
            self._indexes = self._aborted = None

    def finish_time_index(self) -> None:
        self.indexes.time.maybe_append(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def index_writes(self) -> list[IndexWrite]:
        """What the index files do not have yet; from now on it counts as written."""
        indexes, aborted = self.indexes, self.aborted
        writes = [
            IndexWrite(
                self.path(OFFSET_INDEX),
                self._offset_entries_written * OffsetIndex.ENTRY_BYTES,
                indexes.offset.dump(self._offset_entries_written),
            ),
            IndexWrite(
                self.path(TIME_INDEX),
                self._time_entries_written * TimeIndex.ENTRY_BYTES,
                indexes.time.dump(self._time_entries_written),
            ),
        ]
        if len(aborted) > self._aborted_written:
            position = len(dump_aborted(aborted[: self._aborted_written]))
            data = dump_aborted(aborted[self._aborted_written :])
            writes.append(IndexWrite(self.path(TRANSACTION_INDEX), position, data))
        self._offset_entries_written = len(indexes.offset)
        self._time_entries_written = len(indexes.time)
        self._aborted_written = len(aborted)
        return writes

    def forget_written_indexes(self) -> None:
        """The last write of the indexes may be incomplete: the next one begins at their start."""
        self._offset_entries_written = self._time_entries_written = self._aborted_written = 0

    def drop_index_files(self) -> None:
        """The files are wrong or incomplete: removed now, written again with the next flush of the indexes."""
        self.forget_written_indexes()
        for kind in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            self.disk.remove(self.path(kind))

    @property
    def index_entries_unwritten(self) -> int:
        return 0 if self._indexes is None else len(self._indexes.offset) - self._offset_entries_written

    def cut(self, position: int, next_offset: int) -> None:
        """Forget what stands from `position` on. Of an open segment only; see `reopen`."""
        self.hint = self.mark = (-1, 0)
        file = self.open_for_append()
        file.truncate(position)
        indexes, aborted = self.indexes, self.aborted
        indexes.offset.truncate(position)
        indexes.time.truncate(next_offset - self.base_offset)
        self._aborted = [transaction for transaction in aborted if transaction.last_offset < next_offset]
        self.drop_index_files()
        self.size_bytes = position
        self.next_offset = next_offset
        self._rescan_tail()

    def reopen(self) -> None:
        """Sealed before, to be appended to again (after a truncation)."""
        if self._indexes is None:
            indexes, aborted = self.indexes, self.aborted
            self.files.forget(self.disk, self.path(LOG))
            self._indexes, self._aborted = indexes, aborted
            self.drop_index_files()
            self._rescan_tail()

    def resume(self) -> bool:
        """Before a walk over the file: keep the indexes, and be as it was before the batch of the last entry.
        False, with nothing done, when they are of no use."""
        try:
            indexes = Indexes(
                OffsetIndex.load(self.disk.read_whole(self.path(OFFSET_INDEX))),
                TimeIndex.load(self.disk.read_whole(self.path(TIME_INDEX))),
            )
            aborted = self._load_aborted()
            position = indexes.offset.positions[-1] if indexes.offset else 0
            base_offset = self._check_entry(indexes.offset, position)
        except (FileNotFoundError, BadIndex, CorruptBatch):
            return False
        self.files.forget(self.disk, self.path(LOG))
        indexes.offset.truncate(position)
        indexes.time.truncate(base_offset - self.base_offset)
        self._indexes, self._aborted = indexes, aborted
        self._load_max_timestamp()
        self.size_bytes, self.next_offset = position, base_offset
        # The batch at `position` had an entry, so it gets one again.
        self._since_index_bytes = RELATIVE_OFFSET_MAX if position else 0
        self.drop_index_files()
        return True

    def _check_entry(self, index: OffsetIndex, position: int) -> int:
        """The base offset of the batch that the last entry points at, if it does."""
        if position == 0:
            return self.base_offset
        header = read_header(self.read_at(position, HEADER_BYTES))
        if header.last_offset != self.base_offset + index.offsets[-1]:
            raise BadIndex("it is of another log")
        return header.base_offset

    def forget_all(self) -> None:
        """Drops indexes, offsets and sizes: recovery walks the file from its start."""
        self.files.forget(self.disk, self.path(LOG))
        self._indexes, self._aborted = Indexes(), []
        self.next_offset = self.max_timestamp_offset = self.base_offset
        self._max_timestamp = _NO_TIMESTAMP
        self.size_bytes = self._since_index_bytes = 0
        self.drop_index_files()

    def close(self) -> None:
        self.hint = self.mark = (-1, 0)
        self.files.forget(self.disk, self.path(LOG))
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, suffix: str) -> list[str]:
        """Give all its files another suffix (`.swap`, `.deleted`, none); the new paths."""
        self.close()
        old = [self.path(kind) for kind in SEGMENT_KINDS]
        self.suffix = suffix
        renamed = []
        for kind, path in zip(SEGMENT_KINDS, old, strict=True):
            if self.disk.exists(path):
                self.disk.rename(path, self.path(kind))
                renamed.append(self.path(kind))
        return renamed

    # Reading.

    def read_at(self, position: int, length: int) -> bytes:
        file = self._readable_file()
        return file.read(position, length) if file is not None else b""

    def read_records(self, position: int, length: int) -> Buffer:
        """As `read_at`, for much: into memory that is used again once no view of it is left."""
        if length < POOLED_BYTES_MIN:
            return self.read_at(position, length)
        file = self._readable_file()
        if file is None:
            return b""
        view = self.files.buffers.take(length)
        return view[: file.read_into(position, view)]

    def _readable_file(self) -> File | None:
        if self._file is None and self.size_bytes:
            return self.files.file(self.disk, self.path(LOG))
        return self._file

    def headers(
        self, position: int = 0, chunk_bytes: int = _CHUNK_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each whole batch from `position` on; CorruptBatch where there is none."""
        buffer, start = b"", position
        while position + HEADER_BYTES <= self.size_bytes:
            at = position - start
            if at + HEADER_BYTES > len(buffer):
                buffer, start, at = self.read_at(position, chunk_bytes), position, 0
            header = read_header(buffer, at)
            if position + header.size > self.size_bytes:
                return
            yield position, header
            position += header.size

    def headers_from(self, offset: int, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """As `headers`, from the batch on that holds `offset`, or the next one."""
        start = self.indexes.offset.lookup(offset - self.base_offset)
        for position, header in self.headers(start, chunk_bytes):
            if header.last_offset >= offset:
                yield position, header

    @property
    def indexes(self) -> Indexes:
        if self._indexes is not None:
            return self._indexes
        return cast(Indexes, self.files.index(self.disk, self.path(LOG), self._load_indexes))

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Transactions whose abort marker is in this segment."""
        if self._aborted is None:
            self._aborted = self._load_aborted()
        return self._aborted

    @property
    def max_timestamp(self) -> int:
        """-1 when no record has one."""
        if self._max_timestamp is None:
            self._load_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """For retention: a segment without timestamps is as old as its file."""
        if self.max_timestamp >= 0 or self.size_bytes == 0:
            return self.max_timestamp
        return self.disk.modified_ms(self.path(LOG))

    @property
    def first_timestamp(self) -> int:
        """The newest timestamp of the first batch: segment.ms counts from it."""
        if self._first_timestamp is None:
            if self.size_bytes < HEADER_BYTES:
                return _NO_TIMESTAMP
            (self._first_timestamp,) = _MAX_TIMESTAMP.unpack_from(
                self.read_at(0, HEADER_BYTES), _MAX_TIMESTAMP_AT
            )
        return self._first_timestamp

    def _load_indexes(self) -> Indexes:
        """From the files; rebuilt by walking the log when they are missing or wrong."""
        try:
            offset = OffsetIndex.load(self.disk.read_whole(self.path(OFFSET_INDEX)))
            time = TimeIndex.load(self.disk.read_whole(self.path(TIME_INDEX)))
            if not offset.positions or offset.positions[-1] < self.size_bytes:
                return Indexes(offset, time)
        except (FileNotFoundError, BadIndex):
            pass
        return self._walked_indexes()

    def _walked_indexes(self) -> Indexes:
        twin = Segment(self.disk, self.files, self.folder, self.base_offset, suffix=self.suffix)
        for _, header in self.headers():
            twin.note(header.size, header.last_offset, header.max_timestamp, 4096)
        indexes = twin.indexes
        indexes.time.maybe_append(twin.max_timestamp, twin.max_timestamp_offset - self.base_offset)
        return indexes

    def _load_aborted(self) -> list[AbortedTransaction]:
        path = self.path(TRANSACTION_INDEX)
        return load_aborted(self.disk.read_whole(path)) if self.disk.exists(path) else []

    def _load_max_timestamp(self) -> None:
        time = self.indexes.time
        self._max_timestamp, relative = (
            (time.timestamps[-1], time.offsets[-1]) if time else (_NO_TIMESTAMP, 0)
        )
        self.max_timestamp_offset = self.base_offset + relative

    def _rescan_tail(self) -> None:
        """Newest timestamp and bytes since the last entry, after a cut or a reopening."""
        indexes = self.indexes
        self._first_timestamp = None
        self._load_max_timestamp()
        position = indexes.offset.positions[-1] if indexes.offset else 0
        self._since_index_bytes = self.size_bytes - position
        for _, header in self.headers(position):
            if header.max_timestamp > self.max_timestamp:
                self._max_timestamp, self.max_timestamp_offset = header.max_timestamp, header.last_offset


def segment_ms(config: LogConfig, base_offset: int) -> int:
    """How long a segment may grow. The jitter spreads the rolls of many partitions; it is not random."""
    longest = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
    jitter = min(config.segment_jitter_ms, longest)
    return longest - (base_offset * 2654435761 % (jitter + 1)) if jitter else longest
