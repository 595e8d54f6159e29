"""One partition's log: segments in order, appended to at the end, read from anywhere.

Synchronous and on the event loop: appends go to the page cache, reads are bounded. What is slow (syncing,
unlinking) is left to the caller: `begin_flush`, and the paths of `take_doomed`.
"""

from collections.abc import Callable, Mapping, Sequence

from ottla import errors
from ottla.config.log import LogConfig
from ottla.storage import appending, durability, mirroring, rolling, search, truncation
from ottla.storage.appending import Appended, Origin
from ottla.storage.epochs import EpochStart
from ottla.storage.files import EPOCHS, PARTITION_METADATA, FileCache, Location
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.log_state import LogState
from ottla.storage.opening import LastRun, never_written, open_folder
from ottla.storage.producers import ProducerEntry
from ottla.storage.reading import Place, Slice, position_of, read_batches
from ottla.storage.search import Found, Search
from ottla.storage.segment import Segment
from ottla.storage.shortage import is_shortage
from ottla.storage.swap import Swap

__all__ = ["Appended", "LastRun", "Location", "Log", "Origin"]


class Log(LogState):
    """Opens, reads and renames; what changes records is in a module of its own and listed here as methods."""

    @classmethod
    def open(
        cls,
        location: Location,
        config: LogConfig,
        last_run: LastRun,
        *,
        now_ms: int,
        report: Callable[[str], None],
        topic_id: bytes | None = None,
    ) -> "Log":
        """A log that does not exist yet is created by its first append.

        Slow: the shell does it in a thread, with a file cache of its own, and then calls `share_files`.
        """
        try:
            opened = open_folder(location, config, last_run, now_ms=now_ms, report=report)
        except OSError as error:
            raise errors.KafkaStorageError(f"{location.folder} cannot be opened: {error}") from error
        log = cls(location, config, opened, topic_id or opened.topic_id)
        if not last_run.clean:
            log._distrust(last_run.recovery_point)
        return log

    @classmethod
    def create(cls, location: Location, config: LogConfig, *, now_ms: int, topic_id: bytes) -> "Log":
        """A log that was never written to; its first append makes the folder."""
        return cls(location, config, never_written(location, now_ms), topic_id)

    def _distrust(self, recovery_point: int) -> None:
        """After a crash: what is above the recovery point, and the small files, may never have been synced."""
        self.durability.point = min(max(recovery_point, self.log_start_offset), self.end_offset)
        small = [f"{self.folder}/{EPOCHS}", f"{self.folder}/{PARTITION_METADATA}"]
        self.durability.on_written(path for path in small if self.disk.exists(path))

    begin_epoch = appending.begin_epoch
    append = appending.append
    append_marker = appending.append_marker
    append_replicated = appending.append_replicated
    append_mirrored = mirroring.append_mirrored

    roll_if_due = rolling.roll_if_due

    truncate_to = truncation.truncate_to
    restart_at = truncation.restart_at
    delete_records_before = truncation.delete_records_before
    expired = truncation.expired
    expire = truncation.expire
    delete_segments = truncation.delete_segments
    take_doomed = truncation.take_doomed

    flush_due = durability.flush_due
    begin_flush = durability.begin_flush
    on_flushed = durability.on_flushed
    on_flush_put_off = durability.on_flush_put_off
    close = durability.close

    # Reading.

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True) -> Slice:
        """Whole batches from the one that holds `offset`, never one at or behind `up_to`."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise errors.OffsetOutOfRange(
                f"Offset {offset} is outside of [{self.log_start_offset}, {self.end_offset}] of {self.folder}"
            )
        if offset >= up_to or offset == self.end_offset:
            return Slice(b"", offset)
        try:
            for segment in self.chain.holding(offset):
                batches = read_batches(
                    segment, offset, max_bytes=max_bytes, up_to=up_to, at_least_one=at_least_one
                )
                if batches is not None:
                    return batches
        except OSError as error:  # as `reading` does, without its cost in every fetch
            if not is_shortage(error):
                self.fail(error)
            self.refuse(error)
        return Slice(b"", offset)

    def place_of(self, offset: int) -> Place:
        """Where the batch that holds `offset` starts; see `bytes_from`."""
        with self.reading():
            segment = self.chain.all[self.chain.floor(offset)]
            return Place(segment, position_of(segment, offset))

    def bytes_from(self, place: Place, end: int) -> int | None:
        """How many bytes of batches there are below `end`; None when that segment left the log."""
        active = self.chain.active
        if place.segment is active and end >= active.next_offset:
            return active.size_bytes - place.position
        segments = self.chain.holding(place.segment.base_offset)
        if segments[0] is not place.segment:
            return None
        counted = -place.position
        with self.reading():
            for segment in segments:
                counted += position_of(segment, end)
                if end <= segment.next_offset:
                    break
        return counted

    def advance_high_watermark(self, offset: int) -> None:
        offset = min(offset, self.end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.producers.on_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """All transactions below it are decided; never above the high watermark, nor below the start of the log: the
        first records of an open transaction may be deleted."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log_start_offset)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those with records in [start, end), as a fetch names them to the consumer."""
        overlapping: list[AbortedTransaction] = []
        for segment in self.chain.holding(start):
            for aborted in segment.aborted:
                if aborted.last_offset >= start and aborted.first_offset < end:
                    overlapping.append(aborted)
                if aborted.last_stable_offset >= end:
                    return overlapping
        return overlapping

    def search(self, timestamp: int, *, up_to: int | None = None) -> Search:
        """For the first record with this timestamp or a later one, in steps."""
        return search.first_at_or_after(self, timestamp, self.end_offset if up_to is None else up_to)

    def search_newest(self, *, up_to: int | None = None) -> Search:
        """For the first record of the largest timestamp, in steps."""
        return search.newest(self, self.end_offset if up_to is None else up_to)

    def offset_for_timestamp(self, timestamp: int, *, up_to: int | None = None) -> Found | None:
        with self.reading():
            return search.run(self.search(timestamp, up_to=up_to))

    def offset_of_max_timestamp(self, *, up_to: int | None = None) -> Found | None:
        with self.reading():
            return search.run(self.search_newest(up_to=up_to))

    def end_of_epoch(self, epoch: int) -> EpochStart:
        """(epoch, end offset): where a follower that is at this epoch has to truncate to."""
        return self.epochs.end_of(epoch, self.end_offset)

    # Compaction.

    def closed_segments(self) -> Sequence[Segment]:
        return self.segments[:-1]

    @property
    def producer_entries(self) -> Mapping[int, ProducerEntry]:
        return self.producers.entries

    def swap_in(self, swap: Swap, size_bytes: Mapping[int, int]) -> bool:
        """Put a cleaned segment in the place of closed ones; False when they changed meanwhile."""
        with self.writing():
            return self.chain.swap_in(swap, size_bytes)

    # Moving.

    def move_to(self, folder: str) -> None:
        """Rename the folder. No flush may be under way."""
        with self.writing():
            self.chain.move_to(folder)
        self.durability.on_moved(folder)
        self.pending.on_moved(folder)
        self.folder = folder

    def share_files(self, files: FileCache) -> None:
        """A thread opened the log with its own cache; from here on the event loop's cache is used."""
        self.chain.share_files(files)
