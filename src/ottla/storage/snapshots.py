"""Producer state across a restart: snapshots on disk, and the replay of what follows them."""

from collections.abc import Callable, Sequence

from ottla.ports import Buffer, Disk
from ottla.storage.files import SNAPSHOT, base_offset_of, file_name, replace_quickly
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.markers import is_reset, read_marker
from ottla.storage.producers import BadSnapshot, Producers
from ottla.storage.segment import Segment
from ottla.wire.batch import BatchHeader


def snapshot_path(folder: str, offset: int) -> str:
    return f"{folder}/{file_name(offset, SNAPSHOT)}"


def offsets_of_snapshots(disk: Disk, folder: str) -> list[int]:
    names = [name for name in disk.list(folder) if name.endswith(SNAPSHOT)]
    return [offset for offset in map(base_offset_of, names) if offset is not None]


def write_snapshot(disk: Disk, folder: str, offset: int, producers: Producers) -> str:
    path = snapshot_path(folder, offset)
    replace_quickly(disk, path, producers.dump())
    return path


def load_producers(
    disk: Disk,
    folder: str,
    segments: Sequence[Segment],
    end_offset: int,
    *,
    at_most: int,
    now_ms: int = 0,
    report: Callable[[str], None],
) -> Producers:
    """The newest snapshot at or below `at_most` that can be read, and what was appended after it."""
    for offset in sorted(offsets_of_snapshots(disk, folder), reverse=True):
        if offset > min(at_most, end_offset):
            if offset > end_offset:
                disk.remove(snapshot_path(folder, offset))
            continue
        try:
            producers = Producers.load(disk.read_whole(snapshot_path(folder, offset)))
        except BadSnapshot as error:
            report(f"{snapshot_path(folder, offset)} is removed: {error}")
            disk.remove(snapshot_path(folder, offset))
            continue
        producers.now_ms = now_ms
        replay(producers, segments, offset)
        return producers
    producers = Producers()
    producers.now_ms = now_ms
    replay(producers, segments, segments[0].base_offset)
    return producers


def replay(producers: Producers, segments: Sequence[Segment], start_offset: int) -> None:
    for segment in segments:
        if segment.next_offset <= start_offset:
            continue
        for position, header in segment.headers_from(start_offset):
            if concerns_producers(header) and header.base_offset >= start_offset:
                batch = segment.read_at(position, header.size) if header.is_control else b""
                apply_batch(producers, segment, header, batch)


def concerns_producers(header: BatchHeader) -> bool:
    """Of control batches without a producer there is one kind: what a promoted mirror leaves."""
    return header.producer_id >= 0 or header.is_control


def apply_batch(producers: Producers, segment: Segment, header: BatchHeader, batch: Buffer) -> None:
    """A producer's batch is in the log at its offset: the state follows, and the segment's transaction index.

    `batch` is looked at for markers only.
    """
    if not header.is_control:
        producers.apply(header)
        return
    if header.producer_id < 0:
        if header.count and is_reset(batch):
            producers.reset()
        return
    marker = read_marker(batch) if header.count else None
    if marker is None:
        return
    completed = producers.apply_marker(
        header, committed=marker.committed, coordinator_epoch=marker.coordinator_epoch
    )
    if completed is not None and completed.aborted:
        stable = producers.last_stable_offset_after(completed)
        known = segment.aborted
        if not known or known[-1].last_offset < completed.last_offset:
            segment.note_aborted(
                AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
            )


def remove_stray_snapshots(disk: Disk, folder: str, segments: Sequence[Segment]) -> None:
    """Each segment keeps the state at its start, and the newest one is where the next start begins."""
    offsets = offsets_of_snapshots(disk, folder)
    kept = {segment.base_offset for segment in segments} | set(offsets[-1:])
    for offset in offsets:
        if offset not in kept:
            disk.remove(snapshot_path(folder, offset))
