"""Checks a log folder from end to end and says what is wrong, where. It changes nothing."""

from collections.abc import Container, Iterator

from ottla.errors import ProtocolError
from ottla.frozen import frozen
from ottla.ports import Disk
from ottla.storage import checkpoints
from ottla.storage.checkpoints import DamagedFile, TopicPartition
from ottla.storage.epochs import BadEpochs, LeaderEpochs
from ottla.storage.files import (
    CLEANED,
    CORRUPT,
    EPOCHS,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    base_offset_of,
    file_name,
)
from ottla.storage.folder_names import parse_folder
from ottla.storage.indexes import BadIndex, OffsetIndex, TimeIndex, load_aborted
from ottla.storage.producers import BadSnapshot, Producers
from ottla.wire import batch as batches
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader, CorruptBatch

_CHUNK_BYTES = 1 << 20
_DECOMPRESSED_BYTES_MAX = 1 << 30
_CHECKPOINTS = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.CLEANER_OFFSETS,
)


@frozen
class Finding:
    """One thing that is not as it should be. `position` is in the file, `offset` in the log."""

    path: str
    problem: str
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        place = self.path
        if self.position is not None:
            place += f" at position {self.position}"
        if self.offset is not None:
            place += f" (offset {self.offset})"
        return f"{place}: {self.problem}"


def check_folder(disk: Disk, deep: bool, *, others: Container[str] = ()) -> Iterator[Finding]:
    """Everything in one log folder. `deep` reads all records too; else only batch headers and indexes.
    `others` are folders in it that are somebody else's business."""
    ends: dict[TopicPartition, int] = {}
    for name in disk.list(""):
        parsed = parse_folder(name)
        if parsed is None:
            if name not in others and _is_folder(disk, name):
                yield Finding(name, "this folder is not a partition's")
        elif not parsed.kind:
            check = PartitionCheck(disk, name, deep)
            yield from check.run()
            ends[parsed.topic, parsed.partition] = check.end_offset
    yield from _check_meta(disk)
    for name in _CHECKPOINTS:
        yield from _check_checkpoint(disk, name, ends)


def _is_folder(disk: Disk, name: str) -> bool:
    try:
        return bool(disk.list(name))
    except NotADirectoryError:
        return False


def _check_meta(disk: Disk) -> Iterator[Finding]:
    try:
        if checkpoints.read_meta(disk) is None:
            yield Finding(checkpoints.META_PROPERTIES, "it is missing")
    except DamagedFile as error:
        yield Finding(checkpoints.META_PROPERTIES, error.reason)


def _check_checkpoint(disk: Disk, name: str, ends: dict[TopicPartition, int]) -> Iterator[Finding]:
    try:
        offsets = checkpoints.read_offsets(disk, name)
    except DamagedFile as error:
        yield Finding(name, str(error))
        return
    for (topic, partition), offset in offsets.items():
        end = ends.get((topic, partition))
        if end is None and offset:  # an empty partition has no folder before its first record
            yield Finding(name, f"{topic}-{partition} is not in this folder", offset=offset)
        elif end is not None and offset > end:
            yield Finding(name, f"{topic}-{partition} ends before that, at {end}", offset=offset)


class PartitionCheck:
    """One partition's folder. `end_offset` is known once `run` is through."""

    def __init__(self, disk: Disk, folder: str, deep: bool) -> None:
        self.end_offset = 0
        self._disk = disk
        self._folder = folder
        self._deep = deep
        self._epoch = -1

    def run(self) -> Iterator[Finding]:
        names = self._disk.list(self._folder)
        bases = [base for name in names if name.endswith(LOG) and (base := base_offset_of(name)) is not None]
        yield from self._check_names(names, set(bases))
        if not bases:
            yield Finding(
                self._folder,
                "it has no segment; the next start makes an empty log of it, or puts it aside if no topic has it",
            )
        for base, next_base in zip(bases, [*bases[1:], None], strict=False):
            self.end_offset = max(self.end_offset, base)
            segment = SegmentCheck(self._disk, self._folder, base, next_base, self._deep, self._epoch)
            yield from segment.run()
            self.end_offset, self._epoch = segment.next_offset, segment.epoch
        for name in names:
            if name.endswith(SNAPSHOT):
                yield from self._check_snapshot(name)
        if EPOCHS in names:
            yield from self._check_epochs()

    def _check_names(self, names: list[str], bases: set[int]) -> Iterator[Finding]:
        for name in names:
            path = f"{self._folder}/{name}"
            if name.endswith((CLEANED, SWAP)):
                yield Finding(path, "compaction was interrupted; the next start finishes or undoes it")
            elif name.endswith(CORRUPT):
                yield Finding(path, "recovery has cut this off and kept it")
            elif (
                name.endswith((OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX))
                and base_offset_of(name) not in bases
            ):
                yield Finding(path, "an index without its log")

    def _check_snapshot(self, name: str) -> Iterator[Finding]:
        path = f"{self._folder}/{name}"
        offset = base_offset_of(name)
        if offset is None or offset > self.end_offset:
            yield Finding(path, f"the log ends before that, at {self.end_offset}", offset=offset)
        try:
            producers = Producers.load(self._disk.read_whole(path))
        except BadSnapshot as error:
            yield Finding(path, str(error))
            return
        for entry in producers.entries.values():
            if offset is not None and entry.last_offset >= offset:
                problem = (
                    f"producer {entry.producer_id} has a batch up to {entry.last_offset}, behind the snapshot"
                )
                yield Finding(path, problem, offset=offset)

    def _check_epochs(self) -> Iterator[Finding]:
        path = f"{self._folder}/{EPOCHS}"
        try:
            entries = LeaderEpochs.load(self._disk.read_whole(path)).entries
        except BadEpochs as error:
            yield Finding(path, str(error))
            return
        if entries and entries[-1].start_offset > self.end_offset:
            problem = f"epoch {entries[-1].epoch} starts behind the end of the log, {self.end_offset}"
            yield Finding(path, problem, offset=entries[-1].start_offset)


class SegmentCheck:
    """One segment and its indexes."""

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, next_base: int | None, deep: bool, epoch: int
    ) -> None:
        self.next_offset = base_offset
        self.epoch = epoch
        self._disk = disk
        self._folder = folder
        self._base = base_offset
        self._next_base = next_base
        self._deep = deep
        self._size = disk.size(self._path(LOG))

    def run(self) -> Iterator[Finding]:
        offsets, times = OffsetIndex(), TimeIndex()
        try:
            offsets = OffsetIndex.load(self._read(OFFSET_INDEX))
        except BadIndex as error:
            yield Finding(self._path(OFFSET_INDEX), str(error))
        try:
            times = TimeIndex.load(self._read(TIME_INDEX))
        except BadIndex as error:
            yield Finding(self._path(TIME_INDEX), str(error))
        indexed = dict(zip(offsets.positions, offsets.offsets, strict=True))
        entries = list(zip(times.offsets, times.timestamps, strict=True))[::-1]
        for position, header, batch in self._batches():
            if isinstance(header, str):
                yield Finding(self._path(LOG), header, position, self.next_offset)
                return  # nothing behind it can be found, so the indexes have nothing to point to
            yield from self._check_batch(position, header, batch)
            yield from self._check_offset_entry(position, header, indexed)
            yield from self._check_time_entries(header, entries)
        for position, relative in indexed.items():
            yield Finding(
                self._path(OFFSET_INDEX), f"no batch at position {position}", offset=self._base + relative
            )
        for relative, timestamp in entries:
            problem = f"no batch for timestamp {timestamp}"
            yield Finding(self._path(TIME_INDEX), problem, offset=self._base + relative)
        yield from self._check_transactions()

    def _batches(self) -> Iterator[tuple[int, BatchHeader | str, memoryview]]:
        """Position, header and, if deep, bytes of every batch; a text where it does not go on."""
        file = self._disk.open(self._path(LOG))
        try:
            position, chunk, start = 0, memoryview(b""), 0
            while position < self._size:
                at = position - start
                if at + batches.HEADER_BYTES > len(chunk):
                    chunk, start, at = memoryview(file.read(position, _CHUNK_BYTES)), position, 0
                try:
                    header = batches.read_header(chunk, at)
                except CorruptBatch as error:
                    yield position, error.message, chunk
                    return
                if position + header.size > self._size:
                    yield position, f"the last batch of {header.size} bytes is cut off at {self._size}", chunk
                    return
                if self._deep and at + header.size > len(chunk):
                    chunk, start, at = memoryview(file.read(position, header.size)), position, 0
                yield position, header, chunk[at : at + header.size]
                position += header.size
        finally:
            file.close()

    def _check_batch(self, position: int, header: BatchHeader, batch: memoryview) -> Iterator[Finding]:
        path = self._path(LOG)
        if header.base_offset < self.next_offset:
            yield Finding(path, f"the batch before ends at {self.next_offset}", position, header.base_offset)
        if self._next_base is not None and header.last_offset >= self._next_base:
            yield Finding(path, f"the next segment starts at {self._next_base}", position, header.last_offset)
        if header.leader_epoch < self.epoch:
            problem = f"leader epoch {header.leader_epoch} after {self.epoch}"
            yield Finding(path, problem, position, header.base_offset)
        self.epoch = max(self.epoch, header.leader_epoch)
        self.next_offset = max(self.next_offset, header.next_offset)
        if self._deep:
            try:
                _check_records(header, batch)
            except ProtocolError as error:
                yield Finding(path, error.message, position, header.base_offset)

    def _check_offset_entry(
        self, position: int, header: BatchHeader, indexed: dict[int, int]
    ) -> Iterator[Finding]:
        relative = indexed.pop(position, None)
        if relative is not None and self._base + relative != header.last_offset:
            problem = (
                f"{self._base + relative} for position {position}, the batch ends at {header.last_offset}"
            )
            yield Finding(self._path(OFFSET_INDEX), problem, offset=header.base_offset)

    def _check_time_entries(self, header: BatchHeader, entries: list[tuple[int, int]]) -> Iterator[Finding]:
        """No record up to the entry's offset may be younger than its timestamp."""
        while entries and self._base + entries[-1][0] <= header.last_offset:
            _, timestamp = entries[-1]
            if self._base + entries[-1][0] >= header.base_offset and header.max_timestamp != timestamp:
                problem = (
                    f"the entry says {timestamp}, the batch's newest record is of {header.max_timestamp}"
                )
                yield Finding(self._path(TIME_INDEX), problem, offset=header.base_offset)
            entries.pop()

    def _check_transactions(self) -> Iterator[Finding]:
        try:
            aborted = load_aborted(self._read(TRANSACTION_INDEX))
        except BadIndex as error:
            yield Finding(self._path(TRANSACTION_INDEX), str(error))
            return
        for transaction in aborted:
            if (
                not transaction.first_offset <= transaction.last_offset < self.next_offset
                or transaction.last_offset < self._base
            ):
                first, last = transaction.first_offset, transaction.last_offset
                problem = f"the transaction from {first} to {last} does not end here"
                yield Finding(self._path(TRANSACTION_INDEX), problem, offset=first)

    def _read(self, kind: str) -> bytes:
        """An index that is not there yet is built when it is needed."""
        return self._disk.read_whole(self._path(kind)) if self._disk.exists(self._path(kind)) else b""

    def _path(self, kind: str) -> str:
        return f"{self._folder}/{file_name(self._base, kind)}"


def _check_records(header: BatchHeader, batch: memoryview) -> None:
    batches.check(batch)
    payload = batches.payload(batch, 0, header, limit=_DECOMPRESSED_BYTES_MAX)
    if not header.count and not payload:
        return  # emptied by compaction
    last = kernel.walk(payload, header.count, consecutive=False)[2]
    if last > header.last_offset_delta:
        raise CorruptBatch(f"The last record's offset is {header.base_offset + last}, behind the batch's end")
