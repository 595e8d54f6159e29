"""Syncs logs in threads: one sync of a partition at a time, and appends that come meanwhile share the next one."""

import logging

from ottla.ports import Clock, Jobs
from ottla.replication.partition import Partition
from ottla.storage.flush import Flush, PutOff
from ottla.storage.log import Log

logger = logging.getLogger("ottla.storage")

Key = tuple[str, int]


class Flushing:
    def __init__(self, clock: Clock, jobs: Jobs) -> None:
        self._clock, self._jobs = clock, jobs
        self._running: set[Key] = set()
        self._due_again: set[Key] = set()
        self._suspended: set[Key] = set()  # about to move to another folder: nothing is synced in the old one

    def flush(self, partition: Partition) -> None:
        key = partition.state.topic, partition.state.index
        if key in self._running or key in self._suspended:
            self._due_again.add(key)
            return
        log = partition.log
        flush = log.begin_flush() if log is not None else None
        if log is None or flush is None:
            return
        self._running.add(key)
        self._jobs.submit(flush.run, lambda result: self._on_flushed(key, partition, log, flush, result))

    def suspend(self, key: Key) -> None:
        self._suspended.add(key)

    def resume(self, key: Key, partition: Partition | None) -> None:
        self._suspended.discard(key)
        if partition is not None:
            partition.advance()
            self._maybe_flush_again(key, partition)

    def _on_flushed(self, key: Key, partition: Partition, flushed: Log, flush: Flush, result: object) -> None:
        self._running.discard(key)
        if isinstance(result, PutOff):
            logger.warning("%s-%d: a sync is put off: %s", *key, result)
            flushed.on_flush_put_off(flush, self._clock.now_ms())
            return
        if isinstance(result, Exception):
            # What was not synced may be lost: the page cache drops it after one error.
            flushed.fail(result if isinstance(result, OSError) else OSError(str(result)))
            return
        if key not in self._suspended:  # else the copy in the new folder counts
            flushed.on_flushed(flush)
        if partition.log is flushed:
            partition.advance()
        self._maybe_flush_again(key, partition)

    def _maybe_flush_again(self, key: Key, partition: Partition) -> None:
        if key in self._due_again and key not in self._suspended:
            self._due_again.discard(key)
            self.flush(partition)
