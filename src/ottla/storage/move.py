"""Moving a partition to another log folder (AlterReplicaLogDirs): a copy beside the traffic, a switch."""

from contextlib import suppress

from ottla.errors import KafkaStorageError
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.folder import LogFolder
from ottla.storage.folder_names import FUTURE, marked_folder, partition_folder
from ottla.storage.log import Log
from ottla.storage.rewrite import Steps
from ottla.wire.batch import read_header

_COPY_BYTES = 256 * 1024


class Move:
    """Run `steps` to its end; it yields as compaction does. A crash on the way leaves the old log in place
    and the copy as a leftover. Give it up (close the generator) when the log is truncated meanwhile."""

    def __init__(
        self, partition: TopicPartition, source: LogFolder, target: LogFolder, *, unique: str, now_ms: int
    ) -> None:
        self.partition = partition
        self._source = source
        self._target = target
        self._unique = unique
        self._now_ms = now_ms

    def steps(self) -> Steps[Log]:
        """The log in its new place, at the end."""
        log = self._source.logs[self.partition]
        copy = self._begin(log)
        moved = False
        try:
            yield from self._copy(log, copy)
            with self._target.guard():
                self._switch(log, copy)
            moved = True
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
            copy = Log.open(
                self._target.disk,
                marked_folder(*self.partition, self._unique, FUTURE),
                log.config,
                files=self._target.files,
                now_ms=self._now_ms,
                clean=True,
                log_start_offset=start,
                report=lambda _: None,
                topic_id=log.topic_id,
            )
        self._target.futures[self.partition] = copy
        return copy

    def _copy(self, log: Log, copy: Log) -> Steps[None]:
        """Until the copy is level with the log and on disk, but for what came while it was being synced."""
        while copy.end_offset < log.end_offset:
            yield from self._catch_up(log, copy)
            flush = copy.begin_flush()
            if flush is not None:
                yield flush.run
                copy.on_flushed(flush)

    def _catch_up(self, log: Log, copy: Log) -> Steps[None]:
        while copy.end_offset < log.end_offset:
            offset = max(copy.end_offset, log.log_start_offset)
            with self._source.guard():
                part = log.read(offset, max_bytes=_COPY_BYTES, up_to=log.end_offset)
            if not len(part.data):
                raise KafkaStorageError(f"{log.folder} has no batch from {offset} to {log.end_offset}")
            with self._target.guard():
                copy.append_replicated(part.data, now_ms=self._now_ms)
            yield None

    def _switch(self, log: Log, copy: Log) -> None:
        """Quick: names only. First the new one gets its name, so that at no time there is none."""
        copy.advance_high_watermark(log.high_watermark)
        copy.delete_records_before(min(log.log_start_offset, copy.high_watermark))
        name = partition_folder(*self.partition)
        copy.move_to(name)
        self._target.logs[self.partition] = copy
        cleaned = self._source.cleaner_offsets.get(self.partition)
        if cleaned is not None:
            self._target.cleaner_offsets[self.partition] = cleaned
