"""Tables from the records of a stream: how an aggregate is kept, and one row for each key."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_column, codes_of, taken
from ottla.pipelines.state.spec import StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.streams import reductions as reducing
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import BATCH, EVERY, Node, complete
from ottla.streams.nodes.rows import Rows, last_of_each, own, own_all
from ottla.streams.reductions import Reduction
from ottla.streams.serdes import Column, Serde, objects


class Changes(NamedTuple):
    """What became of the rows of a frame's records; `index` are the records that changed them."""

    index: Any
    news: Column
    olds: Column
    times: Any
    old_times: Any


class Keeping(ABC):
    """How an aggregate lies in its store, and how records get into it. `value` reads what the changelog holds."""

    value: Serde

    @abstractmethod
    def columns(self) -> tuple[tuple[str, Any], ...]: ...

    def spec(self, name: str, *, windowed: bool = False) -> StoreSpec:
        return StoreSpec(name, self.columns(), windowed=windowed, timestamped=True)

    @abstractmethod
    def update(self, store: KeyedStore, cells: pa.Array, frame: Frame, *, every: bool) -> Changes:
        """Takes records into the rows that `cells` name. All changes, or the last one of each row."""

    @abstractmethod
    def nothing(self) -> Any:
        """What Kafka Streams gives as the value before the first one, if it forwards every change."""


@frozen_with_dict
class Folding(Keeping):
    """Python values: `function(key, value, aggregate)` gives the next aggregate. If what comes out is not what is kept,
    `shown` reads it."""

    value: Serde
    initial: Callable[[], Any]
    function: Callable[[Any, Any, Any], Any]
    shown: "ReducedSerde | None" = None

    def results(self, column: list[Any]) -> list[Any]:
        """What comes out for what is kept."""
        shown = self.shown
        return column if shown is None else [None if cell is None else shown.result(cell) for cell in column]

    def columns(self) -> tuple[tuple[str, Any], ...]:
        return (("value", "bytes"),)

    def update(self, store: KeyedStore, cells: pa.Array, frame: Frame, *, every: bool) -> Changes:
        return self._every(store, cells, frame) if every else self._last(store, cells, frame)

    def _last(self, store: KeyedStore, cells: pa.Array, frame: Frame) -> Changes:
        """Keys by number instead of by their bytes: the loop is what an aggregate in Python costs."""
        codes, places = codes_of(cells)
        olds, old_times = self._known(store, places)
        states, stamps = own_all(olds), old_times.tolist()
        function, initial = self.function, self.initial
        walked = zip(
            codes.tolist(), objects(frame.keys), self._values(frame), frame.times.tolist(), strict=True
        )
        for code, key, value, at in walked:
            before = states[code]
            if before is None:
                states[code] = function(key, value, initial())
                stamps[code] = at
            else:
                states[code] = function(key, value, before)
                if at > stamps[code]:
                    stamps[code] = at
        times = np.array(stamps, np.int64)
        self._keep(store, places, states, times)
        _, last = last_of_each(codes)
        chosen = codes[last].tolist()
        real = [olds[code] is not None or states[code] is not None for code in chosen]
        if not all(real):
            last = last[real]
            chosen = codes[last].tolist()
        return Changes(
            last,
            [states[code] for code in chosen],
            [olds[code] for code in chosen],
            times[chosen],
            old_times[chosen],
        )

    def _known(self, store: KeyedStore, places: pa.Array) -> tuple[list[Any], Any]:
        """What is stored behind keys, None where nothing is; and its times, -1 there."""
        rows = store.find(places)
        times, there = np.full(len(rows), -1, np.int64), np.flatnonzero(rows >= 0)
        values: list[Any] = [None] * len(rows)
        if len(there):
            times[there] = store.times[rows[there]]
            decoded = objects(self._stored().decode(store.encoded(rows[there])))
            if len(there) == len(rows):
                return list(decoded), times
            for place, value in zip(there.tolist(), decoded, strict=True):
                values[place] = value
        return values, times

    def _keep(self, store: KeyedStore, places: pa.Array, values: list[Any], times: Any) -> None:
        """A value behind each key; None deletes."""
        is_kept = np.fromiter((value is not None for value in values), bool, len(values))
        if not is_kept.all():
            rows = store.find(places.filter(arrow_column(~is_kept)))
            store.delete(rows[rows >= 0])
            values = [value for value in values if value is not None]
            places, times = places.filter(arrow_column(is_kept)), times[is_kept]
        if values:
            rows = store.rows(places)
            store.put_values(rows, self._stored().encode(values))
            store.times[rows] = times

    def _every(self, store: KeyedStore, cells: pa.Array, frame: Frame) -> Changes:
        rows = Rows(store, self._stored())
        olds: list[Any] = []
        news: list[Any] = []
        times: list[int] = []
        old_times: list[int] = []
        walked = zip(
            rows.load(cells), objects(frame.keys), self._values(frame), frame.times.tolist(), strict=True
        )
        for place, key, value, at in walked:
            old = rows.get(place)
            old_times.append(rows.time(place))
            if old is not None:
                at = max(at, rows.time(place))
            new = self.function(key, value, self.initial() if old is None else own(old))
            rows.put(place, new, at)
            olds.append(old)
            news.append(new)
            times.append(at)
        rows.write()
        stamps = np.array(times, np.int64), np.array(old_times, np.int64)
        return Changes(np.arange(len(frame)), news, olds, *stamps)

    def nothing(self) -> Any:
        return self.initial()

    def _stored(self) -> Serde:
        return self.value

    def _values(self, frame: Frame) -> list[Any]:
        return objects(frame.values)


class ReducedSerde(Serde):
    """Reads the state of reductions as their results."""

    def __init__(self, inner: Serde, reductions: Mapping[str, Reduction], single: bool) -> None:
        self.name, self._inner, self._reductions, self._single = "reduced", inner, reductions, single

    def decode(self, cells: pa.Array) -> Column:
        return [None if state is None else self.result(state) for state in objects(self._inner.decode(cells))]

    def result(self, state: list[Any]) -> Any:
        by_name = reducing.finished(state, self._reductions)
        return next(iter(by_name.values())) if self._single else by_name


class Reducing(Folding):
    """Reductions of values that no schema describes."""

    def __init__(self, inner: Serde, reductions: Mapping[str, Reduction], single: bool) -> None:
        super().__init__(ReducedSerde(inner, reductions, single), _Beginning(reductions), _Adding(reductions))
        object.__setattr__(self, "reductions", reductions)
        object.__setattr__(self, "inner", inner)

    def update(self, store: KeyedStore, cells: pa.Array, frame: Frame, *, every: bool) -> Changes:
        changes = super().update(store, cells, frame, every=every)
        news, olds = (
            [None if s is None else self._result(s) for s in side] for side in (changes.news, changes.olds)
        )
        return changes._replace(news=news, olds=olds)

    def nothing(self) -> Any:
        return self._result(self.initial())

    def _result(self, state: list[Any]) -> Any:
        return self.value.result(state)  # type: ignore[attr-defined]

    def _stored(self) -> Serde:
        return self.inner  # type: ignore[attr-defined,no-any-return]

    def _values(self, frame: Frame) -> list[Any]:
        return reducing.evaluated(frame.values, self.reductions)  # type: ignore[attr-defined]


@frozen_with_dict
class _Beginning:
    reductions: Mapping[str, Reduction]

    def __call__(self) -> list[Any]:
        return reducing.begin(self.reductions)


@frozen_with_dict
class _Adding:
    reductions: Mapping[str, Reduction]

    def __call__(self, _: Any, inputs: tuple[Any, ...], state: list[Any]) -> list[Any]:
        return reducing.added(state, inputs, self.reductions)


def reducing_one_by_one(inner: Serde, reductions: Mapping[str, Reduction], single: bool) -> Folding:
    """For windows that work value by value."""
    shown = ReducedSerde(inner, reductions, single)
    return Folding(inner, _Beginning(reductions), AddingOne(reductions), shown)


@frozen_with_dict
class AddingOne:
    reductions: Mapping[str, Reduction]

    def __call__(self, _: Any, value: Any, state: list[Any]) -> list[Any]:
        (inputs,) = reducing.evaluated([value], self.reductions)
        return reducing.added(state, inputs, self.reductions)


@frozen_with_dict
class MergingTwo:
    reductions: Mapping[str, Reduction]

    def __call__(self, _: Any, one: list[Any], other: list[Any]) -> list[Any]:
        return reducing.merged(one, other, self.reductions)


class ColumnsSerde(Serde):
    """Reads what the changelog of a store with columns holds: a struct of the results, or the only one."""

    def __init__(self, spec: StoreSpec, reductions: Mapping[str, Reduction], single: bool) -> None:
        self.name, self._spec, self._reductions, self._single = "columns", spec, reductions, single

    def decode(self, cells: pa.Array) -> Column:
        layout = self._spec.encoded
        data = np.frombuffer(b"".join(pa.array(cells).fill_null(bytes(layout.itemsize)).to_pylist()), layout)
        native = {name: data[name].astype(dtype) for name, dtype in self._spec.fixed}
        return together(reducing.results(native, self._reductions), self._single)


@frozen_with_dict
class Columns(Keeping):
    """Whole arrays at once, in numeric columns of the store."""

    reductions: Mapping[str, Reduction]
    kinds: tuple[tuple[str, Any], ...]
    single: bool = False

    @property
    def value(self) -> Serde:  # type: ignore[override]
        return ColumnsSerde(self.spec("columns"), self.reductions, self.single)

    def columns(self) -> tuple[tuple[str, Any], ...]:
        return self.kinds

    def update(self, store: KeyedStore, cells: pa.Array, frame: Frame, *, every: bool) -> Changes:
        rows, created = store.rows_and_new(cells)
        is_new = np.zeros(len(store.alive()), bool)
        is_new[created] = True
        store.times[created] = -1
        if not every:
            return self._at_once(store, rows, frame, is_new)
        news: list[Any] = [None] * len(frame)
        olds: list[Any] = [None] * len(frame)
        times, old_times = np.empty(len(frame), np.int64), np.empty(len(frame), np.int64)
        for index in _rounds(rows):
            changes = self._at_once(store, rows[index], frame.take(index), is_new)
            index = index[changes.index]
            for at, old, new in zip(
                index.tolist(), objects(changes.olds), objects(changes.news), strict=True
            ):
                olds[at], news[at] = old, new
            times[index], old_times[index] = changes.times, changes.old_times
        return Changes(np.arange(len(frame)), news, olds, times, old_times)

    def nothing(self) -> Any:
        zeros = {name: np.zeros(1, dtype) for name, dtype in self.spec("nothing").fixed}
        return objects(together(reducing.results(zeros, self.reductions), self.single))[0]

    def _at_once(self, store: KeyedStore, rows: Any, frame: Frame, is_new: Any) -> Changes:
        _, last = last_of_each(rows)
        distinct = rows[last]
        before, old_times = self._results(store, distinct), store.times[distinct]
        reducing.take_in(store, rows, self.reductions, frame.values)
        np.maximum.at(store.times, rows, frame.times)
        store.touch(distinct)
        known = ~is_new[distinct]
        olds = before if known.all() else _nulled(before, known)
        is_new[distinct] = False
        return Changes(last, self._results(store, distinct), olds, store.times[distinct], old_times)

    def _results(self, store: KeyedStore, rows: Any) -> pa.Array:
        cells = {name: store[name][rows] for name, _ in self.kinds}
        return together(reducing.results(cells, self.reductions), self.single)


def together(results: Mapping[str, pa.Array], single: bool) -> pa.Array:
    if single:
        return next(iter(results.values()))
    return pa.StructArray.from_arrays(list(results.values()), names=list(results))


def _nulled(column: pa.Array, known: Any) -> pa.Array:
    places = np.arange(len(column))
    return taken(column, places, known)


def _rounds(rows: Any) -> list[Any]:
    """Indices of records in groups, one after the other: in each group no row is twice."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(rows) else np.empty(0, np.int64)
    turn = np.empty(len(rows), np.int64)
    turn[order] = np.arange(len(rows)) - np.repeat(starts, np.diff(np.r_[starts, len(rows)]))
    return [np.flatnonzero(turn == number) for number in range(int(turn.max()) + 1 if len(rows) else 0)]


def _last(changes: Changes, cells: pa.Array) -> Changes:
    """One change for each row: from the value before the first to the one after the last; none for one that was not
    there before and is not there now."""
    codes, _ = codes_of(cells)
    first, last = last_of_each(codes)
    news, olds = changes.news, changes.olds
    pairs = zip(first.tolist(), last.tolist(), strict=True)
    real = [at for at, (begin, end) in enumerate(pairs) if olds[begin] is not None or news[end] is not None]
    first, last = first[real], last[real]
    return Changes(
        changes.index[last],
        [news[at] for at in last],
        [olds[at] for at in first],
        changes.times[last],
        changes.old_times[first],
    )


def compacted(changes: Frame, cells: pa.Array, emit: str) -> Frame:
    """The changes of a table, or with `emit="batch"` the last one of each key, with all of them as their trace."""
    if emit == EVERY or len(changes) < 2:
        return changes
    index, news, olds = np.arange(len(changes)), objects(changes.values), objects(changes.olds)
    last = _last(Changes(index, news, olds, changes.times, index), cells)
    return replace(
        replace(changes, trace=None).take(last.index), values=last.news, olds=last.olds, trace=changes
    )


@dataclass
class Aggregate(Node):
    """A table with a row for each key; records without key or value are left out.

    `emit="batch"` gives one change for each key and step, `emit="every"` one for each record. If a join looks at the
    table (`traced`), all changes are known to it in either case.
    """

    store: str
    key: Serde
    keeping: Keeping
    emit: str = BATCH
    traced: bool = False

    @property
    def value(self) -> Serde:
        return self.keeping.value

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        frame = complete(frame)
        if not len(frame):
            return EMPTY
        cells = self.key.encode(frame.keys)
        every = self.emit == EVERY or self.traced
        changes = self.keeping.update(step.stores[self.store], cells, frame, every=every)
        results = replace(
            frame.take(changes.index),
            values=changes.news,
            olds=changes.olds,
            times=changes.times,
            old_times=changes.old_times,
        )
        return given_out(results, cells, self.emit, self.keeping, traced=self.traced)


def given_out(changes: Frame, cells: pa.Array, emit: str, keeping: Keeping, *, traced: bool) -> Frame:
    """What flows on of the changes of an aggregate, and what a join sees of them."""
    if emit == BATCH:
        return compacted(changes, cells, emit) if traced else changes
    nothing = keeping.nothing()
    olds = [nothing if old is None else old for old in objects(changes.olds)]
    return replace(changes, olds=olds, trace=changes if traced else None)
