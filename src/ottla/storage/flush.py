"""Making a log durable: decided on the loop, done in a thread, reported back with `Log.on_flushed`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.config.log import LogConfig
from ottla.ports import Disk
from ottla.storage.files import LOG, SEGMENT_KINDS, IndexWrite
from ottla.storage.segment import Segment
from ottla.storage.shortage import is_shortage

_INDEX_ENTRIES_WORTH_A_WRITE = 64


class PutOff(OSError):
    """A flush that could not open its files for want of handles: nothing is lost, it is tried again."""


@dataclass(slots=True)
class Flush:
    """Everything below `up_to` is durable once `run` is through. It opens files of its own, so that the loop
    may close, rename or delete them meanwhile."""

    disk: Disk
    folder: str
    up_to: int
    generation: int
    writes: list[IndexWrite]
    paths: list[str]
    names_changed: bool
    indexes_unwritten: bool = False

    def run(self) -> None:
        """Only I/O; an OSError other than PutOff means that nothing is certain."""
        try:
            for write in self.writes:
                write.run(self.disk)
        except OSError as error:
            if not is_shortage(error):
                raise
            self.indexes_unwritten = True  # they can be made from the log at any time
        for path in self.paths:
            self._sync(path)
        if self.names_changed:
            self.disk.sync_folder(self.folder)
            self.disk.sync_folder(self.folder.rpartition("/")[0])

    def _sync(self, path: str) -> None:
        try:
            file = self.disk.open(path)
        except FileNotFoundError:
            return  # deleted meanwhile, and with it the need
        except OSError as error:
            if is_shortage(error):
                raise PutOff(error.errno, error.strerror, path) from error
            raise
        try:
            file.sync()
        finally:
            file.close()


class Durability:
    """How far a log is durable, and what is not: its tail, files written beside it, names."""

    __slots__ = (
        "_disk",
        "_folder",
        "_names_changed",
        "_unflushed_since_ms",
        "_unsynced",
        "generation",
        "point",
    )

    def __init__(self, disk: Disk, folder: str, point: int) -> None:
        self.point = point  # the recovery point: all below is durable
        self._disk = disk
        self._folder = folder
        self._names_changed = True
        self._unsynced: list[str] = []
        self._unflushed_since_ms: int | None = None
        self.generation = 0  # a truncation during a flush makes its result worthless

    def on_append(self, now_ms: int) -> None:
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms

    def on_written(self, paths: Iterable[str]) -> None:
        """Files beside the active log were made or replaced."""
        self._unsynced.extend(paths)
        self._names_changed = True

    def on_names_changed(self) -> None:
        self._names_changed = True

    def on_moved(self, folder: str) -> None:
        self._unsynced = [folder + path.removeprefix(self._folder) for path in self._unsynced]
        self._folder = folder
        self._names_changed = True

    def on_truncated(self, end_offset: int) -> None:
        self.point = min(self.point, end_offset)
        self.generation += 1
        self._names_changed = True

    def is_due(self, end_offset: int, active_base_offset: int, config: LogConfig, now_ms: int) -> bool:
        """By flush.messages, flush.ms, or because a segment was closed."""
        unflushed = end_offset - self.point
        if unflushed <= 0 or self._unflushed_since_ms is None:
            return False
        return (
            unflushed >= config.flush_messages
            or now_ms - self._unflushed_since_ms >= config.flush_ms
            or active_base_offset > self.point
        )

    def begin(self, segments: Sequence[Segment], end_offset: int, *, all_indexes: bool) -> Flush | None:
        """`segments` from the one on that holds the recovery point. None when nothing is left to do."""
        if self.point >= end_offset and not self._unsynced:
            return None
        active = segments[-1]
        writes: list[IndexWrite] = []
        if active.size_bytes and (
            all_indexes or active.index_entries_unwritten >= _INDEX_ENTRIES_WORTH_A_WRITE
        ):
            writes = active.index_writes()
        paths = self._unsynced
        if all_indexes:
            paths.extend(write.path for write in writes)
        for segment in segments:
            kinds = SEGMENT_KINDS if segment.is_sealed else (LOG,)
            paths.extend(segment.path(kind) for kind in kinds)
        flush = Flush(
            self._disk, self._folder, end_offset, self.generation, writes, paths, self._names_changed
        )
        self._unsynced, self._names_changed, self._unflushed_since_ms = [], False, None
        return flush

    def on_put_off(self, flush: Flush, now_ms: int) -> None:
        self._unsynced = [*flush.paths, *self._unsynced]
        self._names_changed = self._names_changed or flush.names_changed
        self._unflushed_since_ms = self._unflushed_since_ms or now_ms

    def on_flushed(self, flush: Flush) -> None:
        if flush.generation == self.generation:
            self.point = max(self.point, flush.up_to)
