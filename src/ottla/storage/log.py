"""One partition's log: segments in order, appended to at the end, read from anywhere.

Synchronous and on the event loop: appends go to the page cache, reads are bounded. What is slow (syncing,
unlinking) is handed out: `begin_flush`, and the paths that deleting segments gives back.
"""

import enum
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from ottla import errors
from ottla.config.log import LogConfig
from ottla.ports import Buffer, Disk
from ottla.storage import search
from ottla.storage.epochs import EpochStart, LeaderEpochs
from ottla.storage.files import DELETED, EPOCHS, LOG, PARTITION_METADATA, SEGMENT_KINDS, FileCache
from ottla.storage.flush import Flush
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.markers import build_marker, read_marker
from ottla.storage.partition_files import (
    NO_TOPIC_ID,
    read_epochs,
    read_topic_id,
    write_epochs,
    write_topic_id,
)
from ottla.storage.producers import ProducerEntry, Producers
from ottla.storage.recovery import Recovery
from ottla.storage.retention import Expiry, expired
from ottla.storage.search import Found
from ottla.storage.segment import IndexWrite, Segment, Slice, segment_ms
from ottla.storage.snapshots import (
    apply_batch,
    load_producers,
    offsets_of_snapshots,
    remove_stray_snapshots,
    snapshot_path,
    write_snapshot,
)
from ottla.storage.swap import Swap, recover_swaps
from ottla.storage.validation import accept
from ottla.wire.batch import BatchHeader, CorruptBatch, check

_STAMP = struct.Struct(">qii")  # base offset, length, leader epoch: what comes before the magic
_LENGTH_STARTS_AT = 12
_NO_TIMESTAMP = -1
_INDEX_ENTRIES_WORTH_A_WRITE = 64


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
        self.segments = segments
        self.end_offset = segments[-1].next_offset
        self.high_watermark = log_start_offset
        self.recovery_point = self.end_offset
        self.failed: OSError | None = None
        self._files = files
        self._active = segments[-1]
        self._is_new = len(segments) == 1 and not segments[0].size_bytes  # nothing may be on disk yet
        self._names_changed = True
        self._unsynced: list[str] = []  # small files written since the last flush
        self._unflushed_since_ms: int | None = None
        self._generation = 0
        self._doomed: list[str] = []

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
        """Slow: the shell does it in a thread. A log that does not exist yet is made at its first append."""
        try:
            recover_swaps(disk, folder, report)
            epochs = read_epochs(disk, folder, report)
            found_id = read_topic_id(disk, folder, report)
            recovery = Recovery(disk, files, folder, config, epochs, now_ms=now_ms, report=report)
            recovered = recovery.run(clean=clean, recovery_point=recovery_point)
            segments = recovered.segments
            if not segments or segments[-1].next_offset < log_start_offset:
                for segment in segments:
                    report(
                        f"{segment.path(LOG)} ends before the log start offset {log_start_offset} and goes"
                    )
                    segment.rename(DELETED)
                segments = [Segment(disk, files, folder, log_start_offset, created_ms=now_ms)]
            end_offset = segments[-1].next_offset
            at_most = min(recovered.rebuilt_from, end_offset)
            producers = load_producers(disk, folder, segments, end_offset, at_most=at_most, report=report)
            remove_stray_snapshots(disk, folder, segments)
            start = max(log_start_offset, segments[0].base_offset)
            epochs.truncate_from_end(end_offset)
            epochs.truncate_from_start(start)
        except OSError as error:
            raise errors.KafkaStorageError(f"{folder} cannot be opened: {error}") from error
        log = cls(
            disk,
            folder,
            config,
            files,
            segments,
            epochs=epochs,
            producers=producers,
            log_start_offset=start,
            topic_id=topic_id or found_id,
        )
        log.recovery_point = end_offset if clean else min(max(recovery_point, start), end_offset)
        if not clean:  # written before the crash, and perhaps never synced
            names = [EPOCHS, PARTITION_METADATA]
            log._unsynced = [f"{folder}/{name}" for name in names if disk.exists(f"{folder}/{name}")]
        producers.expire(now_ms, config.producer_id_expiration_ms)
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
        """This broker leads from here on: the epoch is known even before it has records."""
        if leader_epoch > self.epochs.latest:
            with self._failing():
                self._assign_epoch(leader_epoch, self.end_offset)

    # Appending.

    def append(
        self, batch: Buffer, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """As the leader: check, validate, check the sequence, stamp, write. Nothing changes if it raises."""
        if origin is Origin.CLIENT:
            header, batch = accept(batch, self.config, now_ms)
            if header.producer_id >= 0:
                earlier = self.producers.check(header)
                if earlier is not None:
                    stamped_ms = earlier.timestamp if self.config.log_append_time else _NO_TIMESTAMP
                    return Appended(earlier.first_offset, earlier.last_offset + 1, stamped_ms, True)
        else:
            header = check(batch)
            self._check_own(header, batch)
        return self._append(header, batch, leader_epoch, now_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        committed: bool,
        coordinator_epoch: int,
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> Appended:
        """End a transaction; INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED when too late."""
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
            if self._active.should_roll(
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
        segment = self._active
        try:
            if self._is_new:
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
            apply_batch(self.producers, segment, header, batch)
        self.end_offset = next_offset = last_offset + 1
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        return Appended(base_offset, next_offset, now_ms if header.log_append_time else _NO_TIMESTAMP, False)

    def _append_run(self, data: memoryview, run: list[BatchHeader], now_ms: int) -> None:
        if not run:
            return
        if self.failed is not None:
            self._refuse()
        segment = self._active
        try:
            if self._is_new:
                self._make_folder()
            for header in run:
                if header.leader_epoch > self.epochs.latest:
                    self._assign_epoch(header.leader_epoch, header.base_offset)
            segment.append_many(data, run, self.config.index_interval_bytes)
        except OSError as error:
            self._on_write_error(segment, error)
        position = 0
        for header in run:
            if header.producer_id >= 0:
                batch = data[position : position + header.size] if header.is_control else b""
                apply_batch(self.producers, segment, header, batch)
            position += header.size
        self.end_offset = run[-1].next_offset
        if self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms

    def _make_folder(self) -> None:
        self.disk.make_folder(self.folder)
        if self.topic_id != NO_TOPIC_ID:
            write_topic_id(self.disk, self.folder, self.topic_id)
            self._unsynced.append(f"{self.folder}/{PARTITION_METADATA}")
        self._is_new = False
        self._names_changed = True

    def _assign_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)
        self._save_epochs()

    def _save_epochs(self) -> None:
        if self.epochs.dirty and not self._is_new:
            write_epochs(self.disk, self.folder, self.epochs)
            self._unsynced.append(f"{self.folder}/{EPOCHS}")
            self._names_changed = True

    def _on_write_error(self, segment: Segment, error: OSError) -> NoReturn:
        """Cut back what was half written; if not even that works, the log takes nothing any more."""
        try:
            file = segment.open_for_append()
            if file.size() != segment.size_bytes:
                file.truncate(segment.size_bytes)
        except OSError:
            self.failed = error
        raise errors.KafkaStorageError(f"{self.folder}: {error}") from error

    # Rolling.

    def roll_if_due(self, now_ms: int) -> bool:
        """A segment that nobody appends to any more is closed too, so that compaction gets at it."""
        segment = self._active
        if segment.size_bytes and now_ms - segment.created_ms > segment_ms(self.config, segment.base_offset):
            self._guarded_roll(self.end_offset, now_ms)
            return True
        return False

    def _guarded_roll(self, base_offset: int, now_ms: int) -> None:
        with self._failing():
            self._roll(base_offset, now_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Close the active segment and start the next one, with a snapshot of the producers at its start."""
        if not self._active.size_bytes and self._active.base_offset == base_offset:
            return self._active
        sealed = self._active
        segment = Segment(self.disk, self._files, self.folder, base_offset, created_ms=now_ms)
        try:
            sealed.seal()
            # Its name keeps the end offset, even if all that is before it goes.
            segment.open_for_append()
            self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
            self._unsynced.append(write_snapshot(self.disk, self.folder, base_offset, self.producers))
        except OSError as error:
            self.failed = error
            raise
        self._names_changed = True
        if sealed.size_bytes:
            self._unsynced += [sealed.path(kind) for kind in SEGMENT_KINDS]
        else:
            self._doom([self.segments.pop()])
        self.segments.append(segment)
        self._active = segment
        return segment

    # Reading.

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True) -> Slice:
        """Whole batches from the one that holds `offset`, never one at or behind `up_to`."""
        if not self.log_start_offset <= offset <= self.end_offset:
            raise errors.OffsetOutOfRange(
                f"Offset {offset} is outside of [{self.log_start_offset}, {self.end_offset}] of {self.folder}"
            )
        if offset >= up_to or offset == self.end_offset:
            return Slice(b"", offset)
        at = len(self.segments) - 1 if offset >= self._active.base_offset else self._floor(offset)
        try:
            for segment in self.segments[at:]:
                found = segment.read(offset, max_bytes, up_to, at_least_one)
                if found is not None:
                    return found
        except OSError as error:
            self.failed = error
            self._refuse()
        return Slice(b"", offset)

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
        for segment in self.segments[self._floor(start) :]:
            for each in segment.aborted:
                if each.last_offset >= start and each.first_offset < end:
                    found.append(each)
                if each.last_stable_offset >= end:
                    return found
        return found

    def offset_for_timestamp(self, timestamp: int, *, up_to: int | None = None) -> Found | None:
        """The first record with this timestamp or a later one."""
        with self._failing():
            return search.first_at_or_after(
                self.segments,
                timestamp,
                log_start_offset=self.log_start_offset,
                end_offset=self.end_offset if up_to is None else up_to,
            )

    def offset_of_max_timestamp(self, *, up_to: int | None = None) -> Found | None:
        with self._failing():
            return search.newest(
                self.segments,
                log_start_offset=self.log_start_offset,
                end_offset=self.end_offset if up_to is None else up_to,
            )

    def end_of_epoch(self, epoch: int) -> EpochStart:
        """(epoch, end offset): where a follower that is at this epoch has to truncate to."""
        return self.epochs.end_of(epoch, self.end_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # Letting go of records.

    def truncate_to(self, offset: int) -> None:
        """Forget everything from `offset` on (the whole batch, if it is inside of one)."""
        if offset >= self.end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.restart_at(offset)
            return
        with self._failing():
            at = self._floor(offset)
            self._doom(self.segments[at + 1 :])
            del self.segments[at + 1 :]
            self._active = segment = self.segments[-1]
            segment.reopen()
            position, header = next(segment.headers_from(offset), (segment.size_bytes, None))
            if header is not None and header.base_offset < offset:
                offset = header.base_offset
            segment.cut(position, offset)
            self._moved_back_to(offset)
            self.producers = load_producers(
                self.disk, self.folder, self.segments, offset, at_most=offset, report=lambda _: None
            )
            self.epochs.truncate_from_end(offset)
            self._save_epochs()

    def restart_at(self, offset: int) -> None:
        """Empty, and from now on starting at `offset`: the leader has nothing of what is here."""
        with self._failing():
            self._doom(self.segments)
            self._active = Segment(self.disk, self._files, self.folder, offset)
            self._active.open_for_append()
            self.segments = [self._active]
            for each in offsets_of_snapshots(self.disk, self.folder):
                self.disk.remove(snapshot_path(self.folder, each))
            self.producers = Producers()
            self.log_start_offset = self.high_watermark = self.end_offset = offset
            self._moved_back_to(offset)
            self.recovery_point = offset
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
            doomed = [each for each in segments if each is not self._active]
            self.segments = [each for each in self.segments if each not in doomed]
            self._doom(doomed)
            self._start_at(max(self.log_start_offset, self.segments[0].base_offset))

    def take_doomed(self) -> list[str]:
        """Renamed files, to be unlinked in a thread after file.delete.delay.ms."""
        doomed, self._doomed = self._doomed, []
        return doomed

    def _doom(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self._doomed += segment.rename(DELETED)
            path = snapshot_path(self.folder, segment.base_offset)
            if segment is not self._active and self.disk.exists(path):
                self.disk.rename(path, path + DELETED)
                self._doomed.append(path + DELETED)
        self._names_changed = True

    def _start_at(self, offset: int) -> None:
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.producers.on_log_start_offset(offset)
        self.epochs.truncate_from_start(offset)
        with self._failing():
            self._save_epochs()

    def _moved_back_to(self, offset: int) -> None:
        self.end_offset = offset
        self.high_watermark = min(self.high_watermark, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self._generation += 1
        self._names_changed = True

    # Compaction.

    def closed_segments(self) -> Sequence[Segment]:
        return self.segments[:-1]

    @property
    def active_base_offset(self) -> int:
        return self._active.base_offset

    @property
    def producer_entries(self) -> Mapping[int, ProducerEntry]:
        return self.producers.entries

    def swap_in(self, swap: Swap, size_bytes: Mapping[int, int]) -> bool:
        """Put a cleaned segment in the place of closed ones; False when they changed meanwhile."""
        old = [each for each in self.closed_segments() if each.base_offset in swap.replaced]
        if [each.base_offset for each in old] != list(swap.replaced):
            return False
        if any(each.size_bytes != size_bytes[each.base_offset] for each in old):
            return False
        with self._failing():
            for segment in old:
                segment.close()
            swap.switch()
            at = self.segments.index(old[0])
            self.segments[at : at + len(old)] = [
                Segment.sealed(
                    self.disk, self._files, self.folder, swap.base_offset, next_offset=old[-1].next_offset
                )
            ]
        return True

    # Making it durable.

    def flush_due(self, now_ms: int) -> bool:
        """By flush.messages, flush.ms, or because a segment was closed."""
        unflushed = self.end_offset - self.recovery_point
        if unflushed <= 0 or self._unflushed_since_ms is None:
            return False
        return (
            unflushed >= self.config.flush_messages
            or now_ms - self._unflushed_since_ms >= self.config.flush_ms
            or self._active.base_offset > self.recovery_point
        )

    def begin_flush(self) -> Flush | None:
        """All that is not durable yet; None when everything is."""
        if self.recovery_point >= self.end_offset and not self._unsynced:
            return None
        paths, writes = self._unsynced, self._index_writes(_INDEX_ENTRIES_WORTH_A_WRITE)
        for segment in self.segments[self._floor(self.recovery_point) :]:
            kinds = SEGMENT_KINDS if segment.is_sealed else (LOG,)
            paths.extend(segment.path(kind) for kind in kinds)
        flush = Flush(
            self.disk, self.folder, self.end_offset, self._generation, writes, paths, self._names_changed
        )
        self._unsynced, self._names_changed, self._unflushed_since_ms = [], False, None
        return flush

    def on_flushed(self, flush: Flush) -> None:
        """`flush.run` came back without an error."""
        if flush.generation == self._generation:
            self.recovery_point = max(self.recovery_point, flush.up_to)

    def fail(self, error: OSError) -> None:
        """The disk failed in a thread: from here on every append is refused."""
        self.failed = error

    def close(self, clean: bool) -> None:
        """Slow when clean: all of it is made durable, with what the next start needs to be quick."""
        if clean and self.failed is None and self._active.size_bytes + len(self.segments) > 1:
            with self._failing():
                self._active.finish_time_index()
                path = write_snapshot(self.disk, self.folder, self.end_offset, self.producers)
                self._unsynced.append(path)
                self._names_changed = True
                writes = self._index_writes(0)
                flush = self.begin_flush()
                assert flush is not None
                flush.writes = writes
                flush.paths.extend(write.path for write in writes)
                flush.run()
                self.on_flushed(flush)
        for segment in self.segments:
            segment.close()

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config

    def _index_writes(self, entries_min: int) -> list[IndexWrite]:
        if self._active.size_bytes and self._active.index_entries_unwritten >= entries_min:
            return self._active.index_writes()
        return []

    def _floor(self, offset: int) -> int:
        """The index of the segment that holds the offset, or would."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """An OSError in here leaves us not knowing what is on disk."""
        try:
            yield
        except OSError as error:
            self.failed = error
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise errors.KafkaStorageError(f"{self.folder}: {self.failed}") from self.failed


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
