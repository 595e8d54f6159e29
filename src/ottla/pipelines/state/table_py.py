"""What `_table.c` does, in numpy and Python: the same results in the same arrays, for where C could not be built.

Looking up is done for all keys at once; only new and deleted keys are handled one by one.
"""

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Raw = npt.NDArray[np.uint8]

SEED, ROWS_USED, LIVE, FREE_ROW, HEAP_USED, HEAP_GARBAGE = range(6)
LENGTH_BYTES = 4
ROWS_MAX = 0xFFFF_FFFE
MISSING = -1
_PIECE = 8192  # keys

_STEP = np.uint64(0x9E3779B97F4A7C15)
_SALT = np.uint64(0xD6E8FEB86659FD93)
_LAST = np.uint64(0xC2B2AE3D27D4EB4F)
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)
_EMPTY = np.empty(0, np.uint8)


class _Cells(NamedTuple):
    """Pieces of an array of bytes."""

    bytes: Raw
    starts: Ints
    lengths: Ints


def _cells(offsets: Any, data: Any, start: int, count: int) -> _Cells:
    """Some cells of a binary array."""
    edges = np.frombuffer(offsets, np.int32)[start : start + count + 1].astype(np.int64)
    cut = np.frombuffer(data, np.uint8) if len(data) else _EMPTY
    if start < 0 or count < 0 or len(edges) != count + 1 or not _rises(edges, len(cut)):
        raise _inconsistent()
    return _Cells(cut, edges[:-1], np.diff(edges))


def find(
    counters: Ints,
    slots: Any,
    offsets: Ints,
    heap: Raw,
    rows: Ints,
    key_offsets: Any,
    key_bytes: Any,
    start: int,
    count: int,
    /,
) -> int:
    keys = _cells(key_offsets, key_bytes, start, count)
    _check(counters, slots, offsets, heap)
    rows[:count] = _look_up(slots, offsets, heap, keys, _hashes(keys, counters[SEED]))
    return count


def assign(
    counters: Ints,
    slots: Any,
    offsets: Ints,
    heap: Raw,
    rows: Ints,
    created: Ints,
    key_offsets: Any,
    key_bytes: Any,
    start: int,
    done: int,
    count: int,
    limit: int,
    /,
) -> tuple[int, int]:
    _check(counters, slots, offsets, heap)
    places, creations = _Places(counters, slots, offsets, heap, limit), 0
    while done < count:  # in pieces, because what is looked up behind a full array is looked up again
        some = min(_PIECE, count - done)
        keys = _cells(key_offsets, key_bytes, start + done, some)
        hashes = _hashes(keys, counters[SEED])
        rows_found = _look_up(slots, offsets, heap, keys, hashes)
        new = np.flatnonzero(rows_found == MISSING)
        inserted, ready = _insert(places, keys, hashes, new, rows_found)
        created[creations : creations + len(inserted)] = inserted
        creations += len(inserted)
        rows[done : done + ready] = rows_found[:ready]
        done += ready
        if ready < some:
            break
    return done, creations


def _insert(places: "_Places", keys: _Cells, hashes: Words, new: Ints, rows: Ints) -> tuple[list[int], int]:
    """The rows that were created, and how many keys have their rows now."""
    inserted: dict[bytes, int] = {}
    data, starts, lengths = keys.bytes.data, keys.starts[new].tolist(), keys.lengths[new].tolist()
    for index, begin, length, hashed in zip(new.tolist(), starts, lengths, hashes[new].tolist(), strict=True):
        key = bytes(data[begin : begin + length])
        row = inserted.get(key)
        if row is None:
            row = places.insert(key, hashed)
            if row == MISSING:
                return list(inserted.values()), index
            inserted[key] = row
        rows[index] = row
    return list(inserted.values()), len(rows)


def delete(counters: Ints, slots: Any, offsets: Ints, heap: Raw, rows: Any, /) -> int:
    _check(counters, slots, offsets, heap)
    picked = np.asarray(rows)
    if len(picked) and picked.max() >= counters[ROWS_USED]:
        raise _inconsistent()
    lengths = _lengths(offsets, heap, picked)
    starts = np.where(offsets[picked] > 0, offsets[picked] - 1 + LENGTH_BYTES, 0)
    hashes = _hashes(_Cells(heap, starts, lengths), counters[SEED])
    places, before = _Places(counters, slots, offsets, heap, 0), counters[LIVE]
    for row, hashed, length in zip(picked.tolist(), hashes.tolist(), lengths.tolist(), strict=True):
        places.delete(row, hashed, length)
    return int(before - counters[LIVE])


def rehash(target: Any, source: Any, /) -> int:
    mask = len(target) - 1
    if len(target) <= len(source) or len(target) & mask:
        raise _inconsistent()
    moved = source[source["row"] != 0].tolist()
    cells = target.view(np.uint32).data
    for hashed, row in moved:
        index = hashed & mask
        while cells[2 * index + 1]:
            index = (index + 1) & mask
        cells[2 * index], cells[2 * index + 1] = hashed, row
    return len(moved)


def measure(offsets: Ints, heap: Raw, rows: Any, /) -> int:
    return int(_lengths(offsets, heap, np.asarray(rows)).sum())


def gather(out_offsets: Any, out_bytes: Any, offsets: Ints, heap: Raw, rows: Any, /) -> int:
    picked = np.asarray(rows)
    lengths = _lengths(offsets, heap, picked)
    edges = np.frombuffer(out_offsets, np.int32)
    total = int(lengths.sum())
    if len(edges) <= len(picked) or total > len(out_bytes) or len(out_bytes) > 0x7FFF_FFFF:
        raise _inconsistent()
    edges[0] = 0
    np.cumsum(lengths, out=edges[1 : len(picked) + 1])
    starts = np.where(lengths > 0, offsets[picked] - 1 + LENGTH_BYTES, 0)
    if total:
        np.frombuffer(out_bytes, np.uint8)[:total] = heap[_spread(starts, lengths)]
    return total


def put(
    counters: Ints,
    offsets: Ints,
    heap: Raw,
    rows: Any,
    value_offsets: Any,
    value_bytes: Any,
    start: int,
    done: int,
    count: int,
    /,
) -> int:
    used, garbage = 0, 1  # a heap of values has only these counters
    values = _cells(value_offsets, value_bytes, start + done, count - done)
    picked = np.asarray(rows)[done:count]
    if not 0 <= counters[used] <= len(heap):
        raise _inconsistent()
    counted, at_row, content, data = counters.data, offsets.data, heap.data, values.bytes.data
    sizes, starts = values.lengths.tolist(), values.starts.tolist()
    _lengths(offsets, heap, picked)  # that they are inside of the heap
    for index, row in enumerate(picked.tolist()):
        length, at = sizes[index], at_row[row] - 1
        old = struct.unpack_from("=I", content, at)[0] if at >= 0 else 0
        if at >= 0 and length <= old:
            counted[garbage] += old - length
        else:
            if length > len(heap) - LENGTH_BYTES - counted[used]:
                return done + index
            if at >= 0:
                counted[garbage] += LENGTH_BYTES + old
            at = counted[used]
            at_row[row] = at + 1
            counted[used] = at + LENGTH_BYTES + length
        _write_entry(content, at, data[starts[index] : starts[index] + length])
    return count


def pack(offsets: Ints, heap: Raw, copy: Raw, rows: Any, /) -> int:
    picked = np.asarray(rows)
    lengths = _lengths(offsets, copy, picked)
    sizes = lengths + LENGTH_BYTES
    starts = np.cumsum(sizes) - sizes
    used = int(sizes.sum())
    if used > len(heap):
        raise _inconsistent()
    heap[:used] = copy[_spread(offsets[picked] - 1, sizes)]
    offsets[picked] = starts + 1
    return used


def split(
    fixed: Raw,
    out_offsets: Any,
    out_bytes: Any,
    offsets: Any,
    data: Any,
    start: int,
    count: int,
    size: int,
    at_end: bool,
    /,
) -> int:
    cells = _cells(offsets, data, start, count)
    rests = cells.lengths - size
    if (count and (size <= 0 or rests.min() < 0)) or rests.sum() > len(out_bytes):
        raise _inconsistent()
    out_offsets[0] = 0
    np.cumsum(rests, out=out_offsets[1 : count + 1])
    heads, tails = (cells.starts + rests, cells.starts) if at_end else (cells.starts, cells.starts + size)
    fixed[: count * size] = cells.bytes[_spread(heads, np.full(count, size))]
    total = int(rests.sum())
    out_bytes[:total] = cells.bytes[_spread(tails, rests)]
    return total


# -- the hash --------------------------------------------------------------------------------------


def _hashes(keys: _Cells, seed: np.int64) -> Words:
    lengths = keys.lengths.astype(np.uint64)
    state = lengths ^ np.uint64(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)
    longest = int(keys.lengths.max(initial=0))
    for at in range(0, longest, 8):
        here = np.flatnonzero(keys.lengths > at)
        places = (keys.starts[here] + at)[:, None] + np.arange(8)
        cells = keys.bytes[np.minimum(places, len(keys.bytes) - 1)]
        cells[np.arange(8) >= (keys.lengths[here] - at)[:, None]] = 0
        words = cells.view("<u8").reshape(-1).astype(np.uint64)
        state[here] = _fold(state[here] ^ words, _STEP)
    state = _fold(state ^ _SALT, _LAST)
    return (state ^ state >> _HALF) & _LOW


def _fold(a: Words, b: np.uint64) -> Words:
    """The two halves of a product of 128 bits, one upon the other."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a1 * b0 + (a0 * b0 >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    high: Words = a1 * b1 + (middle >> _HALF) + (other >> _HALF)
    low: Words = a * b
    return low ^ high


# -- the slots -------------------------------------------------------------------------------------


def _look_up(slots: Any, offsets: Ints, heap: Raw, keys: _Cells, hashes: Words) -> Ints:
    mask = len(slots) - 1
    rows = np.full(len(hashes), MISSING, np.int64)
    unresolved = np.arange(len(hashes))
    at = hashes.astype(np.int64) & mask
    for _ in range(len(slots)):
        slot = slots[at]
        row = slot["row"].astype(np.int64) - 1
        maybe = (row >= 0) & (slot["hash"] == hashes[unresolved])
        hit = np.flatnonzero(maybe)
        hit = hit[_same(offsets, heap, row[hit], keys, unresolved[hit])]
        rows[unresolved[hit]] = row[hit]
        go_on = row >= 0
        go_on[hit] = False
        unresolved, at = unresolved[go_on], (at[go_on] + 1) & mask
        if not len(unresolved):
            return rows
    raise _inconsistent()


def _same(offsets: Ints, heap: Raw, rows: Ints, keys: _Cells, picked: Ints) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = _lengths(offsets, heap, rows) == keys.lengths[picked]
    lengths = np.where(equal, keys.lengths[picked], 0)
    some = np.flatnonzero(lengths)
    if len(some):
        lengths = lengths[some]
        stored = heap[_spread(offsets[rows[some]] - 1 + LENGTH_BYTES, lengths)]
        differs = stored != keys.bytes[_spread(keys.starts[picked[some]], lengths)]
        equal[some] = np.add.reduceat(differs, np.cumsum(lengths) - lengths, dtype=np.int64) == 0
    return equal


class _Places:
    """Slots and rows one by one, through views that give Python's own numbers: far quicker than numpy's."""

    def __init__(self, counters: Ints, slots: Any, offsets: Ints, heap: Raw, limit: int) -> None:
        self._counters, self._offsets, self._heap = counters.data, offsets.data, heap.data
        self._slots = slots.view(np.uint32).data  # a hash and a row in turn
        self._size, self._mask, self._limit = len(slots), len(slots) - 1, limit

    def insert(self, key: bytes, hashed: int) -> int:
        """The new row, or MISSING where an array must grow first."""
        counters, offsets = self._counters, self._offsets
        live, used = counters[LIVE], counters[HEAP_USED]
        crowded = (live + 1) * 8 > self._size * 5
        if live >= self._limit or crowded or len(key) > len(self._heap) - LENGTH_BYTES - used:
            return MISSING
        row: int = counters[FREE_ROW] - 1
        if row >= 0:
            if row >= counters[ROWS_USED] or offsets[row] >= 0:
                raise _inconsistent()
            counters[FREE_ROW] = -1 - offsets[row]
        else:
            row = counters[ROWS_USED]
            if row >= len(offsets) or row >= ROWS_MAX:
                return MISSING
            counters[ROWS_USED] = row + 1
        _write_entry(self._heap, used, key)
        offsets[row] = used + 1
        counters[HEAP_USED] = used + LENGTH_BYTES + len(key)
        index = hashed & self._mask
        while self._slots[2 * index + 1]:
            index = (index + 1) & self._mask
        self._set(index, hashed, row + 1)
        counters[LIVE] = live + 1
        return row

    def delete(self, row: int, hashed: int, length: int) -> None:
        counters, offsets = self._counters, self._offsets
        if offsets[row] <= 0:
            return
        self._empty(self._slot_of(row, hashed))
        offsets[row] = -1 - counters[FREE_ROW]
        counters[HEAP_GARBAGE] += LENGTH_BYTES + length
        counters[FREE_ROW] = row + 1
        counters[LIVE] -= 1

    def _slot_of(self, row: int, hashed: int) -> int:
        for tries in range(self._size):
            index = (hashed + tries) & self._mask
            if self._slots[2 * index + 1] == row + 1:
                return index
            if not self._slots[2 * index + 1]:
                break
        raise _inconsistent()

    def _empty(self, hole: int) -> None:
        """A slot moves back into the gap unless that would put it before the place its hash names."""
        index, mask = hole, self._mask
        for _ in range(self._size):
            index = (index + 1) & mask
            hashed, row = self._slots[2 * index], self._slots[2 * index + 1]
            if not row:
                break
            if ((index - hashed) & mask) >= ((index - hole) & mask):
                self._set(hole, hashed, row)
                hole = index
        self._set(hole, 0, 0)

    def _set(self, index: int, hashed: int, row: int) -> None:
        self._slots[2 * index], self._slots[2 * index + 1] = hashed, row


# -- entries ---------------------------------------------------------------------------------------


def _write_entry(heap: Any, at: int, entry: Any) -> None:
    begin = at + LENGTH_BYTES
    struct.pack_into("=I", heap, at, len(entry))
    heap[begin : begin + len(entry)] = entry


def _lengths(offsets: Ints, heap: Raw, rows: Ints) -> Ints:
    """Of the rows' entries; 0 where there is none."""
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(offsets)):
        raise _inconsistent()
    starts = offsets[rows] - 1
    some = np.flatnonzero(starts >= 0)
    lengths = np.zeros(len(rows), np.int64)
    if len(some):
        if starts.max() > len(heap) - LENGTH_BYTES:
            raise _inconsistent()
        prefixes = heap[starts[some][:, None] + np.arange(LENGTH_BYTES)]
        lengths[some] = prefixes.view(np.uint32).reshape(-1)
        if (starts + LENGTH_BYTES + lengths).max() > len(heap):
            raise _inconsistent()
    return lengths


def _spread(starts: Ints, lengths: Ints) -> Ints:
    """The places of all bytes of cells, one cell after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def _rises(edges: Ints, end: int) -> bool:
    return bool(edges[0] >= 0 and edges[-1] <= end and (len(edges) == 1 or np.diff(edges).min() >= 0))


def _check(counters: Ints, slots: Any, offsets: Ints, heap: Raw) -> None:
    size = len(slots)
    if (
        size < 2
        or size & (size - 1)
        or not 0 <= counters[ROWS_USED] <= len(offsets)
        or not 0 <= counters[LIVE] < size
        or not 0 <= counters[HEAP_USED] <= len(heap)
    ):
        raise _inconsistent()


def _inconsistent() -> ValueError:
    return ValueError("the arrays of the table do not fit together")
