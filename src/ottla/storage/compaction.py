"""Compaction: of every key the newest record stays. One cleaning of a log, step by step.

It reads closed segments only, as a generator: each step is short (about 1,000 records), so that the
event loop can do its work in between. A step that yields a callable wants it run in a thread first, and what
that raises thrown in.
"""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.errors import OttlaError
from ottla.storage.cleanable import Cleanable
from ottla.storage.cleaned_segment import CleanedSegment
from ottla.storage.cleaned_transactions import CleanedTransactions
from ottla.storage.files import LOG, OFFSET_INDEX, TIME_INDEX, file_name
from ottla.storage.indexes import RELATIVE_OFFSET_MAX
from ottla.storage.key_map import KeyMap
from ottla.storage.rewrite import RECORDS_PER_STEP, Fate, Steps, T, in_thread, is_small, rewrite, unpack
from ottla.storage.swap import Swap
from ottla.wire import batch as batches
from ottla.wire import kernel
from ottla.wire.batch import BatchHeader

_READ_BYTES = 256 * 1024
_BATCH_COST = 32  # what a batch costs besides its records, in records
_FIELDS = kernel.INDEX_FIELDS
_KEY_START = 2
_LENGTH_PREFIX = 12


class _Source(NamedTuple):
    """A closed segment to read."""

    base_offset: int
    size_bytes: int


class CannotClean(OttlaError):
    """A batch in the way is damaged; the log stays as it is."""


class LogChanged(OttlaError):
    """Retention or a truncation took segments away meanwhile. Nothing is lost: the next pass starts over."""


class Cleaning:
    """One pass over a log. Run `steps` to its end; then `end_offset` is the next first dirty offset."""

    def __init__(
        self,
        work: Cleanable,
        *,
        now_ms: int,
        key_map_bytes: int = 128 << 20,
        decompressed_bytes_max: int = 1 << 30,
    ) -> None:
        self.end_offset = work.first_dirty_offset
        self.bytes_before = 0
        self.bytes_after = 0
        self._log = work.log
        self._config = work.log.config
        self._dirty = work.first_dirty_offset
        self._bound = work.first_uncleanable_offset
        self._now_ms = now_ms
        self._keys = KeyMap(key_map_bytes)
        self._bytes_max = decompressed_bytes_max

    def steps(self) -> Steps[None]:
        """Raises CannotClean, LogChanged or an OSError; what was not yet swapped in is then removed."""
        # As they are now: should one change on the way, the swap finds out by its size.
        segments = [
            _Source(segment.base_offset, segment.size_bytes)
            for segment in self._log.closed_segments()
            if segment.base_offset < self._bound
        ]
        yield from self._map_keys(segments)
        self.end_offset = max(self._dirty, self._keys.latest_offset + 1)
        todo = [segment for segment in segments if segment.base_offset < self.end_offset]
        aborted = self._log.aborted_transactions(todo[0].base_offset, self._bound) if todo else []
        transactions = CleanedTransactions(aborted)
        for group in self._groups(todo):
            yield from self._clean(group, transactions)

    # First walk: the newest offset of every key.

    def _map_keys(self, segments: Sequence[_Source]) -> Steps[None]:
        transactions = CleanedTransactions(self._log.aborted_transactions(self._dirty, self._bound))
        ends = [segment.base_offset for segment in segments[1:]] + [self._bound]
        for segment, end in zip(segments, ends, strict=False):
            if end > self._dirty:
                yield from self._map_segment(segment, transactions)
                if self._keys.is_full:
                    return
                # Offsets may be missing at the end of a segment.
                self._keys.latest_offset = max(self._keys.latest_offset, end - 1)

    def _map_segment(self, segment: _Source, transactions: CleanedTransactions) -> Steps[None]:
        cost = 0
        for batch, header in self._batches(segment):
            if header.last_offset < self._dirty:
                continue
            if self._keys.is_full:
                return
            if header.is_control:
                transactions.on_marker(header, _marker_kind(batch, header, self._bytes_max))
            elif not transactions.on_data(header) and header.count:
                yield from self._map_batch(batch, header)
            self._keys.latest_offset = header.last_offset
            cost += header.count + _BATCH_COST
            if cost > RECORDS_PER_STEP:
                cost = 0
                yield None

    def _map_batch(self, batch: memoryview, header: BatchHeader) -> Steps[None]:
        """A batch is taken whole even when that overfills the map: else a large one would block for ever."""
        if is_small(header):
            payload, rows = unpack(batch, header, self._bytes_max)
        else:
            payload, rows = yield from in_thread(lambda: unpack(batch, header, self._bytes_max))
        put = self._keys.put
        for first in range(0, header.count, RECORDS_PER_STEP):
            if first:
                yield None
            part = rows[first * _FIELDS : (first + RECORDS_PER_STEP) * _FIELDS]
            for delta, start, end in zip(part[0::_FIELDS], part[2::_FIELDS], part[3::_FIELDS], strict=True):
                if start >= 0 and header.base_offset + delta >= self._dirty:
                    put(bytes(payload[start:end]), header.base_offset + delta)

    # Second walk: groups of segments into one each.

    def _groups(self, segments: Sequence[_Source]) -> Iterator[list[_Source]]:
        """Neighbours that together still make one segment, so that segments do not dwindle."""
        group: list[_Source] = []
        sizes = (0, 0, 0)
        for at, segment in enumerate(segments):
            own = (segment.size_bytes, *self._index_sizes(segment))
            total = (sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2])
            end = segments[at + 1].base_offset if at + 1 < len(segments) else self._bound
            if group and not self._fits(total, end - 1 - group[0].base_offset):
                yield group
                group, total = [], own
            group.append(segment)
            sizes = total
        if group:
            yield group

    def _fits(self, sizes: tuple[int, int, int], relative_offset: int) -> bool:
        size, index_size, time_index_size = sizes
        limit = self._config.segment_index_bytes
        return (
            size <= self._config.segment_bytes
            and max(index_size, time_index_size) <= limit
            and relative_offset <= RELATIVE_OFFSET_MAX
        )

    def _index_sizes(self, segment: _Source) -> tuple[int, int]:
        paths = [self._path(segment, kind) for kind in (OFFSET_INDEX, TIME_INDEX)]
        first, second = [self._log.disk.size(path) if self._log.disk.exists(path) else 0 for path in paths]
        return first, second

    def _clean(self, group: Sequence[_Source], transactions: CleanedTransactions) -> Steps[None]:
        log = self._log
        swap = Swap(log.disk, log.folder, tuple(segment.base_offset for segment in group))
        cleaned = CleanedSegment(
            log.disk, log.folder, swap.base_offset, index_interval_bytes=self._config.index_interval_bytes
        )
        is_ours_to_drop = True
        try:
            changed = yield from self._copy(group, cleaned, transactions)
            retained, transactions.retained = transactions.retained, []
            self.bytes_before += sum(segment.size_bytes for segment in group)
            self.bytes_after += cleaned.size_bytes
            if not changed and len(group) == 1:
                return
            cleaned.finish(retained)
            yield cleaned.sync
            yield swap.prepare
            is_ours_to_drop = False  # should the disk fail now, the next start sorts it out
            if not log.swap_in(swap, dict(group)):
                is_ours_to_drop = True
                raise LogChanged(f"{log.folder}: the segments from {swap.base_offset} changed meanwhile")
            yield swap.finish
        finally:
            cleaned.close()
            if is_ours_to_drop:
                swap.abandon()

    def _copy(
        self, group: Sequence[_Source], cleaned: CleanedSegment, transactions: CleanedTransactions
    ) -> Steps[bool]:
        """True when anything is different afterwards."""
        changed = False
        cost = 0
        for segment in group:
            for batch, header in self._batches(segment):
                fate = self._fate(batch, header, transactions)
                rewritten = yield from rewrite(
                    batch, header, fate, self._keys, now_ms=self._now_ms, bytes_max=self._bytes_max
                )
                if rewritten is not batch:
                    changed = True
                if rewritten is not None:
                    remaining = header if rewritten is batch else batches.read_header(rewritten)
                    cleaned.append(
                        rewritten, last_offset=header.last_offset, max_timestamp=remaining.max_timestamp
                    )
                cost += header.count + _BATCH_COST
                if cost > RECORDS_PER_STEP:
                    cost = 0
                    yield None
        return changed

    def _fate(self, batch: memoryview, header: BatchHeader, transactions: CleanedTransactions) -> Fate:
        spent = False
        if header.is_control:
            spent = transactions.on_marker(header, _marker_kind(batch, header, self._bytes_max))
            discard = spent and header.has_delete_horizon and header.base_timestamp <= self._now_ms
        else:
            discard = transactions.on_data(header)
        # The last batch of the pass stays so that the end of what was cleaned can be seen.
        keep_empty = self._is_last_of_producer(header) or header.next_offset == self._bound
        return Fate(discard, keep_empty, self._now_ms + self._config.delete_retention_ms, spent)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Its sequence, or of a marker without any data its epoch, must outlive its records."""
        entry = self._log.producer_entries.get(header.producer_id)
        if entry is None or header.producer_id < 0:
            return False
        if entry.last_offset >= 0:
            return header.last_offset == entry.last_offset
        return header.is_control and header.producer_epoch == entry.epoch

    def _batches(self, segment: _Source) -> Iterator[tuple[memoryview, BatchHeader]]:
        """Every batch, its CRC checked."""
        path = self._path(segment, LOG)
        try:
            file = self._log.disk.open(path)
        except FileNotFoundError:
            raise LogChanged(f"{path} is gone") from None
        try:
            position = 0
            want = _READ_BYTES
            while position < segment.size_bytes:
                chunk = memoryview(file.read(position, min(want, segment.size_bytes - position)))
                used = 0
                while size := _whole_batch_bytes(chunk, used):
                    header = batches.check(chunk, used)
                    yield chunk[used : used + size], header
                    used += size
                if not used:
                    if position + want >= segment.size_bytes:
                        raise self._trouble(segment, f"{path}: the last batch, at {position}, is cut off")
                    want = max(batches.read_header(chunk).size, want + 1)
                    continue
                position += used
                want = _READ_BYTES
        except batches.CorruptBatch as error:
            raise self._trouble(
                segment, f"{path}: damaged batch behind position {position}: {error}"
            ) from error
        finally:
            file.close()

    def _trouble(self, segment: _Source, text: str) -> OttlaError:
        current = [(segment.base_offset, segment.size_bytes) for segment in self._log.closed_segments()]
        return CannotClean(text) if segment in current else LogChanged(text)

    def _path(self, segment: _Source, kind: str) -> str:
        return f"{self._log.folder}/{file_name(segment.base_offset, kind)}"


def _whole_batch_bytes(chunk: memoryview, position: int) -> int:
    """The size of the batch that starts here; 0 when the chunk ends within it."""
    if position + batches.HEADER_BYTES > len(chunk):
        return 0
    size = _LENGTH_PREFIX + int.from_bytes(chunk[position + 8 : position + 12], "big")
    return size if position + size <= len(chunk) else 0


def run_all(steps: Steps[T]) -> T:
    """All steps at once, the slow ones too: for tests and tools, and to show how steps are driven."""
    try:
        job = next(steps)
        while True:
            try:
                if job is not None:
                    job()
            except Exception as error:
                job = steps.throw(error)  # what fails in a thread is thrown in
            else:
                job = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def _marker_kind(batch: memoryview, header: BatchHeader, bytes_max: int) -> int | None:
    """ABORT or COMMIT; None for a marker that was emptied."""
    if not header.count:
        return None
    payload = batches.payload(batch, 0, header, limit=bytes_max)
    rows = array("q")
    rows.frombytes(kernel.index(payload, header.count))
    key_start = rows[_KEY_START]
    return int.from_bytes(payload[key_start + 2 : key_start + 4], "big")
