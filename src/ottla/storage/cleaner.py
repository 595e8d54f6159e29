"""Compaction over all log folders: which log next, and what to remember of it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakSet

from ottla.errors import KafkaStorageError, OttlaError
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.cleanable import Cleanable, assess, filthiest
from ottla.storage.compaction import Cleaning, LogChanged
from ottla.storage.folder import LogFolder
from ottla.storage.log import Log
from ottla.storage.rewrite import Steps


class Cleaner:
    """Cleans one log at a time. A log that cannot be cleaned is reported once and then left alone."""

    def __init__(
        self, folders: Sequence[LogFolder], *, key_map_bytes: int, report: Callable[[str], None]
    ) -> None:
        self._folders = folders
        self.key_map_bytes = key_map_bytes
        self._report = report
        # By log, not by name: a topic that is deleted and created again has a new, sound log.
        self.uncleanable: WeakSet[object] = WeakSet()

    def next_pass(self, now_ms: int) -> Steps[None] | None:
        """The filthiest log's cleaning, to be driven as `run_all` does; None when no log is due."""
        candidates: dict[int, tuple[TopicPartition, LogFolder]] = {}
        works: list[Cleanable] = []
        for folder in self._folders:
            for partition, log in folder.logs.items():
                if folder.is_offline:
                    break  # it may go offline while its logs are looked at
                if log.config.compact and log not in self.uncleanable:
                    work = self._assess(log, partition, folder, now_ms)
                    if work is not None:
                        candidates[id(log)] = partition, folder
                        works.append(work)
        chosen = filthiest(work for work in works if not candidates[id(work.log)][1].is_offline)
        if chosen is None:
            return None
        return self._clean(chosen, *candidates[id(chosen.log)], now_ms)

    def _assess(
        self, log: Log, partition: TopicPartition, folder: LogFolder, now_ms: int
    ) -> Cleanable | None:
        """None when the log cannot be looked at: one damaged log must not keep the others from their turn."""
        try:
            with folder.guard():
                return assess(log, folder.cleaner_offsets.get(partition), now_ms)
        except (
            KafkaStorageError
        ) as error:  # of the disk: too many open files, say. The next turn tries again.
            self._report(f"{partition[0]}-{partition[1]} is not compacted this time: {error}")
        except (OttlaError, ValueError) as error:
            self._give_up(log, partition, error)
        return None

    def _give_up(self, log: object, partition: TopicPartition, error: Exception) -> None:
        self.uncleanable.add(log)
        self._report(f"{partition[0]}-{partition[1]} is not compacted any more: {error}")

    def _clean(
        self, work: Cleanable, partition: TopicPartition, folder: LogFolder, now_ms: int
    ) -> Steps[None]:
        cleaning = Cleaning(work, now_ms=now_ms, key_map_bytes=self.key_map_bytes)
        try:
            with folder.guard():
                yield from _while_there(cleaning.steps(), work, partition, folder)
        except LogChanged:
            return
        except (KafkaStorageError, MemoryError):
            raise  # of the disk or the machine, not of this log
        except Exception as error:
            # CannotClean, damage that only the unpacked records show, or a fault of ours. Tried again and again, the
            # log would keep all others from their turn.
            self._give_up(work.log, partition, error)
            return
        if not _is_there(work, partition, folder):
            return
        folder.cleaner_offsets[partition] = min(cleaning.end_offset, work.log.end_offset)
        with folder.guard():
            yield folder.checkpoint_cleaner()
        self._report(
            f"{partition[0]}-{partition[1]} compacted up to {cleaning.end_offset}: "
            f"{cleaning.bytes_before} bytes became {cleaning.bytes_after}"
        )


def _while_there(
    steps: Steps[None], work: Cleanable, partition: TopicPartition, folder: LogFolder
) -> Steps[None]:
    """Stop quietly when the log is deleted or moved meanwhile: that its files are gone is no failure."""
    error: Exception | None = None
    while _is_there(work, partition, folder):
        try:
            job = next(steps) if error is None else steps.throw(error)
        except StopIteration:
            return
        error = None
        try:
            yield job
        except Exception as raised:
            error = raised
    with suppress(OSError):
        steps.close()


def _is_there(work: Cleanable, partition: TopicPartition, folder: LogFolder) -> bool:
    return folder.logs.get(partition) is work.log and not folder.is_offline
