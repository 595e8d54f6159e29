"""Putting a cleaned segment in the place of others so that a crash leaves either the old or the new ones.

Names go `.cleaned` -> `.swap` -> plain, those of the old segments -> `.deleted`, as in Kafka. Kafka sees what
a `.swap` replaces by the offsets in it, which is too little when its last batches went away. So a note,
`<base offset>.replaced`, lists the old segments from before the first rename until after the last one.
"""

from collections.abc import Callable, Sequence

from ottla.frozen import frozen
from ottla.ports import Disk
from ottla.storage.checkpoints import DamagedFile
from ottla.storage.files import (
    CLEANED,
    DELETED,
    LOG,
    SEGMENT_KINDS,
    SNAPSHOT,
    SWAP,
    base_offset_of,
    file_name,
)
from ottla.wire import batch as batches

REPLACED = ".replaced"


@frozen
class Swap:
    """One cleaned segment and the segments it replaces; the first of those has the same base offset."""

    disk: Disk
    folder: str
    replaced: tuple[int, ...]

    @property
    def base_offset(self) -> int:
        return self.replaced[0]

    def prepare(self) -> None:
        """Slow: the cleaned files are synced; now their names, and the note."""
        self.disk.sync_folder(self.folder)
        text = "\n".join(str(base) for base in self.replaced) + "\n"
        self.disk.write_whole(self._path(self.base_offset, REPLACED), text.encode())

    def switch(self) -> None:
        """Quick: only renames. The old segments' open files are of no use afterwards."""
        for kind in reversed(SEGMENT_KINDS):  # the log last: with it, the new segment is complete
            self._rename(self.base_offset, kind, CLEANED, SWAP)
        for base in self.replaced:
            for kind in SEGMENT_KINDS:
                self._rename(base, kind, "", DELETED)
        for base in self.replaced[1:]:  # a snapshot tells the state at the start of a segment
            self._rename(base, SNAPSHOT, "", DELETED)
        for kind in SEGMENT_KINDS:
            self._rename(self.base_offset, kind, SWAP, "")

    def finish(self) -> None:
        """Slow: the renames become durable, the note and the old files go."""
        self.disk.sync_folder(self.folder)
        self.disk.remove(self._path(self.base_offset, REPLACED))
        self.disk.sync_folder(self.folder)
        for base in self.replaced:
            for kind in (*SEGMENT_KINDS, SNAPSHOT):
                self.disk.remove(self._path(base, kind, DELETED))

    def abandon(self) -> None:
        """The log has changed meanwhile, or nothing was gained. Before `switch` only."""
        self.disk.remove(self._path(self.base_offset, REPLACED))
        for kind in SEGMENT_KINDS:
            self.disk.remove(self._path(self.base_offset, kind, CLEANED))

    def recover(self) -> str:
        """After a crash, the note being there: back to the old segments if all of them still are, else on."""
        is_ready = self._exists(self.base_offset, LOG, CLEANED) or self._exists(self.base_offset, LOG, SWAP)
        if self._exists(self.base_offset, LOG, CLEANED) and all(
            self._exists(base, LOG) for base in self.replaced
        ):
            self._undo()
            return "undone"
        if is_ready:
            self._remove_old(self.replaced)
        else:  # the log has its name already
            self._remove_old(self.replaced[1:])
        for kind in SEGMENT_KINDS:  # the log first: an index is never older than its log
            self._rename(self.base_offset, kind, SWAP, "")
            self._rename(self.base_offset, kind, CLEANED, "")
        self.finish()
        return "completed"

    def _undo(self) -> None:
        self.disk.remove(self._path(self.base_offset, REPLACED))
        self.disk.sync_folder(self.folder)
        for kind in SEGMENT_KINDS:
            self.disk.remove(self._path(self.base_offset, kind, SWAP))
            self.disk.remove(self._path(self.base_offset, kind, CLEANED))

    def _remove_old(self, bases: Sequence[int]) -> None:
        for base in bases:
            for kind in SEGMENT_KINDS:
                self.disk.remove(self._path(base, kind))
        for base in self.replaced[1:]:
            self.disk.remove(self._path(base, SNAPSHOT))

    def _rename(self, base: int, kind: str, old: str, new: str) -> None:
        if self._exists(base, kind, old):
            self.disk.rename(self._path(base, kind, old), self._path(base, kind, new))

    def _exists(self, base: int, kind: str, suffix: str = "") -> bool:
        return self.disk.exists(self._path(base, kind, suffix))

    def _path(self, base: int, kind: str, suffix: str = "") -> str:
        return f"{self.folder}/{file_name(base, kind, suffix)}"


def recover_swaps(disk: Disk, folder: str, report: Callable[[str], None] = lambda _: None) -> None:
    """Before a log is opened: finish or undo what a crash interrupted, here or in Kafka; clear leftovers."""
    for name in disk.list(folder):
        if name.endswith(REPLACED):
            swap = Swap(disk, folder, _read_note(disk, f"{folder}/{name}"))
            outcome = swap.recover()
            report(f"{folder}: the swap of {len(swap.replaced)} segments at {swap.base_offset} was {outcome}")
    _drop_cleaned(disk, folder)
    _complete_swaps_of_kafka(disk, folder, report)
    for name in disk.list(folder):
        if name.endswith(DELETED):
            disk.remove(f"{folder}/{name}")


def _read_note(disk: Disk, path: str) -> tuple[int, ...]:
    lines = disk.read_whole(path).split(b"\n")
    if len(lines) < 2 or lines[-1] or not all(line.isdigit() for line in lines[:-1]):
        raise DamagedFile(path, "not a list of base offsets")
    return tuple(int(line) for line in lines[:-1])


def _drop_cleaned(disk: Disk, folder: str) -> None:
    """A swap at or behind a `.cleaned` file is of the same unfinished work: Kafka splits segments so."""
    names = disk.list(folder)
    cleaned = [
        base for name in names if name.endswith(CLEANED) and (base := base_offset_of(name)) is not None
    ]
    for name in names:
        base = base_offset_of(name)
        is_unfinished = cleaned and base is not None and base >= min(cleaned)
        if name.endswith(CLEANED) or (name.endswith(SWAP) and is_unfinished):
            disk.remove(f"{folder}/{name}")


def _complete_swaps_of_kafka(disk: Disk, folder: str, report: Callable[[str], None]) -> None:
    names = disk.list(folder)
    swaps = [name for name in names if name.endswith(SWAP)]
    for name in swaps:
        base = base_offset_of(name)
        if base is None or not name.endswith(LOG + SWAP):
            continue
        end = _end_of(disk, f"{folder}/{name}", base)
        for old in names:
            old_base = base_offset_of(old)
            if old_base is not None and base <= old_base < max(end, base + 1) and old.endswith(SEGMENT_KINDS):
                disk.remove(f"{folder}/{old}")
        report(f"{folder}: the swap of the segments from {base} to {end} was completed")
    # Logs first, as above.
    for name in sorted(swaps, key=lambda swap_name: not swap_name.endswith(LOG + SWAP)):
        disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(SWAP)}")


def _end_of(disk: Disk, path: str, base_offset: int) -> int:
    """The offset after the last batch of a log file."""
    end = base_offset
    position = 0
    size = disk.size(path)
    file = disk.open(path)
    try:
        while position + batches.HEADER_BYTES <= size:
            header = batches.read_header(file.read(position, batches.HEADER_BYTES))
            position += header.size
            end = header.next_offset
    finally:
        file.close()
    return end
