"""Making a log durable, as it grows and when it is closed."""

from ottla.storage.files import EPOCHS
from ottla.storage.flush import Flush
from ottla.storage.log_state import LogState
from ottla.storage.snapshots import write_snapshot


def flush_due(log: LogState, now_ms: int) -> bool:
    return log.durability.is_due(log.end_offset, log.active_base_offset, log.config, now_ms)


def begin_flush(log: LogState) -> Flush | None:
    """Everything that is not durable yet; None when all is, or cannot be made so now. Run it in a thread,
    then `on_flushed`."""
    if log.epochs.dirty and not log.pending.is_new and not epochs_saved(log):
        return None
    return log.durability.begin(log.chain.holding(log.recovery_point), log.end_offset, all_indexes=False)


def on_flushed(log: LogState, flush: Flush) -> None:
    """`flush.run` came back without an error."""
    log.durability.on_flushed(flush)
    if flush.indexes_unwritten and not log.chain.active.is_sealed:
        log.chain.active.forget_written_indexes()


def on_flush_put_off(log: LogState, flush: Flush, now_ms: int) -> None:
    """`flush.run` could not even begin: all of it is still to be done."""
    log.durability.on_put_off(flush, now_ms)


def epochs_saved(log: LogState) -> bool:
    """Recovery does not read epochs from batches below the recovery point, so they are saved before it moves."""
    try:
        log.pending.save_epochs()
    except OSError as error:
        log.fail(error)
    return not log.epochs.dirty


def close(log: LogState, clean: bool) -> None:
    """Slow when clean: all of it is made durable, with what the next start needs to be quick."""
    if clean and log.failed is None and not log.is_empty:
        with log.writing():
            _flush_all(log)
    log.chain.close()


def _flush_all(log: LogState) -> None:
    log.pending.save_epochs()
    if log.epochs.dirty:  # the disk is full: the next start reads the epochs from the batches
        log.disk.remove(f"{log.folder}/{EPOCHS}")
    log.chain.active.finish_time_index()
    snapshot = write_snapshot(log.disk, log.folder, log.end_offset, log.producers)
    log.durability.on_written([snapshot])
    tail = log.chain.holding(log.recovery_point)
    flush = log.durability.begin(tail, log.end_offset, all_indexes=True)
    if flush is None:
        return
    flush.run()
    on_flushed(log, flush)
    if flush.indexes_unwritten:  # after a clean stop a partial index would be taken for a whole one
        log.chain.active.drop_index_files()
        log.disk.sync_folder(log.folder)
