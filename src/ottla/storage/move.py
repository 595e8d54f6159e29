"""Moving a partition to another log folder (AlterReplicaLogDirs): a copy beside the traffic, a switch."""

from collections.abc import Callable
from contextlib import suppress

from ottla.errors import KafkaStorageError
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.folder import LogFolder
from ottla.storage.folder_names import FUTURE, marked_folder, partition_folder
from ottla.storage.log import LastRun, Location, Log
from ottla.storage.rewrite import Steps
from ottla.wire.batch import read_header

_COPY_BYTES = 256 * 1024
_LAST_BYTES = 1 << 20  # what may be copied in one go, just before the switch
_ROUNDS_MAX = 100  # under a load that the target's disk cannot keep up with, the last part is larger


class Move:
    """Run `steps` to its end; it yields as compaction does. A crash on the way leaves the old log in place
    and the copy as a leftover. It fails when the log is truncated meanwhile: the copy may hold what was cut off.

    `on_settling` is called before the last sync: from then on nothing more may be called durable because it
    is so in the old place. `on_switched` is called with the log in its new place: appends go there at once.
    """

    def __init__(
        self,
        partition: TopicPartition,
        source: LogFolder,
        target: LogFolder,
        *,
        unique: str,
        now_ms: int,
        on_settling: Callable[[], None] = lambda: None,
        on_switched: Callable[[Log], None] = lambda log: None,
    ) -> None:
        self.partition = partition
        self._source = source
        self._target = target
        self._unique = unique
        self._now_ms = now_ms
        self._on_settling = on_settling
        self._on_switched = on_switched
        self._generation = 0  # of the log: another one after a truncation

    def steps(self) -> Steps[Log]:
        """The log in its new place, at the end."""
        log = self._source.logs[self.partition]
        self._generation = log.durability.generation
        copy = self._begin(log)
        moved = False
        try:
            yield from self._copy(log, copy)
            self._on_settling()
            yield from self._catch_up(log, copy)
            yield from self._flush(copy)
            self._catch_up_at_once(log, copy)
            self._check_level(log, copy)
            with self._target.guard():
                self._switch(log, copy)
            moved = True
            self._on_switched(copy)
            yield self._source.remove(self.partition, self._unique)
            yield self._target.checkpoint()
        finally:
            self._target.futures.pop(self.partition, None)
            if not moved:
                with suppress(OSError, KafkaStorageError):
                    copy.close(clean=False)
                    self._target.disk.remove(copy.folder)
        return copy

    def _begin(self, log: Log) -> Log:
        """An empty log that starts where the old one does, or with the batch in which it does."""
        first = log.read(log.log_start_offset, max_bytes=1, up_to=log.end_offset)
        start = log.log_start_offset
        if len(first.data):  # compaction may have left a gap at the start
            start = min(start, read_header(first.data).base_offset)
        with self._target.guard():
            name = marked_folder(*self.partition, self._unique, FUTURE)
            copy = Log.open(
                Location(self._target.disk, name, self._target.files),
                log.config,
                LastRun(clean=True, log_start_offset=start),
                now_ms=self._now_ms,
                report=lambda _: None,
                topic_id=log.topic_id,
            )
            if start > 0:
                copy.restart_at(start)  # its file's name keeps the offset, even if no record follows
        self._target.futures[self.partition] = copy
        return copy

    def _copy(self, log: Log, copy: Log) -> Steps[None]:
        """Until the copy is on disk and so close behind the log that the rest is a matter of milliseconds."""
        for _ in range(_ROUNDS_MAX):
            yield from self._catch_up(log, copy)
            size_bytes = log.size_bytes
            yield from self._flush(copy)
            if log.size_bytes - size_bytes <= _LAST_BYTES:
                return

    def _flush(self, copy: Log) -> Steps[None]:
        flush = copy.begin_flush()
        if flush is not None:
            yield flush.run
            copy.on_flushed(flush)

    def _catch_up(self, log: Log, copy: Log) -> Steps[None]:
        while copy.end_offset < log.end_offset:
            self._copy_part(log, copy)
            yield None

    def _catch_up_at_once(self, log: Log, copy: Log) -> None:
        while copy.end_offset < log.end_offset:
            self._copy_part(log, copy)

    def _copy_part(self, log: Log, copy: Log) -> None:
        self._check_same(log)
        offset = max(copy.end_offset, log.log_start_offset)
        with self._source.guard():
            part = log.read(offset, max_bytes=_COPY_BYTES, up_to=log.end_offset)
        if not len(part.data):
            raise KafkaStorageError(f"{log.folder} has no batch from {offset} to {log.end_offset}")
        with self._target.guard():
            copy.append_replicated(part.data, now_ms=self._now_ms)

    def _check_level(self, log: Log, copy: Log) -> None:
        self._check_same(log)
        if copy.end_offset != log.end_offset:
            raise KafkaStorageError(f"{log.folder} was truncated meanwhile")

    def _check_same(self, log: Log) -> None:
        """Ends do not tell: what was cut off may have been replaced by as many records of the next leader."""
        if self._source.logs.get(self.partition) is not log:
            raise KafkaStorageError(f"{log.folder} was deleted meanwhile")
        if log.durability.generation != self._generation:
            raise KafkaStorageError(f"{log.folder} was truncated meanwhile")

    def _switch(self, log: Log, copy: Log) -> None:
        """Quick: names only. First the new one gets its name, so that at no time there is none."""
        copy.advance_high_watermark(log.high_watermark)
        copy.delete_records_before(min(log.log_start_offset, copy.high_watermark))
        name = partition_folder(*self.partition)
        copy.move_to(name)
        self._target.take_up(self.partition, copy)
        cleaned = self._source.cleaner_offsets.get(self.partition)
        if cleaned is not None:
            self._target.cleaner_offsets[self.partition] = cleaned
