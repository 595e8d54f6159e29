"""One log folder (an entry of `log.dirs`): its partitions, their checkpoints, and what becomes of all of them
when the disk below fails."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field

from ottla.config.log import LogConfig
from ottla.errors import KafkaStorageError
from ottla.frozen import frozen
from ottla.ports import Disk
from ottla.storage import checkpoints
from ottla.storage.checkpoints import Meta, Offsets, TopicPartition
from ottla.storage.files import LOG, FileCache, base_offset_of
from ottla.storage.folder_names import DELETE, FUTURE, STRAY, marked_folder, parse_folder, partition_folder
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.partition_files import read_topic_id
from ottla.storage.pending import NoOwner
from ottla.storage.segment import Segment
from ottla.storage.shortage import is_shortage
from ottla.wire.batch import CorruptBatch

Job = Callable[[], None]
Report = Callable[[str], None]


@frozen
class Usage:
    """A partition's share of the folder, for DescribeLogDirs."""

    partition: TopicPartition
    size_bytes: int
    end_offset: int
    is_future: bool


@dataclass(slots=True)
class Opening:
    """One log to open. `run` is slow, touches nothing shared and may run in a thread; then `on_opened`."""

    partition: TopicPartition
    folder: "LogFolder"
    config: LogConfig
    now_ms: int
    last_run: LastRun
    high_watermark: int
    log: Log | None = None
    error: Exception | None = None
    reports: list[str] = field(default_factory=list)

    def run(self) -> None:
        try:
            files = FileCache()  # the folder's is for the event loop alone
            self.log = Log.open(
                Location(self.folder.disk, partition_folder(*self.partition), files),
                self.config,
                self.last_run,
                now_ms=self.now_ms,
                report=self.reports.append,
            )
            if self.config.flush_messages == 1:
                # Only what is durable is committed here: what a crash left is made so before anybody asks.
                _flush(self.log)
        except Exception as error:  # whatever it is, it is this one log that does not open
            self.error = error


class LogFolder:
    """Which logs are here. An OSError anywhere in it takes the folder offline with all its logs, unless it is
    one that passes (a full disk): that write is refused, and its caller may try again. While it is loaded, any does.

    `exclusive` is held while checkpoints are written: their jobs may run in several threads.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        *,
        files: FileCache,
        report: Report,
        on_offline: Callable[["LogFolder", OSError], None] = lambda folder, error: None,
        exclusive: AbstractContextManager[object] | None = None,
    ) -> None:
        self.disk = disk
        self.path = path  # as configured: what people call it
        self.files = files
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        self.cleaner_offsets: Offsets = {}
        # The disk refused to rename these: their files are of no topic any more, or of an earlier one.
        self.not_put_aside: set[TopicPartition] = set()
        self.failure: OSError | None = None
        self.was_clean = False
        self.is_returned = False  # not of the last registration: what it has was left out, or given up
        self._report = report
        self._on_offline = on_offline
        self._recovery_points: Offsets = {}
        self._high_watermarks: Offsets = {}
        self._log_start_offsets: Offsets = {}
        self._exclusive = exclusive or nullcontext()
        self._checkpoints_taken = self._checkpoint_begun = self._checkpoint_written = 0
        # Partitions of which the checkpoints may tell too much, until a later one than this is written.
        self._outdated: dict[TopicPartition, int] = {}

    @property
    def is_offline(self) -> bool:
        return self.failure is not None

    # Failure.

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Around everything that touches the disk."""
        if self.failure is not None:
            raise KafkaStorageError(f"The log folder {self.path} is offline: {self.failure}")
        try:
            yield
        except OSError as error:
            if not is_shortage(error):
                self.fail(error)
            raise KafkaStorageError(f"The log folder {self.path} failed: {error}") from error
        except KafkaStorageError as error:  # a log has met an OSError
            if isinstance(error.__cause__, OSError) and not is_shortage(error.__cause__):
                self.fail(error.__cause__)
            raise

    def fail(self, error: OSError) -> None:
        """Once. The logs are not written to any more; what they hold is checked at the next start."""
        if self.failure is None:
            self.failure = error
            self._report(f"log folder {self.path} goes offline with {len(self.logs)} partitions: {error}")
            self._on_offline(self, error)

    # Start and stop.

    def load(self) -> list[TopicPartition]:
        """Read the marks and checkpoints; the partitions found. Slow, and DamagedFile stops it."""
        with self._all_or_nothing():
            self._recovery_points = checkpoints.read_offsets(self.disk, checkpoints.RECOVERY_POINTS)
            self._high_watermarks = checkpoints.read_offsets(self.disk, checkpoints.HIGH_WATERMARKS)
            self._log_start_offsets = checkpoints.read_offsets(self.disk, checkpoints.LOG_START_OFFSETS)
            self.cleaner_offsets = checkpoints.read_offsets(self.disk, checkpoints.CLEANER_OFFSETS)
            partitions = self.partitions()
            # Last: it stays true if nothing is opened.
            self.was_clean = checkpoints.take_clean_mark(self.disk)
            return partitions

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A guard under which a shortage takes the folder offline too: with half of its checkpoints deleted records
        would be there again, and with half of its partitions new logs beside the old ones."""
        with self.guard():
            try:
                yield
            except OSError as error:
                self.fail(error)
                raise

    def meta(self, cluster_id: str, node_id: int, new_directory_id: bytes) -> Meta:
        """Whose folder it is; a new one becomes ours, somebody else's is refused."""
        with self.guard():
            meta = checkpoints.read_meta(self.disk)
            if meta is None:
                meta = Meta(cluster_id, node_id, new_directory_id)
                checkpoints.write_meta(self.disk, meta)
        if (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
            raise checkpoints.DamagedFile(
                f"{self.path}/{checkpoints.META_PROPERTIES}",
                f"is of broker {meta.node_id} of cluster {meta.cluster_id}, not {node_id} of {cluster_id}",
            )
        return meta

    def opening(self, partition: TopicPartition, config: LogConfig, now_ms: int) -> Opening:
        """The job that opens (or creates) a partition's log."""
        last_run = LastRun(
            self.was_clean,
            recovery_point=self._recovery_points.get(partition, 0),
            log_start_offset=self._log_start_offsets.get(partition, 0),
        )
        high_watermark = self._high_watermarks.get(partition, 0)
        return Opening(partition, self, config, now_ms, last_run, high_watermark)

    def on_opened(self, opening: Opening) -> Log:
        """Take up an opened log, or raise what went wrong: of the disk for all, of this log for it alone."""
        for line in opening.reports:
            self._report(line)
        with self.guard():
            if opening.error is not None:
                raise opening.error
        log = opening.log
        assert log is not None, "the opening was not run"
        log.share_files(self.files)
        log.advance_high_watermark(max(log.log_start_offset, min(opening.high_watermark, log.end_offset)))
        self.take_up(opening.partition, log)
        return log

    def take_up(self, partition: TopicPartition, log: Log) -> None:
        """The partition lives here from now on; its failure is the folder's."""
        log.belong_to(_Owner(self, partition))
        # The end of the log is lost, or the checkpoints are of an earlier topic of that name.
        if any(offsets.get(partition, 0) > log.end_offset for offsets in self._checkpointed()):
            self.on_moved_back(partition, log.end_offset)
        if partition in self._outdated:
            log.pending.on_unsettled()
        self.logs[partition] = log

    def checkpoint(self) -> Job:
        """Taken now; the job it gives writes the files and may run in a thread."""
        self._checkpoints_taken += 1
        number = self._checkpoints_taken
        recovery_points, high_watermarks, log_start_offsets = self._offsets()
        cleaner_offsets = dict(self.cleaner_offsets)
        written = self._checkpoint_written
        self._outdated = {partition: since for partition, since in self._outdated.items() if since >= written}

        def write() -> None:
            with self._exclusive:
                if number < self._checkpoint_begun:
                    return  # a later one was quicker
                self._checkpoint_begun = number
                checkpoints.write_offsets(self.disk, checkpoints.RECOVERY_POINTS, recovery_points)
                checkpoints.write_offsets(self.disk, checkpoints.LOG_START_OFFSETS, log_start_offsets)
                checkpoints.write_offsets(self.disk, checkpoints.HIGH_WATERMARKS, high_watermarks)
                self._write_cleaner(cleaner_offsets)
                self._checkpoint_written = number

        return write

    def checkpoint_cleaner(self) -> Job:
        """The same for how far compaction came; it has a file of its own."""
        offsets = dict(self.cleaner_offsets)

        def write() -> None:
            with self._exclusive:
                self._write_cleaner(offsets)

        return write

    def _write_cleaner(self, offsets: Offsets) -> None:
        if offsets or self.disk.exists(checkpoints.CLEANER_OFFSETS):
            checkpoints.write_offsets(self.disk, checkpoints.CLEANER_OFFSETS, offsets)

    def close(self, broker_epoch: int = -1) -> None:
        """Slow: everything is flushed, and the mark tells the next start that it was."""
        with self.guard():
            for log in (*self.logs.values(), *self.futures.values()):
                log.close(clean=True)
            self.checkpoint()()
            checkpoints.write_clean_mark(self.disk, broker_epoch)

    # Partitions come and go.

    def partitions(self) -> list[TopicPartition]:
        """Those whose folders are here, opened or not; without those that should have been put aside."""
        with self._all_or_nothing():
            names = self.disk.list("")
        partitions = []
        for name in names:
            parsed = parse_folder(name)
            if parsed is not None and not parsed.kind:
                partitions.append((parsed.topic, parsed.partition))
        return [partition for partition in partitions if partition not in self.not_put_aside]

    def has_files(self, partition: TopicPartition) -> bool:
        """Whether there is a folder of this partition's name, whatever topic it is of."""
        with self.guard():
            return self.disk.exists(partition_folder(*partition))

    def remove(self, partition: TopicPartition, unique: str) -> Job:
        """Out of sight at once, by a rename; the job frees the space."""
        return self._set_aside(partition, unique, DELETE)

    def strand(self, partition: TopicPartition, unique: str) -> None:
        """Nobody knows this partition: put aside for a person to look at, never deleted."""
        self._set_aside(partition, unique, STRAY)

    def strand_leftovers(self) -> None:
        """Unfinished deletions and copies of an owner whose metadata is gone: kept, under another name."""
        with self.guard():
            for name in self.disk.list(""):
                parsed = parse_folder(name)
                if parsed is not None and parsed.kind in (DELETE, FUTURE):
                    self._report(f"{self.path}: {name} is put aside")
                    self.disk.rename(name, name.removesuffix(parsed.kind) + STRAY)

    def on_moved_back(self, partition: TopicPartition, offset: int) -> None:
        """A log was cut to `offset`: what the checkpoints say of it is outdated."""
        self._on_outdated(partition)
        if self.cleaner_offsets.get(partition, 0) > offset:  # the next records there are not compacted yet
            self.cleaner_offsets[partition] = offset

    def _on_outdated(self, partition: TopicPartition) -> None:
        self._outdated[partition] = self._checkpoints_taken

    def settle(self, partition: TopicPartition) -> None:
        """Write the checkpoints if they are outdated for this partition. Slow, and on the event loop; but rare,
        and one write settles all partitions."""
        if self._outdated.get(partition, -1) >= self._checkpoint_written:
            self.checkpoint()()

    def leftovers(self) -> list[Job]:
        """What earlier runs did not get to: deletions, and copies that were never finished."""
        with self.guard():
            names = self.disk.list("")
        jobs: list[Job] = []
        for name in names:
            parsed = parse_folder(name)
            if parsed is not None and parsed.kind in (DELETE, FUTURE):
                self._report(f"{self.path}: {name} is left over and goes")
                jobs.append(self._removal(name))
        return jobs

    def topic_id(self, partition: TopicPartition) -> bytes:
        """Whose partition it is, by its own account; zeros when it does not say."""
        with self.guard():
            return read_topic_id(self.disk, partition_folder(*partition), self._report)

    def end_offset(self, partition: TopicPartition) -> int:
        """Where a partition's log ends as far as its headers tell, without opening it."""
        with self.guard():
            return self._end_offset(partition_folder(*partition))

    def _end_offset(self, folder: str) -> int:
        names = [name for name in self.disk.list(folder) if name.endswith(LOG)]
        end = max((base for name in names if (base := base_offset_of(name)) is not None), default=0)
        if names:
            files = FileCache()
            last = Segment.sealed(self.disk, files, folder, end, next_offset=end)
            try:
                for _, header in last.headers():
                    end = header.next_offset
            except CorruptBatch:
                pass  # torn: what is before it counts
            files.close()
        return end

    def usage(self) -> list[Usage]:
        both = [(log, False) for log in self.logs.items()] + [(log, True) for log in self.futures.items()]
        return [
            Usage(partition, log.size_bytes, log.end_offset, is_future)
            for (partition, log), is_future in both
        ]

    def _set_aside(self, partition: TopicPartition, unique: str, kind: str) -> Job:
        log = self.logs.pop(partition, None)
        name = marked_folder(*partition, unique, kind)
        self._forget(partition)
        self.not_put_aside.add(partition)  # until the rename is done
        with self.guard():
            if log is not None:
                log.belong_to(NoOwner())  # that its files are gone is no failure of the disk
                log.close(clean=False)
            if self.disk.exists(partition_folder(*partition)):
                self.disk.rename(partition_folder(*partition), name)
        self.not_put_aside.discard(partition)
        return self._removal(name)

    def _removal(self, name: str) -> Job:
        def remove() -> None:
            self.disk.remove(name)

        return remove

    def _forget(self, partition: TopicPartition) -> None:
        """A topic of the same name starts from nothing."""
        self._on_outdated(partition)
        for offsets in self._checkpointed():
            offsets.pop(partition, None)

    def _checkpointed(self) -> tuple[Offsets, ...]:
        """As they were read."""
        return self._recovery_points, self._high_watermarks, self._log_start_offsets, self.cleaner_offsets

    def _offsets(self) -> tuple[Offsets, Offsets, Offsets]:
        """Of the open logs as they are now; of those not yet opened as they were read."""
        recovery_points, high_watermarks = dict(self._recovery_points), dict(self._high_watermarks)
        log_start_offsets = dict(self._log_start_offsets)
        for partition, log in self.logs.items():
            recovery_points[partition] = log.recovery_point
            high_watermarks[partition] = log.high_watermark
            log_start_offsets[partition] = log.log_start_offset
        return (
            recovery_points,
            high_watermarks,
            {partition: at for partition, at in log_start_offsets.items() if at > 0},
        )


@dataclass(slots=True)
class _Owner:
    """What a log's `Owner` is: this folder, for this partition."""

    folder: LogFolder
    partition: TopicPartition

    def on_failed(self, error: OSError) -> None:
        self.folder.fail(error)

    def on_moved_back(self, offset: int) -> None:
        self.folder.on_moved_back(self.partition, offset)

    def settle(self) -> None:
        self.folder.settle(self.partition)


def _flush(log: Log) -> None:
    flush = log.begin_flush()
    if flush is not None:
        flush.run()
        log.on_flushed(flush)


def duplicates(folders: Sequence[LogFolder]) -> list[tuple[LogFolder, TopicPartition]]:
    """Partitions to remove because another folder has them too: a move was cut short between its two renames.

    The copy is complete by then and may have got more since, so the longer one is right, and of two alike
    either. But one in a folder that returns is outdated, however long: another was in use without it.
    """
    homes: dict[TopicPartition, list[LogFolder]] = {}
    for folder in folders:
        with suppress(KafkaStorageError):  # it is offline
            for partition in folder.partitions():
                homes.setdefault(partition, []).append(folder)
    surplus = []
    for partition, copies in homes.items():
        if len(copies) == 1:
            continue
        keep = max(copies, key=lambda folder: (not folder.is_returned, folder.end_offset(partition)))
        surplus += [(folder, partition) for folder in copies if folder is not keep]
    return surplus
