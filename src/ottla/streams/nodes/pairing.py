"""Joins of two streams: all pairs of a step at once, in arrays. The same pairs in the same order as `stream_joins`
finds them record by record."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.operators import Step
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import arrow_column
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.windows import split_stored_window_keys, stored_window_keys
from ottla.streams.frames import EMPTY, Frame, concatenated
from ottla.streams.frames import frame as framed
from ottla.streams.nodes.base import present
from ottla.streams.serdes import Serde, objects, pick

if TYPE_CHECKING:
    from ottla.streams.nodes.stream_joins import StreamJoin

PUT = ".put"  # behind a store's name: the mark of the newest record that came to it
_STORED = -1  # the turn of records of earlier steps
_LARGE = 1 << 62


@dataclass
class Probes:
    """The records of one stream in this step that have a key and a value, in their turns."""

    index: Any  # in the frames of both streams, one after the other
    turns: Any
    codes: Any  # of keys
    times: Any
    newest_before: int  # the newest record of the stream, before this step
    retention_ms: int

    def __post_init__(self) -> None:
        self.newest = np.maximum.accumulate(np.maximum(self.times, self.newest_before))
        self.is_kept = self.times > self.newest - self.retention_ms

    def newest_at(self, turns: Any) -> Any:
        """The stream's newest record when others came."""
        return np.r_[self.newest_before, self.newest][np.searchsorted(self.turns, turns)]


@dataclass
class Candidates:
    """What records of the other stream may meet, by key, time and number: `at` is a row of the store for those of
    earlier steps, and an index like that of `Probes` for those of this one."""

    codes: Any
    times: Any
    turns: Any
    at: Any

    def numbers(self) -> Any:
        """Of each among those with its key and time."""
        is_first = np.r_[True, (self.codes[1:] != self.codes[:-1]) | (self.times[1:] != self.times[:-1])]
        firsts = np.flatnonzero(is_first[: len(self.codes)])
        places = np.arange(len(self.codes))
        return places - firsts[np.cumsum(is_first[: len(self.codes)]) - 1]


class Pairing:
    """The pairs of a step. Nothing changes before `write`."""

    def __init__(self, node: "StreamJoin", step: Step, frames: list[Frame]) -> None:
        self._node, self._step, self._frames = node, step, frames
        self._whole = whole = concatenated(frames)
        turns = np.empty(len(whole), np.int64)
        turns[np.argsort(whole.order, kind="stable")] = np.arange(len(whole))
        self._cells = pa.concat_arrays([node.key.encode(frame.keys).cast(pa.binary()) for frame in frames])
        encoded = self._cells.dictionary_encode()
        codes = encoded.indices.fill_null(0).to_numpy().astype(np.int64)
        is_whole = np.concatenate([present(frame.keys) & present(frame.values) for frame in frames])
        sides = np.repeat([0, 1], [len(frame) for frame in frames])
        retention = node.windows.size_ms + node.windows.grace_ms
        self._probes = []
        for side, name in enumerate(node.stores):
            index = np.flatnonzero(is_whole & (sides == side))
            index = index[np.argsort(turns[index])]
            newest = step.marks.get(name + PUT, -1)
            self._probes.append(
                Probes(index, turns[index], codes[index], whole.times[index], newest, retention)
            )
        near = _span(node, whole.times)
        self._base, self._length = near[0], near[1] - near[0] + 2
        self._candidates = [
            _candidates(step.stores[name], encoded.dictionary, self._probes[side], near)
            for side, name in enumerate(node.stores)
        ]
        # Else keys and times are too many and too far apart for the arithmetic.
        self.fits = len(encoded.dictionary) * self._length < _LARGE

    def inner(self) -> Frame:
        """The results of an inner join."""
        node, whole = self._node, self._whole
        values = objects(whole.values)
        met = [self._met(side, values) for side in (0, 1)]
        index = np.concatenate([mine for mine, _, _ in met])
        if not len(index):
            return EMPTY
        own = [[values[at] for at in mine.tolist()] for mine, _, _ in met]
        lefts, rights = own[0] + met[1][2], met[0][2] + own[1]
        turns = np.concatenate([self._turns[side] for side in (0, 1)])
        order = np.argsort(turns, kind="stable")
        function = node.function
        results = [function(lefts[at], rights[at]) for at in order.tolist()]
        when = np.concatenate([times for _, times, _ in met])[order]
        index = index[order]
        return framed(
            pick(whole.keys, index),
            results,
            np.maximum(whole.times[index], when),
            order=whole.order[index],
            headers=None if whole.headers is None else pick(whole.headers, index),
        )

    def near(self) -> list[list[tuple[int, Any]]]:
        """For each record of the frames, one after the other, times and values of those that it meets."""
        values = objects(self._whole.values)
        met: list[list[tuple[int, Any]]] = [[] for _ in range(len(self._whole))]
        for side in (0, 1):
            mine, times, others = self._met(side, values)
            for at, when, other in zip(mine.tolist(), times.tolist(), others, strict=True):
                met[at].append((when, other))
        return met

    def write(self) -> None:
        """What came in this step, for those that come later."""
        node, step = self._node, self._step
        clock = node.stores[0]
        step.marks[clock] = max(int(self._whole.times.max()), step.marks.get(clock, -1))
        for side, name in enumerate(node.stores):
            if len(self._probes[side].index):
                step.marks[name + PUT] = int(self._probes[side].newest[-1])
            value, begin = (node.left, node.right)[side], side * len(self._frames[0])
            _store(step.stores[name], value, self._cells, self._frames[side], begin, self._candidates[side])

    def _met(self, side: int, values: list[Any]) -> tuple[Any, Any, list[Any]]:
        """Indices of records of one side, and times and values of what they meet."""
        node, other = self._node, self._candidates[1 - side]
        _, candidates = self._pairs[side]
        store, serde = self._step.stores[node.stores[1 - side]], (node.right, node.left)[side]
        return self._mine[side], other.times[candidates], _values(store, serde, other, candidates, values)

    @cached_property
    def _pairs(self) -> list[tuple[Any, Any]]:
        before, after = self._node.windows.before_ms, self._node.windows.after_ms
        return [
            _pairs(
                self._probes[side],
                self._probes[1 - side],
                self._candidates[1 - side],
                back,
                ahead,
                self._base,
                self._length,
            )
            for side, (back, ahead) in enumerate([(before, after), (after, before)])
        ]

    @property
    def _mine(self) -> list[Any]:
        return [self._probes[side].index[self._pairs[side][0]] for side in (0, 1)]

    @property
    def _turns(self) -> list[Any]:
        return [self._probes[side].turns[self._pairs[side][0]] for side in (0, 1)]


def _span(node: "StreamJoin", times: Any) -> tuple[int, int]:
    """Times of records that those of this step may meet, both included; a record of a step is always among them."""
    around = max(node.windows.before_ms, node.windows.after_ms, 0)
    return max(0, int(times.min()) - around), max(0, int(times.max()) + around)


def _candidates(store: KeyedStore, distinct: pa.Array, mine: Probes, near: tuple[int, int]) -> Candidates:
    rows = store.between(near[0], near[1] + 1)
    plain, times, numbers = split_stored_window_keys(store.keys(rows))
    codes = pc.index_in(plain, value_set=distinct)
    known = codes.is_valid().to_numpy(zero_copy_only=False)
    rows, times, numbers = rows[known], times[known], numbers[known]
    is_kept = mine.is_kept
    codes = np.concatenate([codes.drop_null().to_numpy(), mine.codes[is_kept]]).astype(np.int64)
    times = np.concatenate([times, mine.times[is_kept]])
    turns = np.concatenate([np.full(len(rows), _STORED), mine.turns[is_kept]])
    # Numbers of this step's records follow those of earlier ones.
    numbers = np.concatenate([numbers, mine.turns[is_kept] + (1 << 32)])
    order = np.lexsort((numbers, times, codes))
    at = np.concatenate([rows, mine.index[is_kept]])
    return Candidates(codes[order], times[order], turns[order], at[order])


def _pairs(
    probe: Probes, others: Probes, other: Candidates, back: int, ahead: int, base: int, span: int
) -> tuple[Any, Any]:
    """Places of probes and of the candidates that they meet: those that came before them."""
    oldest = others.newest_at(probe.turns) - others.retention_ms + 1
    first = np.maximum(np.maximum(0, probe.times - back), oldest) - base
    last = np.maximum(0, probe.times + ahead) - base
    where = other.codes * span + (other.times - base)
    low = np.searchsorted(where, probe.codes * span + np.clip(first, 0, span - 1), "left")
    high = np.searchsorted(where, probe.codes * span + np.clip(last, -1, span - 2), "right")
    counts = np.maximum(0, high - low)
    index = np.repeat(np.arange(len(low)), counts)
    candidates = (
        np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
    )
    is_before = other.turns[candidates] < probe.turns[index]
    return index[is_before], candidates[is_before]


def _values(
    store: KeyedStore, serde: Serde, candidates: Candidates, chosen: Any, values: list[Any]
) -> list[Any]:
    """Those of candidates. Only what is met is read from the store, and once."""
    is_stored = candidates.turns[chosen] == _STORED
    at = candidates.at[chosen]
    if not is_stored.any():
        return [values[place] for place in at.tolist()]
    rows, inverse = np.unique(at[is_stored], return_inverse=True)
    decoded = objects(serde.decode(store.encoded(rows)))
    met: list[Any] = [None] * len(at)
    for place, row in zip(np.flatnonzero(is_stored).tolist(), inverse.tolist(), strict=True):
        met[place] = decoded[row]
    for place in np.flatnonzero(~is_stored).tolist():
        met[place] = values[at[place]]
    return met


def _store(
    store: KeyedStore, serde: Serde, cells: pa.Array, frame: Frame, begin: int, candidates: Candidates
) -> None:
    """What came in this step, for those that come later. The index of the frame's first record is `begin`."""
    new = np.flatnonzero(candidates.turns != _STORED)
    if not len(new):
        return
    new = new[np.argsort(candidates.turns[new])]
    index, times = candidates.at[new], candidates.times[new]
    keys = stored_window_keys(cells.take(arrow_column(index)), times, candidates.numbers()[new])
    rows = store.rows(keys)
    store.put_values(rows, serde.encode(pick(frame.values, index - begin)))
    store.times[rows] = times
