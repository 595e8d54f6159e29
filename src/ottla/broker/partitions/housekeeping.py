"""What a broker does by itself: sync, checkpoint, roll, let go of old records, compact, move logs."""

import logging
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ottla.broker.partitions.flushing import Flushing
from ottla.broker.partitions.replicas import Key, Replicas
from ottla.broker.stepping import Stepping
from ottla.config.settings import Config
from ottla.errors import InvalidRequest, KafkaStorageError
from ottla.ports import Clock, Jobs, TimerHandle
from ottla.replication.partition import Partition
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.shortage import is_shortage

if TYPE_CHECKING:
    from ottla.storage.cleaner import Cleaner
    from ottla.storage.rewrite import Steps

logger = logging.getLogger("ottla.storage")

FLUSH_LOOK_MS = 1000
STEP_MS = 3  # of the loop's time, before others get their turn
_INTERVALS = {
    "log.retention.check.interval.ms",
    "log.flush.offset.checkpoint.interval.ms",
    "log.cleaner.backoff.ms",
}


class Housekeeping:
    """Timers on the clock, slow work in threads, long work in steps. Each task arms its own timer again."""

    def __init__(
        self,
        replicas: Replicas,
        flushing: Flushing,
        config: Config,
        clock: Clock,
        jobs: Jobs,
        new_unique: Callable[[], str],
    ) -> None:
        self._replicas, self._config, self._clock, self._jobs = replicas, config, clock, jobs
        self._flushing, self._new_unique = flushing, new_unique
        self._tasks: dict[str, tuple[Callable[[], int], Callable[[], None]]] = {}
        self._timers: dict[str, TimerHandle] = {}
        self._cleaning: Stepping[None] | None = None
        self._expiring: Stepping[None] | None = None
        self._moving: dict[Key, Stepping[Log]] = {}
        self._closed = False

    def start(self) -> None:
        for folder in self._replicas.folders:
            if not folder.is_offline:
                for job in folder.leftovers():
                    self._submit(f"{folder.path}: leftovers", job)
        self._every("flush", lambda: FLUSH_LOOK_MS, self._flush_due)
        self._every("retention", lambda: self._config.log_retention_check_interval_ms, self.expire)
        self._every(
            "checkpoint", lambda: self._config.log_flush_offset_checkpoint_interval_ms, self.checkpoint
        )
        self._every("cleaner", lambda: self._config.log_cleaner_backoff_ms, self.clean)

    def on_config(self, config: Config) -> None:
        """Timers start again, so that a shorter interval takes effect at once."""
        changed = {name for name, value in config.values.items() if value != self._config[name]}
        self._config = config
        if changed & _INTERVALS:
            for name in list(self._timers):
                self._timers.pop(name).cancel()
                self._arm(name)

    def close(self) -> None:
        """Work in steps is given up; it begins again after the next start."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for stepping in (self._cleaning, self._expiring, *self._moving.values()):
            if stepping is not None:
                stepping.close()

    def _every(self, name: str, interval_ms: Callable[[], int], task: Callable[[], None]) -> None:
        self._tasks[name] = interval_ms, task
        self._arm(name)

    def _arm(self, name: str) -> None:
        interval_ms, task = self._tasks[name]

        def run() -> None:
            try:
                task()
            except Exception:
                logger.exception("%s failed", name)
            if not self._closed:
                self._arm(name)

        self._timers[name] = self._clock.call_later(interval_ms(), run)

    # -- syncing ---------------------------------------------------------------------------------

    def _flush_due(self) -> None:
        now_ms = self._clock.now_ms()
        for _, partition, log in list(self._replicas.logs()):
            if log.flush_due(now_ms):
                self._flushing.flush(partition)

    def checkpoint(self) -> None:
        for folder in self._replicas.folders:
            if not folder.is_offline:
                self._submit(f"{folder.path}: checkpoint", folder.checkpoint(), folder)

    def checkpointed(self, folders: Iterable[LogFolder], then: Callable[[list[LogFolder]], None]) -> None:
        """Writes the checkpoints of these folders now, and tells when that is done, and of which it failed."""
        left = [folder for folder in folders if not folder.is_offline]
        waiting, failed = len(left), []

        def one_done(folder: LogFolder, is_written: bool) -> None:
            nonlocal waiting
            waiting -= 1
            if not is_written:
                failed.append(folder)
            if waiting <= 0:
                then(failed)

        if not left:
            then(failed)
        for folder in left:
            self._submit(f"{folder.path}: checkpoint", folder.checkpoint(), folder, partial(one_done, folder))

    # -- retention -------------------------------------------------------------------------------

    def expire(self) -> None:
        """Rolls segments that are due, and deletes those that retention no longer allows."""
        if self._expiring is None:
            self._expiring = Stepping(self._expire_steps(), self._clock, self._jobs, self._on_expired)
            self._expiring.go_on()

    def _expire_steps(self) -> "Steps[None]":
        began_ms = self._clock.monotonic_ms()
        for key, partition in list(self._replicas.partitions.items()):
            if self._clock.monotonic_ms() - began_ms >= STEP_MS:
                yield None
                began_ms = self._clock.monotonic_ms()
            if partition.log is not None and self._replicas.partitions.get(key) is partition:
                self._expire(key, partition, partition.log)

    def _expire(self, key: Key, partition: Partition, log: Log) -> None:
        now_ms = self._clock.now_ms()
        try:
            log.roll_if_due(now_ms)
            for segment in log.expire(now_ms).doomed:
                logger.info("%s-%d: segment %d goes: %s", *key, segment.base_offset, segment.reason)
        except KafkaStorageError as error:
            logger.error("%s-%d: retention: %s", *key, error)
        self._unlink_later(log)
        partition.advance()

    def _on_expired(self, _: object, error: Exception | None) -> None:
        self._expiring = None
        if error is not None:
            logger.error("retention stopped: %s", error)

    def _unlink_later(self, log: Log) -> None:
        doomed, disk = log.take_doomed(), log.disk
        if not doomed:
            return

        def unlink() -> None:
            for path in doomed:
                disk.remove(path)

        delay_ms = log.config.file_delete_delay_ms
        self._clock.call_later(delay_ms, lambda: self._submit("deleting segments", unlink))

    # -- compaction ------------------------------------------------------------------------------

    def clean(self) -> None:
        """The log that needs it most; the next one follows at once, and a rest when none does."""
        if self._cleaning is not None or self._closed or not self._config.log_cleaner_enable:
            return
        self._cleaner.key_map_bytes = self._config.log_cleaner_dedupe_buffer_size
        steps = self._cleaner.next_pass(self._clock.now_ms())
        if steps is not None:
            self._cleaning = Stepping(steps, self._clock, self._jobs, self._on_cleaned)
            self._cleaning.go_on()

    @cached_property
    def _cleaner(self) -> "Cleaner":
        from ottla.storage.cleaner import Cleaner  # its first turn is seconds after the start

        return Cleaner(
            self._replicas.folders,
            key_map_bytes=self._config.log_cleaner_dedupe_buffer_size,
            report=lambda line: logger.info("%s", line),
        )

    def _on_cleaned(self, _: object, error: Exception | None) -> None:
        self._cleaning = None
        for _, _, log in list(self._replicas.logs()):
            self._unlink_later(log)
        if error is None:
            self.clean()
        elif not self._closed:
            logger.error("compaction stopped: %s", error)

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
        from ottla.storage.move import Move  # few logs ever move

        move = Move(
            key,
            source,
            target,
            unique=self._new_unique(),
            now_ms=self._clock.now_ms(),
            on_settling=lambda: self._flushing.suspend(key),
            on_switched=lambda moved: self._on_switched(key, target, moved),
        )
        stepping = Stepping(
            move.steps(),
            self._clock,
            self._jobs,
            lambda _, error: self._on_moved(key, target, error),
        )
        self._moving[key] = stepping
        stepping.go_on()

    def _on_switched(self, key: Key, target: LogFolder, moved: Log) -> None:
        """Quick: the very next append goes to the new place."""
        self._replicas.moved(key, target, moved)
        self._settled(key)
        logger.info("%s-%d lives in %s now", *key, target.path)

    def _on_moved(self, key: Key, target: LogFolder, error: Exception | None) -> None:
        del self._moving[key]
        self._settled(key)
        if error is not None and not self._closed:
            logger.error("moving %s-%d to %s failed: %s", *key, target.path, error)

    def _settled(self, key: Key) -> None:
        self._flushing.resume(key, self._replicas.partitions.get(key))

    def _submit(
        self,
        job_name: str,
        job: Callable[[], object],
        folder: LogFolder | None = None,
        then: Callable[[bool], None] = lambda is_done: None,
    ) -> None:
        def done(result: object) -> None:
            if isinstance(result, Exception):
                logger.error("%s failed: %s", job_name, result)
                if folder is not None and isinstance(result, OSError) and not is_shortage(result):
                    folder.fail(result)
            then(not isinstance(result, Exception))

        self._jobs.submit(job, done)
