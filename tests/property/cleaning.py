"""Logs to compact: built from a list of writes, with what must be left of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.config.log import LogConfig
from ottla.ports import Disk
from ottla.storage.cleanable import assess
from ottla.storage.compaction import Cleaning, run_all
from ottla.storage.files import LOG, FileCache, base_offset_of
from ottla.storage.indexes import AbortedTransaction
from ottla.storage.markers import build_marker
from ottla.storage.memory import MemoryDisk
from ottla.storage.producers import ProducerEntry, Producers
from ottla.storage.segment import Segment
from ottla.storage.snapshots import apply_batch
from ottla.storage.swap import Swap
from ottla.wire import batch as batches
from ottla.wire import compression, records
from ottla.wire.records import Record

FOLDER = "t-0"
NOW_MS = 10_000


class Row(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass
class DirtyLog:
    """Segments written as a log writes them, and what compaction asks of a log."""

    disk: Any = field(default_factory=MemoryDisk)  # a Disk that may crash
    config: LogConfig = field(
        default_factory=lambda: LogConfig(compact=True, delete=False, delete_retention_ms=100)
    )
    files: FileCache = field(default_factory=FileCache)
    folder: str = FOLDER
    log_start_offset: int = 0
    end_offset: int = 0
    producers: Producers = field(default_factory=Producers)
    segments: list[Segment] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    aborted_offsets: set[int] = field(default_factory=set)
    _sequences: dict[int, int] = field(default_factory=dict)
    _open: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.disk.make_folder(self.folder)
        self.disk.sync_folder("")
        self._start_segment()

    # Writing.

    def write(
        self,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        *,
        producer: int = -1,
        transactional: bool = False,
        codec: int = compression.NONE,
        log_append_time_ms: int | None = None,
    ) -> None:
        first, clock = self.end_offset, self.end_offset
        made = [
            Record(at, clock + at % 7, key, value, (("h", b"%d" % at),))
            for at, (key, value) in enumerate(pairs, start=first)
        ]
        sequence = self._sequences.get(producer, 0) if producer >= 0 else -1
        self._sequences[producer] = sequence + len(made)
        batch = batches.build(
            made,
            base_offset=first,
            leader_epoch=0,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            log_append_time_ms=log_append_time_ms,
        )
        for each in made:
            stamp = each.timestamp if log_append_time_ms is None else log_append_time_ms
            self.rows.append(Row(each.offset, each.key, each.value, stamp, each.headers))
        if transactional:
            self._open.setdefault(producer, []).extend(each.offset for each in made)
        self._append(batch)

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        offsets = self._open.pop(producer, [])
        if not committed:
            self.aborted_offsets.update(offsets)
        marker = bytearray(build_marker(producer, 0, committed=committed, coordinator_epoch=0, now_ms=NOW_MS))
        batches.stamp(marker, base_offset=self.end_offset, leader_epoch=0)
        self._append(bytes(marker))

    def roll(self) -> None:
        if self.segments[-1].size_bytes:
            self.segments[-1].seal()
            self._start_segment()

    def _append(self, batch: bytes) -> None:
        header = batches.read_header(batch)
        self.segments[-1].append(
            (batch,), header.size, header.last_offset, header.max_timestamp, self.config.index_interval_bytes
        )
        self.end_offset = header.next_offset
        if header.producer_id >= 0:
            apply_batch(self.producers, self.segments[-1], header, batch)
            self.producers.on_high_watermark(self.end_offset)

    def _start_segment(self) -> None:
        self.segments.append(Segment(self.disk, self.files, self.folder, self.end_offset))

    # What compaction asks for.

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producers.first_unstable_offset
        return self.end_offset if unstable is None else unstable

    @property
    def producer_entries(self) -> Mapping[int, ProducerEntry]:
        return self.producers.entries

    @property
    def active_base_offset(self) -> int:
        return self.segments[-1].base_offset

    def closed_segments(self) -> Sequence[Segment]:
        return self.segments[:-1]

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        every = [each for segment in self.segments for each in segment.aborted]
        return [each for each in every if each.last_offset >= start and each.first_offset < end]

    def swap_in(self, swap: Swap, size_bytes: Mapping[int, int]) -> bool:
        at = [each.base_offset for each in self.segments].index(swap.base_offset)
        old = self.segments[at : at + len(swap.replaced)]
        if {each.base_offset: each.size_bytes for each in old} != dict(size_bytes):
            return False
        for each in old:
            each.close()
        swap.switch()
        new = Segment.sealed(
            self.disk, self.files, self.folder, swap.base_offset, next_offset=old[-1].next_offset
        )
        self.segments[at : at + len(old)] = [new]
        return True

    # Looking at it.

    def clean(self, dirty: int | None = None, *, now_ms: int = NOW_MS, key_map_bytes: int = 1 << 20) -> int:
        cleaning = Cleaning(assess(self, dirty, now_ms), now_ms=now_ms, key_map_bytes=key_map_bytes)
        run_all(cleaning.steps())
        return cleaning.end_offset

    def left(self) -> list[Row]:
        return rows_on(self.disk, self.folder)

    def expected(self, bound: int) -> list[Row]:
        """The newest committed record of each key below the bound; all others at or above it."""
        newest = {
            row.key: row.offset
            for row in self.rows
            if row.offset < bound and row.offset not in self.aborted_offsets
        }
        return [
            row
            for row in self.rows
            if row.offset >= bound or (row.key is not None and newest.get(row.key) == row.offset)
        ]


def batches_on(disk: Disk, folder: str = FOLDER) -> list[tuple[batches.BatchHeader, bytes]]:
    """Every batch of the plain segments, checked."""
    found = []
    for name in disk.list(folder):
        if name.endswith(LOG) and base_offset_of(name) is not None:
            data = disk.read_whole(f"{folder}/{name}")
            for at, header in batches.headers(data):
                batches.check(data, at)
                found.append((header, data[at : at + header.size]))
    return found


def rows_on(disk: Disk, folder: str = FOLDER) -> list[Row]:
    return [
        Row(each.offset, each.key, each.value, each.timestamp, tuple(each.headers))
        for header, batch in batches_on(disk, folder)
        if not header.is_control
        for each in records.read(batch)
    ]
