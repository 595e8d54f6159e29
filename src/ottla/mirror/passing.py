"""Fetched batches to batches for the target: passed through where they are dense, else taken apart. Pure.

A batch passes with its compressed body untouched; the writer stamps producer, sequence and CRC. It cannot pass if
offsets are missing in it (compaction), if it begins before the position, or if its header gives its records times
that the target would not give them (LogAppendTime, a delete horizon).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.client.columnar.whole import Chunk
from ottla.mirror.runs import Run
from ottla.ports import Buffer
from ottla.wire import batch as batches
from ottla.wire import columns
from ottla.wire.batch import BatchHeader

SMALL_RECORDS = (
    8  # batches with fewer records on average are put together: each costs the same whatever it holds
)
_LEADER_EPOCH = -1


class Passed(NamedTuple):
    """A batch for the target, with the source offsets of its records as runs (whose target is the index)."""

    data: bytearray
    records: int
    runs: list[Run]
    passed_through: bool


def batches_of(chunk: Chunk, position: int) -> Iterator[Passed]:
    """The committed records of a chunk from `position` on, in order."""
    waiting: list[tuple[BatchHeader, memoryview]] = []
    for header, data in chunk.batches():
        if header.next_offset <= position:
            continue
        batches.check(data)  # a new CRC over damaged bytes would hide the damage
        if _can_pass(header, position) and not _is_small(header):
            yield from _rewritten(chunk, waiting, position)
            waiting = []
            yield _as_it_is(header, data)
        else:
            if waiting and waiting[-1][0].codec != header.codec:
                yield from _rewritten(chunk, waiting, position)
                waiting = []
            waiting.append((header, data))
    yield from _rewritten(chunk, waiting, position)


def _can_pass(header: BatchHeader, position: int) -> bool:
    dense = header.count == header.last_offset_delta + 1
    return (
        dense
        and header.base_offset >= position
        and not (header.log_append_time or header.has_delete_horizon or header.is_control)
    )


def _is_small(header: BatchHeader) -> bool:
    return header.count < SMALL_RECORDS and header.size < 64 * 1024


def _as_it_is(header: BatchHeader, data: Buffer) -> Passed:
    copy = bytearray(data)
    batches.stamp(copy, base_offset=0, leader_epoch=_LEADER_EPOCH)
    return Passed(copy, header.count, [Run(header.base_offset, 0, header.count)], True)


def _rewritten(
    chunk: Chunk, waiting: list[tuple[BatchHeader, memoryview]], position: int
) -> Iterator[Passed]:
    """Batches of one codec as rows, and as new batches with consecutive offsets."""
    if not waiting:
        return
    if len(waiting) == 1 and _can_pass(waiting[0][0], position):
        yield _as_it_is(*waiting[0])
        return
    parts = [columns.Part(*chunk.partition, data, position) for _, data in waiting]
    rows = columns.decode(parts, headers=True, check_crc=False)
    if not rows.num_rows:
        return
    offsets = rows.column("offset").to_numpy()
    for encoded in columns.encode(_columns(rows), now_ms=-1, codec=waiting[0][0].codec, transactional=True):
        part = offsets[encoded.first_row : encoded.end_row]
        yield Passed(encoded.batch, len(part), runs_of(part), False)


def _columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["key", "value", "timestamp", "headers"])


def runs_of(offsets: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[Run]:
    """Ascending source offsets as runs; each target is the index of the run's first record."""
    begins = np.flatnonzero(np.diff(offsets, prepend=offsets[:1] - 2) != 1)
    ends = np.append(begins[1:], len(offsets))
    return [
        Run(int(offsets[begin]), int(begin), int(end - begin))
        for begin, end in zip(begins, ends, strict=True)
    ]
