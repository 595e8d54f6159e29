"""From a partition's folder to the state of its log: unfinished swaps, segments, producers, epochs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.config.log import LogConfig
from ottla.ports import Disk
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import DELETED, LOG, SEGMENT_KINDS, Location, sync
from ottla.storage.partition_files import NO_TOPIC_ID, read_epochs, read_topic_id
from ottla.storage.producers import Producers
from ottla.storage.recovery import Recovery
from ottla.storage.segment import Segment
from ottla.storage.snapshots import load_producers, remove_stray_snapshots
from ottla.storage.swap import recover_swaps


class LastRun(NamedTuple):
    """How the last run left a log, by the checkpoints of its folder."""

    clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0


@dataclass(slots=True)
class Opened:
    """The state of a log before its first operation."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: Producers
    log_start_offset: int
    topic_id: bytes


def never_written(location: Location, now_ms: int) -> Opened:
    """Nothing is looked for on disk, so it is quick."""
    disk, folder, files = location
    segment = Segment(disk, files, folder, 0, created_ms=now_ms)
    return Opened([segment], LeaderEpochs(), Producers(), log_start_offset=0, topic_id=NO_TOPIC_ID)


def open_folder(
    location: Location, config: LogConfig, last_run: LastRun, *, now_ms: int, report: Callable[[str], None]
) -> Opened:
    """Read a partition's folder and repair it; see `Log.open`."""
    disk, folder, files = location
    log_start_offset = last_run.log_start_offset
    recover_swaps(disk, folder, report)
    checkpointed = read_epochs(disk, folder, report)
    epochs = checkpointed or LeaderEpochs()
    recovery = Recovery(disk, files, folder, config, epochs, now_ms=now_ms, report=report)
    recovered = recovery.run(clean=last_run.clean, recovery_point=last_run.recovery_point)
    segments = recovered.segments
    if not segments or segments[-1].next_offset < log_start_offset:
        for segment in segments:
            report(f"{segment.path(LOG)} ends before the log start offset {log_start_offset} and goes")
            segment.rename(DELETED)
        segments = [Segment(disk, files, folder, log_start_offset, created_ms=now_ms)]
    if checkpointed is None:
        _collect_epochs(segments, epochs)
    end_offset = segments[-1].next_offset
    at_most = min(recovered.rebuilt_from, end_offset)
    producers = load_producers(
        disk, folder, segments, end_offset, at_most=at_most, now_ms=now_ms, report=report
    )
    _seal(disk, folder, [segment for segment in segments[:-1] if not segment.is_sealed])
    producers.expire(now_ms, config.producer_id_expiration_ms)
    remove_stray_snapshots(disk, folder, segments)
    start = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start)
    return Opened(segments, epochs, producers, start, read_topic_id(disk, folder, report))


def _seal(disk: Disk, folder: str, segments: list[Segment]) -> None:
    """Rebuilt indexes are synced: they may be below the recovery point, where no flush syncs them."""
    for segment in segments:
        segment.seal()
        for kind in SEGMENT_KINDS:
            if disk.exists(segment.path(kind)):
                sync(disk, segment.path(kind))
    if segments:
        disk.sync_folder(folder)


def _collect_epochs(segments: list[Segment], epochs: LeaderEpochs) -> None:
    """From all batches: recovery has looked at the last ones only."""
    epochs.clear()
    for segment in segments:
        for _, header in segment.headers():
            if header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
