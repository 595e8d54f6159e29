"""Topics as tables, and nodes that turn changes of a table into other changes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import arrow_column, known_cells
from ottla.streams.expressions import Expression
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.base import Function, Node, keyed
from ottla.streams.nodes.lookups import StoreLookup
from ottla.streams.nodes.rows import Rows, own
from ottla.streams.serdes import Serde, objects


@dataclass
class TableSource(Node):
    """A topic as a table: the latest value of each key; a record without value deletes, one without key is left out.

    Rows are kept only if somebody looks at them (`store`): a name was given, or a node behind it needs old values.
    """

    key: Serde
    value: Serde
    store: str | None = None

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        frame = keyed(frame)
        if not len(frame):
            return EMPTY
        if self.store is None:
            return replace(frame, olds=[None] * len(frame))
        return put_all(frame, step, self.store, self.key, self.value)


def put_all(frame: Frame, step: Step, name: str, key: Serde, value: Serde) -> Frame:
    """Puts each value into a store; the changes, from what was stored before."""
    cells = key.encode(frame.keys)
    if len(cells.unique()) == len(cells):
        return _put_at_once(frame, step, name, cells, value)
    rows = Rows(step.stores[name], value)
    places = rows.load(cells)
    olds: list[Any] = []
    old_times: list[int] = []
    for place, new, at in zip(places, objects(frame.values), frame.times.tolist(), strict=True):
        olds.append(rows.get(place))
        old_times.append(rows.time(place))
        rows.put(place, new, at)
    rows.write()
    return replace(frame, olds=olds, old_times=np.array(old_times, np.int64))


def _put_at_once(frame: Frame, step: Step, name: str, cells: pa.Array, value: Serde) -> Frame:
    """No key is there twice."""
    store = step.stores[name]
    olds, old_times = StoreLookup(name, value).get(step, cells, frame.keys)
    values = value.encode(frame.values)
    there = known_cells(values)
    if not there.all():
        gone = store.find(cells.filter(arrow_column(~there)))
        store.delete(gone[gone >= 0])
        cells, values = cells.filter(arrow_column(there)), values.drop_null()
    if len(cells):
        rows = store.rows(cells)
        store.put_values(rows, values)
        store.times[rows] = frame.times[there]
    return replace(frame, olds=olds, old_times=old_times)


@frozen_with_dict
class ToStream(Node):
    """`function(key, value)`, if there is one, gives the keys of the stream."""

    function: Function | None = None

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        records = replace(frame, olds=None, trace=None)
        if self.function is None:
            return records
        return records.with_keys([self.function(*pair) for pair in records.pairs()])


class Derived(Node, ABC):
    """A table from another one, change by change; kept in a store of its own if that has a name."""

    key: Serde
    value: Serde
    store: str | None

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        derived = self._derived(frame, step)
        return derived if frame.trace is None else replace(derived, trace=self.changed(frame.trace))

    def _derived(self, frame: Frame, step: Step) -> Frame:
        changes = self.changed(replace(frame, trace=None))
        return changes if self.store is None else put_all(changes, step, self.store, self.key, self.value)

    @abstractmethod
    def changed(self, frame: Frame) -> Frame: ...


@dataclass
class TableFilter(Derived):
    """A row that is filtered out is deleted downstream; only if it was there, where old values are sent."""

    test: Function | Expression
    keep: bool
    key: Serde
    value: Serde
    sends_olds: bool
    store: str | None = None
    is_looked_up: bool = False  # a join asks for the row before a change, whether olds are sent or not

    def changed(self, frame: Frame) -> Frame:
        keys = objects(frame.keys)
        news = self._passing(keys, frame.values)
        has_olds = self.sends_olds or self.is_looked_up
        olds = self._passing(keys, frame.olds) if has_olds else [None] * len(frame)
        changes = replace(frame, values=news, olds=olds)
        if not self.sends_olds:
            return changes
        return changes.where([n is not None or o is not None for n, o in zip(news, olds, strict=True)])

    def _passing(self, keys: list[Any], column: Any) -> list[Any]:
        values = objects(column)
        if isinstance(self.test, Expression):
            truth = self.test.of(column).fill_null(False).to_pylist() if len(values) else []
        else:
            truth = [v is not None and bool(self.test(k, v)) for k, v in zip(keys, values, strict=True)]
        return [
            v if v is not None and holds == self.keep else None
            for v, holds in zip(values, truth, strict=True)
        ]


@dataclass
class TableMapValues(Derived):
    function: Function
    key: Serde
    value: Serde
    store: str | None = None

    def changed(self, frame: Frame) -> Frame:
        news, olds = (self._mapped(column) for column in (frame.values, frame.olds))
        return replace(frame, values=news, olds=olds)

    def _mapped(self, column: Any) -> list[Any]:
        return [None if value is None else self.function(value) for value in objects(column)]


@frozen_with_dict
class Regroup(Node):
    """Changes of a table under other keys: `function(key, value)` gives a pair. What flows on are changes, as rows of
    a change's two sides: (key, (new, old)); they travel through an internal topic."""

    function: Function

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        places: list[int] = []
        keys: list[Any] = []
        changes: list[tuple[Any, Any]] = []
        cells = zip(objects(frame.keys), objects(frame.values), objects(frame.olds), strict=True)
        for at, (key, new, old) in enumerate(cells):
            for to, change in self._split(self._pair(key, new), self._pair(key, old)):
                places.append(at)
                keys.append(to)
                changes.append(change)
        records = replace(frame, olds=None, trace=None).take(np.array(places, np.int64))
        return replace(records, keys=keys, values=changes)

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        to, mapped = self.function(key, value)
        return None if to is None or mapped is None else (to, mapped)

    def _split(self, new: Any, old: Any) -> list[tuple[Any, tuple[Any, Any]]]:
        if new is not None and old is not None and new[0] == old[0]:
            return [(new[0], (new[1], old[1]))]
        removals = [(old[0], (None, old[1]))] if old is not None else []
        return [*removals, (new[0], (new[1], None))] if new is not None else removals


@frozen_with_dict
class TableAggregate(Node):
    """Adds the new side of a change and subtracts the old one."""

    store: str
    key: Serde
    value: Serde
    initial: Function
    add: Function  # of key, value, aggregate
    subtract: Function
    emit: str = "batch"

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        from ottla.streams.nodes.aggregates import compacted

        rows = Rows(step.stores[self.store], self.value)
        cells = self.key.encode(frame.keys)
        olds: list[Any] = []
        news: list[Any] = []
        times: list[int] = []
        old_times: list[int] = []
        walked = zip(
            rows.load(cells), objects(frame.keys), objects(frame.values), frame.times.tolist(), strict=True
        )
        for place, key, (added, removed), at in walked:
            old = rows.get(place)
            known = old is not None
            old_times.append(rows.time(place))
            aggregate = own(old)
            if removed is not None and known:
                aggregate = self.subtract(key, removed, aggregate)
            if added is not None:
                aggregate = self.add(key, added, self.initial() if aggregate is None else aggregate)
            if known and (added is not None or removed is not None):
                at = max(at, rows.time(place))
            rows.put(place, aggregate, at)
            olds.append(old)
            news.append(aggregate)
            times.append(at)
        rows.write()
        changes = replace(
            frame,
            values=news,
            olds=olds,
            times=np.array(times, np.int64),
            old_times=np.array(old_times, np.int64),
        )
        return compacted(changes, cells, self.emit)
