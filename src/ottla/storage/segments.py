"""The segments of one log, in order. What leaves the log is renamed at once and unlinked by others, later."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from ottla.ports import Disk
from ottla.storage.files import DELETED, LOG, FileCache
from ottla.storage.segment import Segment
from ottla.storage.snapshots import offsets_of_snapshots, snapshot_path
from ottla.storage.swap import Swap


class Segments:
    """Never empty; the last one is active: the only one that is appended to."""

    __slots__ = ("_disk", "_doomed", "_files", "_folder", "active", "all")

    def __init__(self, disk: Disk, files: FileCache, folder: str, segments: list[Segment]) -> None:
        self._disk = disk
        self._files = files
        self._folder = folder
        self._doomed: list[str] = []
        self.all = segments
        self.active = segments[-1]

    def floor(self, offset: int) -> int:
        """The index of the segment that holds the offset, or would."""
        if offset >= self.active.base_offset:
            return len(self.all) - 1
        return max(0, bisect_right(self.all, offset, key=_base_offset) - 1)

    def holding(self, offset: int) -> Sequence[Segment]:
        """The segment that holds the offset, and all behind it."""
        return self.all[self.floor(offset) :]

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Close the active segment and start the next one. An empty one is replaced. The closed one."""
        closed = self.active
        following = Segment(self._disk, self._files, self._folder, base_offset, created_ms=now_ms)
        # Its name keeps the end offset, even if all that is before it goes.
        following.open_for_append()
        try:
            closed.seal()
        except OSError:
            following.close()
            self._disk.remove(following.path(LOG))  # as if nothing had happened
            raise
        if not closed.size_bytes:
            self._doom([self.all.pop()])
        self.all.append(following)
        self.active = following
        return closed

    def cut(self, offset: int) -> int:
        """Forget everything from `offset` on; the new end offset, lower if that is inside of a batch."""
        at = self.floor(offset)
        self._doom(self.all[at + 1 :])
        del self.all[at + 1 :]
        self.active = segment = self.all[-1]
        segment.reopen()
        position, header = next(segment.headers_from(offset), (segment.size_bytes, None))
        if header is not None and header.base_offset < offset:
            offset = header.base_offset
        segment.cut(position, offset)
        return offset

    def restart(self, offset: int) -> None:
        """Replaces all segments by an empty one that starts at the offset."""
        self._doom(self.all)
        for end_offset in offsets_of_snapshots(self._disk, self._folder):
            self._disk.remove(snapshot_path(self._folder, end_offset))
        self.active = Segment(self._disk, self._files, self._folder, offset)
        self.active.open_for_append()
        self.all = [self.active]

    def delete(self, segments: Sequence[Segment]) -> None:
        """Never the active one."""
        doomed = [segment for segment in segments if segment is not self.active]
        self.all = [segment for segment in self.all if segment not in doomed]
        self._doom(doomed)

    def swap_in(self, swap: Swap, size_bytes: Mapping[int, int]) -> bool:
        """A cleaned segment for closed ones; False, with nothing done, when these have changed meanwhile."""
        old = [segment for segment in self.all[:-1] if segment.base_offset in swap.replaced]
        if [segment.base_offset for segment in old] != list(swap.replaced):
            return False
        if any(segment.size_bytes != size_bytes[segment.base_offset] for segment in old):
            return False
        for segment in old:
            segment.close()
        swap.switch()
        cleaned = Segment.sealed(
            self._disk, self._files, self._folder, swap.base_offset, next_offset=old[-1].next_offset
        )
        at = self.all.index(old[0])
        self.all[at : at + len(old)] = [cleaned]
        return True

    def move_to(self, folder: str) -> None:
        """Another name for the folder they are all in."""
        self.close()  # files are cached by path
        if self._disk.exists(self._folder):  # one that was never written to is nowhere yet
            self._disk.rename(self._folder, folder)
        self._folder = folder
        for segment in self.all:
            segment.folder = folder

    def share_files(self, files: FileCache) -> None:
        self.close()
        self._files.close()
        self._files = files
        for segment in self.all:
            segment.files = files

    @property
    def has_doomed(self) -> bool:
        return bool(self._doomed)

    def take_doomed(self) -> list[str]:
        doomed, self._doomed = self._doomed, []
        return doomed

    def close(self) -> None:
        for segment in self.all:
            segment.close()

    def _doom(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self._doomed += segment.rename(DELETED)
            path = snapshot_path(self._folder, segment.base_offset)
            if segment is not self.active and self._disk.exists(path):
                self._disk.rename(path, path + DELETED)
                self._doomed.append(path + DELETED)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
