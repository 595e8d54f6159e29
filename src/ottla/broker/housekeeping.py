"""What a broker does by itself: sync, checkpoint, roll, let go of old records, compact, move logs."""

import logging
from collections.abc import Callable
from typing import Any

from ottla.broker.replicas import Key, Replicas
from ottla.broker.stepping import Stepping
from ottla.config.settings import Config
from ottla.errors import InvalidRequest
from ottla.ports import Clock, Jobs, TimerHandle
from ottla.replication.partition import Partition
from ottla.storage.cleaner import Cleaner
from ottla.storage.flush import Flush
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.move import Move

log = logging.getLogger("ottla.storage")

FLUSH_LOOK_MS = 1000


class Housekeeping:
    """Timers on the clock, slow work in threads, long work in steps. Each task arms itself anew."""

    def __init__(
        self, replicas: Replicas, config: Config, clock: Clock, jobs: Jobs, new_unique: Callable[[], str]
    ) -> None:
        self._replicas, self._config, self._clock, self._jobs = replicas, config, clock, jobs
        self._new_unique = new_unique
        self._timers: dict[str, TimerHandle] = {}
        self._flushing: set[Key] = set()
        self._flush_again: set[Key] = set()
        self._cleaner = Cleaner(
            replicas.folders,
            key_map_bytes=config.log_cleaner_dedupe_buffer_size,
            report=lambda line: log.info("%s", line),
        )
        self._cleaning: Stepping | None = None
        self._moving: dict[Key, Stepping] = {}
        self._closed = False

    def start(self) -> None:
        self._replicas.on_flush_due = self.flush
        for folder in self._replicas.folders:
            for job in folder.leftovers():
                self._submit(f"{folder.path}: leftovers", job)
        self._every("flush", FLUSH_LOOK_MS, self._flush_due)
        self._every("retention", self._config.log_retention_check_interval_ms, self.expire)
        self._every("checkpoint", self._config.log_flush_offset_checkpoint_interval_ms, self.checkpoint)
        self._every("cleaner", self._config.log_cleaner_backoff_ms, self.clean)

    def on_config(self, config: Config) -> None:
        self._config = config

    def close(self) -> None:
        """What is under way in steps is given up: it starts anew after the next start."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        if self._cleaning is not None:
            self._cleaning.close()
        for move in self._moving.values():
            move.close()

    def _every(self, name: str, interval_ms: int, task: Callable[[], None]) -> None:
        def run() -> None:
            try:
                task()
            except Exception:
                log.exception("%s failed", name)
            if not self._closed:
                self._timers[name] = self._clock.call_later(interval_ms, run)

        self._timers[name] = self._clock.call_later(interval_ms, run)

    # -- syncing ---------------------------------------------------------------------------------

    def _flush_due(self) -> None:
        now_ms = self._clock.now_ms()
        for _, partition, found in list(self._replicas.logs()):
            if found.failed is not None:
                self._fail(partition, found.failed)
            elif found.flush_due(now_ms):
                self.flush(partition)

    def flush(self, partition: Partition) -> None:
        """One at a time for a partition: whoever comes meanwhile shares the next one."""
        key = partition.state.topic, partition.state.index
        if key in self._flushing:
            self._flush_again.add(key)
            return
        flush = partition.log.begin_flush() if partition.log is not None else None
        if flush is None:
            return
        self._flushing.add(key)
        self._jobs.submit(flush.run, lambda result: self._on_flushed(key, partition, flush, result))

    def _on_flushed(self, key: Key, partition: Partition, flush: Flush, result: object) -> None:
        self._flushing.discard(key)
        if partition.log is None:
            return
        if isinstance(result, OSError):
            # What was not synced may be gone: the page cache forgets it after one error.
            partition.log.fail(result)
            self._fail(partition, result)
            return
        partition.log.on_flushed(flush)
        partition.advance()
        if key in self._flush_again:
            self._flush_again.discard(key)
            self.flush(partition)

    def _fail(self, partition: Partition, error: OSError) -> None:
        folder = self._replicas.home((partition.state.topic, partition.state.index))
        if folder is not None:
            folder.fail(error)

    def checkpoint(self) -> None:
        for folder in self._replicas.folders:
            if not folder.is_offline:
                self._submit(f"{folder.path}: checkpoint", folder.checkpoint(), folder)

    # -- retention -------------------------------------------------------------------------------

    def expire(self) -> None:
        """Roll what nobody appends to, let go of what is too old or too much."""
        now_ms = self._clock.now_ms()
        for key, partition, found in list(self._replicas.logs()):
            found.roll_if_due(now_ms)
            for each in found.expire(now_ms).doomed:
                log.info("%s-%d: segment %d goes: %s", *key, each.base_offset, each.reason)
            self._unlink_later(found)
            partition.advance()

    def _unlink_later(self, found: Log) -> None:
        doomed, disk = found.take_doomed(), found.disk
        if not doomed:
            return

        def unlink() -> None:
            for path in doomed:
                disk.remove(path)

        delay_ms = found.config.file_delete_delay_ms
        self._clock.call_later(delay_ms, lambda: self._submit("deleting segments", unlink))

    # -- compaction ------------------------------------------------------------------------------

    def clean(self) -> None:
        """The log that needs it most; the next one follows at once, and a rest when none does."""
        if self._cleaning is not None or self._closed or not self._config.log_cleaner_enable:
            return
        steps = self._cleaner.next_pass(self._clock.now_ms())
        if steps is not None:
            self._cleaning = Stepping(steps, self._clock, self._jobs, self._on_cleaned)
            self._cleaning.go_on()

    def _on_cleaned(self, _: object, error: Exception | None) -> None:
        self._cleaning = None
        for _, _, found in list(self._replicas.logs()):
            self._unlink_later(found)
        if error is None:
            self.clean()
        else:
            log.error("compaction stopped: %s", error)

    @property
    def is_cleaning(self) -> bool:
        return self._cleaning is not None

    # -- moving between folders ------------------------------------------------------------------

    def move(self, key: Key, target: LogFolder) -> None:
        source = self._replicas.home(key)
        if source is None or source is target:
            return
        if key in self._moving:
            raise InvalidRequest(f"{key[0]}-{key[1]} is on the move already")
        move = Move(key, source, target, unique=self._new_unique(), now_ms=self._clock.now_ms())
        stepping = Stepping(
            move.steps(),
            self._clock,
            self._jobs,
            lambda moved, error: self._on_moved(key, target, moved, error),
        )
        self._moving[key] = stepping
        stepping.go_on()

    def _on_moved(self, key: Key, target: LogFolder, moved: Any, error: Exception | None) -> None:
        del self._moving[key]
        if error is not None:
            log.error("moving %s-%d to %s failed: %s", *key, target.path, error)
            return
        self._replicas.moved(key, target, moved)
        log.info("%s-%d lives in %s now", *key, target.path)

    def _submit(self, what: str, job: Callable[[], object], folder: LogFolder | None = None) -> None:
        def done(result: object) -> None:
            if isinstance(result, Exception):
                log.error("%s failed: %s", what, result)
                if folder is not None and isinstance(result, OSError):
                    folder.fail(result)

        self._jobs.submit(job, done)
