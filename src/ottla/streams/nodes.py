"""What the nodes of a topology do with a frame. Plain values and the user's functions: they travel to workers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.aggregate import COUNT, WindowedAggregate, Windows
from ottla.pipelines.aggregate import Aggregate as Counted
from ottla.pipelines.operators import Step
from ottla.pipelines.state.windows import split_stored_window_keys
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.serdes import Serde, arrow, objects

Function = Callable[..., Any]
EVERY, BATCH = "every", "batch"


class Node:
    """`run` is given what the parents made of the records at hand, and gives what its children get."""

    def run(self, frame: Frame, step: Step) -> Frame:
        raise NotImplementedError

    def on_time(self, step: Step) -> Frame:
        """What is due now that the time is `step.time_ms`."""
        return EMPTY


# -- stateless -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filter(Node):
    test: Function | Expression
    keep: bool = True

    def run(self, frame: Frame, step: Step) -> Frame:
        if isinstance(self.test, Expression):
            found = self.test.of(frame.values)
            truth = found.fill_null(False).to_numpy(zero_copy_only=False)
        else:
            truth = np.fromiter((bool(self.test(*pair)) for pair in frame.pairs()), bool, len(frame))
        return frame.where(truth == self.keep)


@dataclass(frozen=True)
class TableFilter(Filter):
    """A row that is filtered out is deleted downstream, if it was there."""

    def run(self, frame: Frame, step: Step) -> Frame:
        keys = objects(frame.keys)

        def kept(values: list[Any]) -> list[Any]:
            assert not isinstance(self.test, Expression)
            pairs = zip(keys, values, strict=True)
            return [v if v is not None and bool(self.test(k, v)) == self.keep else None for k, v in pairs]

        news, olds = kept(objects(frame.values)), kept(objects(frame.olds))
        found = Frame(frame.keys, news, frame.times, olds)
        return found.where([n is not None or o is not None for n, o in zip(news, olds, strict=True)])


@dataclass(frozen=True)
class MapValues(Node):
    function: Function | Expression

    def run(self, frame: Frame, step: Step) -> Frame:
        if isinstance(self.function, Expression):
            return frame.with_values(self.function.of(frame.values))
        return frame.with_values([self.function(value) for value in objects(frame.values)])


@dataclass(frozen=True)
class TableMapValues(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        news, olds = (
            [None if v is None else self.function(v) for v in objects(c)] for c in (frame.values, frame.olds)
        )
        return Frame(frame.keys, news, frame.times, olds)


@dataclass(frozen=True)
class FlatMapValues(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        lists = [list(self.function(value)) for value in objects(frame.values)]
        found = frame.take(frame.repeated([len(each) for each in lists]))
        return found.with_values([value for each in lists for value in each])


@dataclass(frozen=True)
class FlatMap(Node):
    """`function(key, value)` gives pairs."""

    function: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    def run(self, frame: Frame, step: Step) -> Frame:
        lists = [list(self.function(*pair)) for pair in frame.pairs()]
        found = frame.take(frame.repeated([len(each) for each in lists]))
        pairs = [pair for each in lists for pair in each]
        return found.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@dataclass(frozen=True)
class Map(Node):
    """`function(key, value)` gives a pair."""

    function: Callable[[Any, Any], tuple[Any, Any]]

    def run(self, frame: Frame, step: Step) -> Frame:
        pairs = [self.function(*pair) for pair in frame.pairs()]
        return frame.with_keys([key for key, _ in pairs]).with_values([value for _, value in pairs])


@dataclass(frozen=True)
class SelectKey(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        return frame.with_keys([self.function(*pair) for pair in frame.pairs()])


@dataclass(frozen=True)
class Peek(Node):
    function: Function

    def run(self, frame: Frame, step: Step) -> Frame:
        for pair in frame.pairs():
            self.function(*pair)
        return frame


@dataclass(frozen=True)
class MapBatches(Node):
    """`function` takes and gives an Arrow batch with the columns key, value and timestamp (milliseconds)."""

    function: Callable[[pa.RecordBatch], pa.RecordBatch]

    def run(self, frame: Frame, step: Step) -> Frame:
        columns = [arrow(frame.keys), arrow(frame.values), pa.array(frame.times, pa.int64())]
        found = self.function(pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))
        missing = {"key", "value", "timestamp"} - set(found.schema.names)
        if missing:
            raise BadTopology(f"map_batches: the batch has no column {', '.join(sorted(missing))}")
        times = found.column("timestamp").to_numpy()
        return Frame(found.column("key"), found.column("value"), times)


@dataclass(frozen=True)
class Merge(Node):
    def run(self, frame: Frame, step: Step) -> Frame:
        return frame


# -- where records come from and go to -----------------------------------------------------------------


@dataclass(frozen=True)
class Source(Node):
    topic: str  # as the pipeline's stage calls it
    name: str  # as the cluster calls it
    key: Serde
    value: Serde

    def read(self, rows: pa.RecordBatch) -> Frame:
        times = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
        return Frame(self.key.decode(rows.column("key")), self.value.decode(rows.column("value")), times)

    def run(self, frame: Frame, step: Step) -> Frame:
        return frame


@dataclass(frozen=True)
class Sink(Node):
    topic: str
    key: Serde
    value: Serde

    def run(self, frame: Frame, step: Step) -> Frame:
        if len(frame):
            columns = [
                self.key.encode(frame.keys),
                self.value.encode(frame.values),
                pa.array(frame.times, pa.int64()),
            ]
            step.emit(self.topic, pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))
        return EMPTY


# -- with state ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aggregate(Node):
    """A table of `function(key, value, aggregate)` for each key; records without key or value are left out.

    `emit="batch"` gives one change for each key and step, `emit="every"` one for each record.
    """

    store: str
    key: Serde
    value: Serde  # of the aggregate
    initial: Callable[[], Any]
    function: Callable[[Any, Any, Any], Any]
    emit: str = BATCH

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = _complete(frame)
        if not len(frame):
            return EMPTY
        table = Rows(step, self.store, self.key, self.value)
        places = table.places(frame.keys)
        olds: list[Any] = []
        news: list[Any] = []
        times: list[int] = []
        pairs = frame.pairs()
        for place, (key, value), at in zip(places, pairs, frame.times.tolist(), strict=True):
            old = table.get(place)
            begun = self.initial() if old is None else old
            new = self.function(key, value, begun)
            times.append(table.put(place, new, at))
            olds.append(old)
            news.append(new)
        table.write()
        changes = Frame(frame.keys, news, np.array(times, np.int64), olds)
        return changes if self.emit == EVERY else latest(changes, places)


@dataclass(frozen=True)
class Count(Node):
    """How many records each key has; for whole columns at once."""

    store: str
    key: Serde
    emit: str = BATCH

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = _complete(frame)
        if not len(frame):
            return EMPTY
        store = step.stores[self.store]
        rows = store.rows(self.key.encode(frame.keys))
        counts, times = store["n"], store.times
        before, times_before = counts[rows], times[rows]
        np.add.at(counts, rows, 1)
        np.maximum.at(times, rows, frame.times)
        store.touch(rows)
        if self.emit == EVERY:
            return _numbered(frame, rows, before, times_before)
        changes = Frame(frame.keys, pa.array(counts[rows]), times[rows], _or_none(before))
        return latest(changes, rows.tolist())


def _numbered(frame: Frame, rows: Any, before: Any, times_before: Any) -> Frame:
    """Each record's own count, and the latest time of its key by then."""
    seen: dict[int, tuple[int, int]] = {}
    news, times = [], []
    known = zip(before.tolist(), times_before.tolist(), strict=True)
    for row, begun, at in zip(rows.tolist(), known, frame.times.tolist(), strict=True):
        count, latest_at = seen.get(row, begun)
        seen[row] = count + 1, max(latest_at, at)
        news.append(count + 1)
        times.append(max(latest_at, at))
    olds = [count - 1 if count > 1 else None for count in news]
    return Frame(frame.keys, pa.array(news, pa.int64()), np.array(times, np.int64), olds)


def _or_none(before: Any) -> list[int | None]:
    return [count or None for count in before.tolist()]


@dataclass(frozen=True)
class WindowedCount(Node):
    """How many records each key has in each window. A window's row leaves the store when the window has closed.

    Keys of what comes out are pairs of a key and the window's start. `final`: once, when the window has closed.
    """

    store: str
    key: Serde
    windows: Windows
    final: bool = False

    @property
    def aggregate(self) -> WindowedAggregate:
        return WindowedAggregate(self.store, self.windows, (Counted("n", COUNT),), timestamped=True)

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = _complete(frame)
        store = step.stores[self.store]
        updated = self.aggregate.update(store, self.key.encode(frame.keys), frame.times, {}, step.time_ms)
        if self.final:
            return EMPTY
        keys, starts, _ = split_stored_window_keys(store.keys(updated.rows))
        return self._frame(keys, starts, store["n"][updated.rows], store.times[updated.rows])

    def on_time(self, step: Step) -> Frame:
        closed = self.aggregate.take_closed(step.stores[self.store], step.time_ms)
        if not self.final or not len(closed.starts):
            return EMPTY
        return self._frame(closed.keys, closed.starts, closed.columns["n"], closed.times)

    def _frame(self, keys: pa.Array, starts: Any, counts: Any, times: Any) -> Frame:
        pairs = list(zip(objects(self.key.decode(keys)), starts.tolist(), strict=True))
        return Frame(pairs, pa.array(counts), times)


@dataclass(frozen=True)
class TableSource(Node):
    """A topic as a table: the latest value of each key; a record without value deletes, one without key is left out."""

    store: str
    key: Serde
    value: Serde

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = frame.where([key is not None for key in objects(frame.keys)])
        if not len(frame):
            return EMPTY
        table = Rows(step, self.store, self.key, self.value)
        places = table.places(frame.keys)
        olds: list[Any] = []
        for place, value, at in zip(places, objects(frame.values), frame.times.tolist(), strict=True):
            olds.append(table.get(place))
            table.put(place, value, at, latest=False)
        table.write()
        return Frame(frame.keys, frame.values, frame.times, olds)


@dataclass(frozen=True)
class ToStream(Node):
    def run(self, frame: Frame, step: Step) -> Frame:
        return Frame(frame.keys, frame.values, frame.times)


@dataclass(frozen=True)
class TableJoin(Node):
    """Each record of a stream with its key's row of a table, as the table is at that moment."""

    store: str
    key: Serde
    value: Serde  # of the table
    function: Callable[[Any, Any], Any]
    left: bool = False

    def run(self, frame: Frame, step: Step) -> Frame:
        frame = frame.where([key is not None for key in objects(frame.keys)])
        frame = frame if self.left else _complete(frame)
        if not len(frame):
            return EMPTY
        table = Rows(step, self.store, self.key, self.value)
        found = [table.get(place) for place in table.places(frame.keys, create=False)]
        frame = frame if self.left else frame.where([row is not None for row in found])
        rows = found if self.left else [row for row in found if row is not None]
        return frame.with_values(
            [self.function(v, r) for v, r in zip(objects(frame.values), rows, strict=True)]
        )


class Rows:
    """A store with one `bytes` column as values behind keys, for a node that works value by value."""

    def __init__(self, step: Step, store: str, key: Serde, value: Serde) -> None:
        self._store, self._key, self._value = step.stores[store], key, value
        self._known: dict[bytes, Any] = {}
        self._times: dict[bytes, int] = {}
        self._changed: set[bytes] = set()

    def places(self, keys: Any, *, create: bool = True) -> list[bytes]:
        """A place for each key; what is stored there is read at once."""
        cells = self._key.encode(keys)
        distinct = cells.unique()
        rows = self._store.find(distinct)
        there = rows >= 0
        known = distinct.filter(pa.array(there)).to_pylist()
        values = objects(self._value.decode(self._store.values(rows[there]))) if known else []
        self._known.update(zip(known, values, strict=True))
        self._times.update(zip(known, self._store.times[rows[there]].tolist(), strict=True))
        return cells.to_pylist()  # type: ignore[no-any-return]

    def get(self, place: bytes) -> Any:
        return self._known.get(place)

    def put(self, place: bytes, value: Any, at: int, *, latest: bool = True) -> int:
        """The row's time: that of the record, or the latest of all its records."""
        self._known[place] = value
        self._times[place] = max(at, self._times.get(place, at)) if latest else at
        self._changed.add(place)
        return self._times[place]

    def write(self) -> None:
        """Puts what changed into the store."""
        kept = [place for place in self._changed if self._known[place] is not None]
        gone = [place for place in self._changed if self._known[place] is None]
        if gone:
            rows = self._store.find(pa.array(gone, pa.binary()))
            self._store.delete(rows[rows >= 0])
        if kept:
            rows = self._store.rows(pa.array(kept, pa.binary()))
            self._store.put_values(rows, self._value.encode([self._known[place] for place in kept]))
            self._store.times[rows] = [self._times[place] for place in kept]


def latest(changes: Frame, places: Any) -> Frame:
    """One change for each place: from the value before the first to the one after the last."""
    first: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for at, place in enumerate(places):
        first.setdefault(place, at)
        last[place] = at
    order = sorted(last.values())
    olds = objects(changes.olds)
    begun = {last[place]: olds[first[place]] for place in last}
    found = changes.take(np.array(order, np.int64))
    return Frame(found.keys, found.values, found.times, [begun[at] for at in order])


def _complete(frame: Frame) -> Frame:
    """Records with a key and a value: as in Kafka Streams the others say nothing to an aggregate or an inner join."""
    return frame.where([k is not None and v is not None for k, v in frame.pairs()])
