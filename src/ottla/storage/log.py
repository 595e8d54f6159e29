"""One partition's log: segments in order, appended to at the end, read from anywhere.

Synchronous and on the event loop: appends go to the page cache, reads are bounded. What is slow (syncing,
unlinking) is handed out: `begin_flush`, and the paths that deleting segments gives back.
"""

import enum
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from ottla import errors
from ottla.config.log import LogConfig
from ottla.ports import Buffer, Disk
from ottla.storage import search
from ottla.storage.epochs import EpochStart, LeaderEpochs
from ottla.storage.files import EPOCHS, PARTITION_METADATA, SEGMENT_KINDS, FileCache
from ottla.storage.flush import Durability, Flush
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.markers import build_marker, read_marker
from ottla.storage.opening import open_folder
from ottla.storage.partition_files import (
    NO_TOPIC_ID,
    write_epochs,
    write_topic_id,
)
from ottla.storage.producers import ProducerEntry, Producers
from ottla.storage.reading import Place, Slice, position_of, read_batches
from ottla.storage.retention import Expiry, expired
from ottla.storage.search import Found, Search
from ottla.storage.segment import Segment, segment_ms
from ottla.storage.segments import Segments
from ottla.storage.shortage import is_shortage
from ottla.storage.snapshots import (
    apply_batch,
    load_producers,
    write_snapshot,
)
from ottla.storage.swap import Swap
from ottla.storage.validation import Accepted, accept
from ottla.wire.batch import BatchHeader, CorruptBatch, check

_STAMP = struct.Struct(">qii")  # base offset, length, leader epoch: what comes before the magic
_LENGTH_STARTS_AT = 12
_NO_TIMESTAMP = -1


class Origin(enum.Enum):
    CLIENT = "client"
    COORDINATOR = "coordinator"  # may write control batches, and batches without a sequence


class Appended(NamedTuple):
    base_offset: int
    next_offset: int
    log_append_time_ms: int  # -1 unless the topic stamps records
    duplicate: bool


class Log:
    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        files: FileCache,
        segments: list[Segment],
        *,
        epochs: LeaderEpochs,
        producers: Producers,
        log_start_offset: int,
        topic_id: bytes,
    ) -> None:
        """See `open`."""
        self.disk = disk
        self.folder = folder
        self.config = config
        self.epochs = epochs
        self.producers = producers
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.end_offset = segments[-1].next_offset
        self.high_watermark = log_start_offset
        self.failed: OSError | None = None
        self.on_failed: Callable[[OSError], None] = lambda error: None  # the folder listens here
        self.on_moved_back: Callable[[int], None] = lambda offset: None  # and here
        self.settle: Callable[[], None] = lambda: None  # see `unsettle`
        self._segments = Segments(disk, files, folder, segments)
        self._durability = Durability(disk, folder, self.end_offset)
        self._is_new = len(segments) == 1 and not segments[0].size_bytes  # nothing may be on disk yet
        self._small_files_due = self._is_new  # with the next append
        self._names_due = False  # and so are these

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        config: LogConfig,
        *,
        files: FileCache,
        now_ms: int,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        report: Callable[[str], None],
        topic_id: bytes | None = None,
    ) -> "Log":
        """A log that does not exist yet is made at its first append.

        Slow: the shell does it in a thread, with a file cache of its own, and then calls `share_files`.
        """
        try:
            opened = open_folder(
                disk,
                folder,
                config,
                files=files,
                now_ms=now_ms,
                clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                report=report,
            )
        except OSError as error:
            raise errors.KafkaStorageError(f"{folder} cannot be opened: {error}") from error
        log = cls(
            disk,
            folder,
            config,
            files,
            opened.segments,
            epochs=opened.epochs,
            producers=opened.producers,
            log_start_offset=opened.log_start_offset,
            topic_id=topic_id or opened.topic_id,
        )
        if not clean:
            log._durability.point = min(max(recovery_point, log.log_start_offset), log.end_offset)
            small = [f"{folder}/{EPOCHS}", f"{folder}/{PARTITION_METADATA}"]  # perhaps never synced
            log._durability.on_written(path for path in small if disk.exists(path))
        return log

    @classmethod
    def create(
        cls, disk: Disk, folder: str, config: LogConfig, *, files: FileCache, now_ms: int, topic_id: bytes
    ) -> "Log":
        """A log that was never written to: nothing is looked for on disk, so it is quick."""
        segments = [Segment(disk, files, folder, 0, created_ms=now_ms)]
        return cls(
            disk,
            folder,
            config,
            files,
            segments,
            epochs=LeaderEpochs(),
            producers=Producers(),
            log_start_offset=0,
            topic_id=topic_id,
        )

    def begin_epoch(self, leader_epoch: int) -> None:
        """This broker leads from here on: the epoch is known even before it has records. It is written down
        with the first of them: thousands of logs may begin one at the same time."""
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, self.end_offset)
            self._small_files_due = True

    def unsettle(self) -> None:
        """The folder's checkpoints may tell of more than there is here. Before anything comes in its place
        `settle` is called: after a crash it would be believed unchecked."""
        self._small_files_due = True

    # Appending.

    def append(
        self, batch: Buffer | Accepted, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """As the leader: check, validate, check the sequence, stamp, write. Nothing changes if it raises.

        Of a client, `batch` may have been accepted before: with the `now_ms` of then."""
        if isinstance(batch, Accepted):
            return self._append_accepted(batch, leader_epoch)
        if origin is Origin.CLIENT:
            return self._append_accepted(accept(batch, self.config, now_ms), leader_epoch)
        header = check(batch)
        self._check_own(header, batch)
        return self._append(header, batch, leader_epoch, now_ms)

    def _append_accepted(self, accepted: Accepted, leader_epoch: int) -> Appended:
        header = accepted.header
        if header.producer_id >= 0:
            earlier = self.producers.check(header)
            if earlier is not None:
                return Appended(earlier.first_offset, earlier.last_offset + 1, earlier.timestamp, True)
        return self._append(header, accepted.batch, leader_epoch, accepted.now_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        *,
        leader_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> Appended:
        """End a transaction; INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED when too late."""
        self.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        batch = build_marker(
            producer_id,
            producer_epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            now_ms=now_ms,
        )
        return self.append(batch, leader_epoch=leader_epoch, now_ms=now_ms, origin=Origin.COORDINATOR)

    def append_replicated(self, data: Buffer, *, now_ms: int) -> int:
        """As a follower: the leader's batches as they are. The new end offset."""
        view = memoryview(data)
        run: list[BatchHeader] = []
        start = position = 0
        next_offset = self.end_offset
        while position + _LENGTH_STARTS_AT <= len(view):
            (length,) = struct.unpack_from(">i", view, position + 8)
            if position + _LENGTH_STARTS_AT + length > len(view) and run:
                break  # the leader's answer was cut off here
            header = check(view, position)
            if header.base_offset < next_offset:
                raise CorruptBatch(f"Offset {header.base_offset} was fetched where {next_offset} was due")
            if self._segments.active.should_roll(
                position + header.size - start, header.last_offset, header.max_timestamp, self.config, now_ms
            ):
                self._append_run(view[start:position], run, now_ms)
                run, start = [], position
                self._guarded_roll(header.base_offset, now_ms)
            run.append(header)
            position += header.size
            next_offset = header.next_offset
        self._append_run(view[start:position], run, now_ms)
        return self.end_offset

    def _check_own(self, header: BatchHeader, batch: Buffer) -> None:
        """What a coordinator appends is well formed; whether its time has passed is the question."""
        if header.size != len(batch):
            raise errors.InvalidRecord("A partition takes exactly one record batch at a time")
        if header.size > self.config.segment_bytes:
            raise errors.RecordListTooLarge
        if header.producer_id < 0:
            return
        marker = read_marker(batch) if header.is_control else None
        if marker is not None:
            self.producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
        else:
            self.producers.check_epoch(header)

    def _append(self, header: BatchHeader, batch: Buffer, leader_epoch: int, now_ms: int) -> Appended:
        if self.failed is not None:
            self._refuse()
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        header.base_offset = base_offset
        size, max_timestamp, config = header.size, header.max_timestamp, self.config
        segment = self._segments.active
        try:
            if self._small_files_due:
                self._make_folder()
            if segment.should_roll(size, last_offset, max_timestamp, config, now_ms):
                segment = self._roll(base_offset, now_ms)
            if leader_epoch != self.epochs.latest:
                self._assign_epoch(leader_epoch, base_offset)
            stamp = _STAMP.pack(base_offset, size - _LENGTH_STARTS_AT, leader_epoch)
            segment.append(
                (stamp, memoryview(batch)[16:]), size, last_offset, max_timestamp, config.index_interval_bytes
            )
        except OSError as error:
            self._on_write_error(segment, error)
        if header.producer_id >= 0:
            self.producers.now_ms = now_ms
            apply_batch(self.producers, segment, header, batch)
        self.end_offset = next_offset = last_offset + 1
        self._durability.on_append(now_ms)
        return Appended(base_offset, next_offset, now_ms if header.log_append_time else _NO_TIMESTAMP, False)

    def _append_run(self, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        if not run:
            return
        if self.failed is not None:
            self._refuse()
        segment = self._segments.active
        try:
            if self._small_files_due:
                self._make_folder()
            for header in run:
                if header.leader_epoch > self.epochs.latest:
                    self._assign_epoch(header.leader_epoch, header.base_offset)
            segment.append_many(data, run, self.config.index_interval_bytes)
        except OSError as error:
            self._on_write_error(segment, error)
        position = 0
        self.producers.now_ms = now_ms
        for header in run:
            if header.producer_id >= 0:
                batch = data[position : position + header.size] if header.is_control else b""
                apply_batch(self.producers, segment, header, batch)
            position += header.size
        self.end_offset = run[-1].next_offset
        self._durability.on_append(now_ms)

    def _make_folder(self) -> None:
        self.settle()
        self.disk.make_folder(self.folder)
        if self._names_due:
            self.disk.sync_folder(self.folder)
            self._names_due = False
        if self.topic_id != NO_TOPIC_ID:
            write_topic_id(self.disk, self.folder, self.topic_id)
            self._durability.on_written([f"{self.folder}/{PARTITION_METADATA}"])
        self._is_new = self._small_files_due = False
        self._save_epochs()  # an epoch may have begun before

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)
        self._save_epochs()

    def _save_epochs(self) -> None:
        if self.epochs.dirty and not self._is_new:
            try:
                write_epochs(self.disk, self.folder, self.epochs)
            except OSError as error:
                if not is_shortage(error):
                    raise
                self._small_files_due = True  # the next append tries again
                return
            self._durability.on_written([f"{self.folder}/{EPOCHS}"])

    def _epochs_saved(self) -> bool:
        """Behind the recovery point batches are not asked for their epochs any more."""
        try:
            self._save_epochs()
        except OSError as error:
            self.fail(error)
        return not self.epochs.dirty

    def _on_write_error(self, segment: Segment, error: OSError) -> NoReturn:
        """Cut back what was half written. A full disk may have room again; after any other error, or if not
        even the cut works, the log takes nothing any more."""
        try:
            segment.cut_back()
        except OSError:
            self.fail(error)
        if not is_shortage(error):
            self.fail(error)
        raise errors.KafkaStorageError(f"{self.folder}: {error}") from error

    # Rolling.

    def roll_if_due(self, now_ms: int) -> bool:
        """A segment that nobody appends to any more is closed too, so that compaction gets at it."""
        segment = self._segments.active
        if segment.size_bytes and now_ms - segment.created_ms > segment_ms(self.config, segment.base_offset):
            self._guarded_roll(self.end_offset, now_ms)
            return True
        return False

    def _guarded_roll(self, base_offset: int, now_ms: int) -> None:
        with self.reading():  # what could not be rolled for want of room is as it was
            self._roll(base_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Close the active segment, with a snapshot of the producers at the start of the next one."""
        active = self._segments.active
        if not active.size_bytes and active.base_offset == base_offset:
            return active
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        snapshot = write_snapshot(self.disk, self.folder, base_offset, self.producers)
        closed = self._segments.roll(base_offset, now_ms)
        self._durability.on_written([snapshot, *(closed.path(kind) for kind in SEGMENT_KINDS)])
        return self._segments.active

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
            for segment in self._segments.holding(offset):
                found = read_batches(
                    segment, offset, max_bytes=max_bytes, up_to=up_to, at_least_one=at_least_one
                )
                if found is not None:
                    return found
        except OSError as error:
            if not is_shortage(error):
                self.fail(error)
            self._refuse(error)
        return Slice(b"", offset)

    def place_of(self, offset: int) -> Place:
        """Where the batch that holds `offset` starts; see `bytes_from`."""
        with self.reading():
            segment = self._segments.all[self._segments.floor(offset)]
            return Place(segment, position_of(segment, offset))

    def bytes_from(self, place: Place, end: int) -> int | None:
        """How many bytes of batches there are below `end`; None when that segment left the log."""
        active = self._segments.active
        if place.segment is active and end >= active.next_offset:
            return active.size_bytes - place.position
        segments = self._segments.holding(place.segment.base_offset)
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
        """All transactions below it are decided; never above the high watermark."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None or first_unstable > self.high_watermark:
            return self.high_watermark
        return first_unstable

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those with records in [start, end), as a fetch names them to the consumer."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.holding(start):
            for each in segment.aborted:
                if each.last_offset >= start and each.first_offset < end:
                    found.append(each)
                if each.last_stable_offset >= end:
                    return found
        return found

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

    @property
    def segments(self) -> Sequence[Segment]:
        """In order; the last one is active."""
        return self._segments.all

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # Letting go of records.

    def truncate_to(self, offset: int) -> None:
        """Forget everything from `offset` on (the whole batch, if it is inside of one)."""
        if offset >= self.end_offset:
            # An epoch that was begun here without a record is not the next leader's.
            self.epochs.truncate_from_end(offset)
            with self._failing():
                self._save_epochs()
            return
        if offset < self.segments[0].base_offset:
            self.restart_at(offset)
            return
        with self._failing():
            offset = self._segments.cut(offset)
            self._moved_back_to(offset)
            self.producers = load_producers(
                self.disk, self.folder, self.segments, offset, at_most=offset, report=lambda _: None
            )
            self.epochs.truncate_from_end(offset)
            self._save_epochs()

    def restart_at(self, offset: int) -> None:
        """Empty, and from now on starting at `offset`: the leader has nothing of what is here."""
        with self._failing():
            self._segments.restart(offset)
            self.producers = Producers()
            self._moved_back_to(offset)
            self.log_start_offset = self.high_watermark = offset
            self._durability.point = offset
            self.epochs.clear()
            self._save_epochs()

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords: the log starts here now; what is before goes with retention. The new start."""
        if offset > self.high_watermark:
            raise errors.OffsetOutOfRange(
                f"Offset {offset} is above the high watermark {self.high_watermark} of {self.folder}"
            )
        self._start_at(offset)
        return self.log_start_offset

    def expired(self, now_ms: int) -> Expiry:
        """What retention would let go."""
        return expired(
            self.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            high_watermark=self.high_watermark,
            end_offset=self.end_offset,
            now_ms=now_ms,
        )

    def expire(self, now_ms: int) -> Expiry:
        """Let go of what is too old or too much, and of producers that were silent for long."""
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        expiry = self.expired(now_ms)
        if expiry.doomed:
            if expiry.roll_first:
                self._guarded_roll(self.end_offset, now_ms)
            bases = {each.base_offset for each in expiry.doomed}
            self.delete_segments([each for each in self.segments if each.base_offset in bases])
            self._start_at(expiry.log_start_offset)
        return expiry

    def delete_segments(self, segments: Sequence[Segment]) -> None:
        """Out of the log at once, by renaming; see `take_doomed`. Never the active one."""
        with self._failing():
            self._segments.delete(segments)
            self._durability.on_names_changed()
        self._start_at(max(self.log_start_offset, self.segments[0].base_offset))

    def take_doomed(self) -> list[str]:
        """Renamed files, to be unlinked in a thread after file.delete.delay.ms."""
        return self._segments.take_doomed()

    def _start_at(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.producers.on_log_start_offset(offset)
        self.epochs.truncate_from_start(offset)
        with self._failing():
            self._save_epochs()

    def _moved_back_to(self, offset: int) -> None:
        if offset < max(self.recovery_point, self.high_watermark):
            self.on_moved_back(offset)
            self.unsettle()
        if self._segments.has_doomed:
            # A power cut may bring them back: they would be taken for what follows the records that come next.
            self._names_due = self._small_files_due = True
        self.end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self._durability.on_truncated(offset)

    # Compaction.

    def closed_segments(self) -> Sequence[Segment]:
        return self.segments[:-1]

    @property
    def active_base_offset(self) -> int:
        return self._segments.active.base_offset

    @property
    def producer_entries(self) -> Mapping[int, ProducerEntry]:
        return self.producers.entries

    def swap_in(self, swap: Swap, size_bytes: Mapping[int, int]) -> bool:
        """Put a cleaned segment in the place of closed ones; False when they changed meanwhile."""
        with self._failing():
            return self._segments.swap_in(swap, size_bytes)

    # Making it durable.

    @property
    def recovery_point(self) -> int:
        """All below is durable, and is not checked after a crash."""
        return self._durability.point

    def flush_due(self, now_ms: int) -> bool:
        return self._durability.is_due(self.end_offset, self.active_base_offset, self.config, now_ms)

    def begin_flush(self) -> Flush | None:
        """All that is not durable yet; None when everything is, or cannot be made so now. Run it in a thread,
        then `on_flushed`."""
        if self.epochs.dirty and not self._is_new and not self._epochs_saved():
            return None
        return self._durability.begin(
            self._segments.holding(self.recovery_point), self.end_offset, all_indexes=False
        )

    def on_flushed(self, flush: Flush) -> None:
        """`flush.run` came back without an error."""
        self._durability.on_flushed(flush)
        if flush.indexes_unwritten and not self._segments.active.is_sealed:
            self._segments.active.forget_written_indexes()

    def on_flush_put_off(self, flush: Flush, now_ms: int) -> None:
        """`flush.run` could not even begin: all of it is still to be done."""
        self._durability.on_put_off(flush, now_ms)

    def fail(self, error: OSError) -> None:
        """The disk failed: from here on every append is refused."""
        if self.failed is None:
            self.failed = error
            self.on_failed(error)

    def close(self, clean: bool) -> None:
        """Slow when clean: all of it is made durable, with what the next start needs to be quick."""
        is_empty = len(self.segments) == 1 and not self.size_bytes
        if clean and self.failed is None and not is_empty:
            with self._failing():
                self._flush_all()
        self._segments.close()

    def _flush_all(self) -> None:
        self._save_epochs()
        if self.epochs.dirty:  # no room: the next start asks the batches
            self.disk.remove(f"{self.folder}/{EPOCHS}")
        self._segments.active.finish_time_index()
        snapshot = write_snapshot(self.disk, self.folder, self.end_offset, self.producers)
        self._durability.on_written([snapshot])
        tail = self._segments.holding(self.recovery_point)
        flush = self._durability.begin(tail, self.end_offset, all_indexes=True)
        if flush is not None:
            flush.run()
            self.on_flushed(flush)
            if flush.indexes_unwritten:  # after a clean stop half of them would be taken for all
                self._segments.active.drop_index_files()
                self.disk.sync_folder(self.folder)

    def move_to(self, folder: str) -> None:
        """Rename the folder. No flush may be under way."""
        with self._failing():
            self._segments.move_to(folder)
        self._durability.on_moved(folder)
        self.folder = folder

    def share_files(self, files: FileCache) -> None:
        """It was opened in a thread, with a cache of its own; from here on it is the event loop's."""
        self._segments.share_files(files)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """An OSError in here leaves us not knowing what is on disk."""
        try:
            yield
        except OSError as error:
            self.fail(error)
            self._refuse(error)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """An OSError in here changes nothing, so that want of room or of file handles passes."""
        try:
            yield
        except OSError as error:
            if not is_shortage(error):
                self.fail(error)
            self._refuse(error)

    def _refuse(self, error: OSError | None = None) -> NoReturn:
        cause = error or self.failed
        raise errors.KafkaStorageError(f"{self.folder}: {cause}") from cause
