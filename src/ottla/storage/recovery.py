"""Opening the segments of a folder; after an unclean stop, checking what follows the recovery point.

No byte behind the recovery point is trusted before its CRC was checked. What is cut although valid batches
stand behind it is kept beside, with the suffix `.corrupt`, and every cut is reported.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.config.log import LogConfig
from ottla.ports import Disk
from ottla.storage.epochs import LeaderEpochs
from ottla.storage.files import (
    CORRUPT,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    FileCache,
    base_offset_of,
)
from ottla.storage.indexes import RELATIVE_OFFSET_MAX
from ottla.storage.segment import Segment
from ottla.wire.batch import HEADER_BYTES, BatchHeader, CorruptBatch, check, read_header

_CHUNK_BYTES = 1 << 20
_RESYNC_BYTES_MAX = 16 << 20
_MAGIC_AT = 16
_MAGIC = b"\x02"
_OFFSETS_AHEAD_MAX = 1 << 31
_TRUST_ALL = 1 << 63


@dataclass(slots=True)
class Recovered:
    """Segments in order, the last one open for appends; empty for a new log. `rebuilt_from` is the base
    offset of the first one that lacks its aborted transactions. The replay of producers brings them back, and
    only then may those before the last one be sealed."""

    segments: list[Segment]
    rebuilt_from: int


@dataclass(frozen=True, slots=True)
class _Cut:
    position: int
    reason: str


class Recovery:
    def __init__(
        self,
        disk: Disk,
        files: FileCache,
        folder: str,
        config: LogConfig,
        epochs: LeaderEpochs,
        *,
        now_ms: int,
        report: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._files = files
        self._folder = folder
        self._interval = config.index_interval_bytes
        self._compacted = config.compact
        self._epochs = epochs
        self._now_ms = now_ms
        self._report = report
        self._rebuilt_from = _TRUST_ALL

    def run(self, *, clean: bool, recovery_point: int) -> Recovered:
        segments = self._existing()
        trusted = _TRUST_ALL if clean else recovery_point
        for at, segment in enumerate(segments):
            is_last = at == len(segments) - 1
            # At its very end the recovery point may have come there before it was closed: what was written
            # when it was (indexes, the snapshot) is synced with what follows.
            if segment.next_offset < trusted and not is_last:
                self._ensure_indexes(segment)
                continue
            end_offset = segment.next_offset
            cut = self._walk(segment, trusted) or self._gap(segment, end_offset)
            if cut is not None:
                self._cut(segment, cut, segments[at + 1 :])
                return Recovered(segments[: at + 1], self._rebuilt_from)
            if not is_last:
                segment.close()
        return Recovered(segments, self._rebuilt_from)

    def _existing(self) -> list[Segment]:
        names = self._disk.list(self._folder)
        bases = [base for name in names if name.endswith(LOG) and (base := base_offset_of(name)) is not None]
        for name in names:  # indexes without a log: a crash while deleting
            if (
                name.endswith((OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX))
                and base_offset_of(name) not in bases
            ):
                self._disk.remove(f"{self._folder}/{name}")
        return [
            Segment.sealed(
                self._disk, self._files, self._folder, base, next_offset=next_base, created_ms=self._now_ms
            )
            for base, next_base in zip(bases, [*bases[1:], _TRUST_ALL], strict=False)
        ]

    def _ensure_indexes(self, segment: Segment) -> None:
        if not self._has_indexes(segment):
            next_offset = segment.next_offset
            cut = self._walk(segment, _TRUST_ALL)
            if cut is not None:
                self._report(
                    f"{segment.path(LOG)}: corrupt at position {cut.position}: {cut.reason}; left as it is"
                )
            segment.close()
            segment.size_bytes = self._disk.size(segment.path(LOG))
            segment.next_offset = next_offset

    def _has_indexes(self, segment: Segment) -> bool:
        """An empty time index would hide the segment; it is what a power cut leaves of one never synced."""
        index, time = segment.path(OFFSET_INDEX), segment.path(TIME_INDEX)
        if not self._disk.exists(index) or not self._disk.exists(time):
            return False
        return self._disk.size(time) > 0 or segment.size_bytes == 0

    def _walk(self, segment: Segment, trusted: int) -> _Cut | None:
        """Note every batch; CRCs count from the offset `trusted` on. Where it has to be cut, if it has to."""
        size, end_offset = segment.size_bytes, segment.next_offset  # of the last one: without a limit
        # After an unclean stop any part of its indexes may be missing, and nobody would notice.
        if trusted != _TRUST_ALL or not segment.resume():
            segment.forget_all()
            self._rebuilt_from = min(self._rebuilt_from, segment.base_offset)
        file = segment.open_for_append()
        buffer, start = b"", 0
        while (position := segment.size_bytes) < size:
            at = position - start
            if at + HEADER_BYTES > len(buffer):
                buffer, start, at = file.read(position, _CHUNK_BYTES), position, 0
            try:
                header = read_header(buffer, at)
                if position + header.size > size:
                    return _Cut(position, "the batch is not whole")
                if header.last_offset >= trusted:
                    if at + header.size > len(buffer):
                        buffer, start, at = file.read(position, max(header.size, _CHUNK_BYTES)), position, 0
                    check(buffer, at)
            except CorruptBatch as error:
                return _Cut(position, error.message)
            # Offsets are not under the CRC.
            if header.base_offset < segment.next_offset or header.last_offset_delta < 0:
                return _Cut(position, f"offset {header.base_offset} comes after {segment.next_offset - 1}")
            if header.last_offset >= min(end_offset, segment.base_offset + RELATIVE_OFFSET_MAX):
                return _Cut(position, f"offset {header.last_offset} is not of this segment")
            self._note(segment, header)
        return None

    def _gap(self, segment: Segment, end_offset: int) -> _Cut | None:
        """A power cut may take the end of a segment and leave the next one. Compaction leaves gaps, too."""
        if self._compacted or segment.next_offset >= end_offset or end_offset == _TRUST_ALL:
            return None
        return _Cut(segment.size_bytes, f"the offsets up to {end_offset} are missing")

    def _note(self, segment: Segment, header: BatchHeader) -> None:
        segment.note(header.size, header.last_offset, header.max_timestamp, self._interval)
        if header.leader_epoch != self._epochs.epoch_of(header.base_offset):
            # The checkpoint may be of records that were cut off before these came in their place.
            self._epochs.truncate_from_end(header.base_offset)
            if header.leader_epoch > self._epochs.latest:
                self._epochs.assign(header.leader_epoch, header.base_offset)

    def _cut(self, segment: Segment, cut: _Cut, later: list[Segment]) -> None:
        path = segment.path(LOG)
        file = segment.open_for_append()
        removed_bytes = file.size() - cut.position
        copy = ""
        if removed_bytes and (later or self._holds_valid_batch(segment, cut.position)):
            copy = f"{path}.{cut.position}{CORRUPT}"
            self._copy_tail(segment, cut.position, copy)
        segment.cut(cut.position, segment.next_offset)
        self._report(
            f"{path}: cut at position {cut.position}, {removed_bytes} bytes from offset "
            f"{segment.next_offset} on are gone: {cut.reason}"
            + (f"; they are kept in {copy}" if copy else "")
        )
        for later_segment in later:
            later_segment.rename(CORRUPT)
            self._report(f"{later_segment.path(LOG)}: taken out of the log, the segment before it is corrupt")
        if later:
            # With their names of before they would be taken for what follows the records that come next.
            self._disk.sync_folder(self._folder)

    def _holds_valid_batch(self, segment: Segment, position: int) -> bool:
        """Is there a good batch behind the bad one? Then it was no torn write: a person wants to see it."""
        file = segment.open_for_append()
        tail = file.read(position, _RESYNC_BYTES_MAX)
        at = tail.find(_MAGIC, _MAGIC_AT + 1)
        while at >= 0:
            if self._is_valid(tail, at - _MAGIC_AT, segment.next_offset):
                return True
            at = tail.find(_MAGIC, at + 1)
        return False

    def _is_valid(self, tail: bytes, at: int, next_offset: int) -> bool:
        try:
            header = read_header(tail, at)
            if not next_offset <= header.base_offset < next_offset + _OFFSETS_AHEAD_MAX:
                return False
            check(tail, at)
        except CorruptBatch:
            return False
        return True

    def _copy_tail(self, segment: Segment, position: int, path: str) -> None:
        self._disk.remove(path)
        source, target = segment.open_for_append(), self._disk.open(path, create=True)
        try:
            while data := source.read(position, _CHUNK_BYTES):
                target.append((data,))
                position += len(data)
            target.sync()
        finally:
            target.close()
