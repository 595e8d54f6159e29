"""Count, sum, min, max and last for each key, or for each key and window, over whole arrays at once.

Windows and lateness are Kafka Streams': a window [start, start + size) takes records until stream time reaches its end
and the grace behind it; stream time is the largest timestamp so far.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import Ints, arrow_column
from ottla.pipelines.state.spec import BadStore, StoreSpec
from ottla.pipelines.state.store import KeyedStore
from ottla.pipelines.state.windows import split_stored_window_keys, stored_window_keys

COUNT, SUM, MIN, MAX, LAST = "count", "sum", "min", "max", "last"
_FOLDS = {SUM: np.add, MIN: np.minimum, MAX: np.maximum}


@frozen_with_dict
class Aggregate:
    """A column of a store: `how` over the input column `of`. A count has no input."""

    name: str
    how: str
    of: str | None = None
    dtype: str = "int64"

    def __post_init__(self) -> None:
        if self.how not in (COUNT, LAST, *_FOLDS):
            raise BadStore(f"aggregate {self.name}: {self.how!r} is not one of count, sum, min, max, last")
        if (self.how == COUNT) != (self.of is None):
            raise BadStore(f"aggregate {self.name}: a count has no input column, all others have one")


def columns(aggregates: Iterable[Aggregate]) -> tuple[tuple[str, str], ...]:
    """For a StoreSpec."""
    return tuple((aggregate.name, aggregate.dtype) for aggregate in aggregates)


def fold(store: KeyedStore, keys: Any, inputs: Mapping[str, Any], aggregates: Iterable[Aggregate]) -> Ints:
    """Takes records into the rows of their keys; the changed rows, each once."""
    rows, new = store.rows_and_new(keys)
    for aggregate in aggregates:
        column = store[aggregate.name]
        _begin(column, new, aggregate.how)
        if aggregate.how == LAST:
            column[rows] = inputs[str(aggregate.of)]  # of a row that is there twice numpy takes the last
        elif aggregate.how == COUNT:
            np.add.at(column, rows, 1)
        else:
            _FOLDS[aggregate.how].at(column, rows, _as(inputs[str(aggregate.of)], column.dtype))
    return store.touch(rows)


@frozen_with_dict
class Windows:
    """Tumbling, or hopping if `advance_ms` is less than `size_ms`."""

    size_ms: int
    advance_ms: int | None = None
    grace_ms: int = 0

    def __post_init__(self) -> None:
        if not (self.size_ms > 0 and 0 < self.step_ms <= self.size_ms and self.grace_ms >= 0):
            raise BadStore(f"windows need 0 < advance_ms <= size_ms and grace_ms >= 0, not {self}")

    @property
    def step_ms(self) -> int:
        return self.size_ms if self.advance_ms is None else self.advance_ms

    def of(self, times_ms: Ints) -> tuple[Ints, Ints]:
        """The windows of records: the index of a record and the start of one of its windows, records in order."""
        latest = times_ms // self.step_ms * self.step_ms
        most = -(-self.size_ms // self.step_ms)
        starts = latest[:, None] - np.arange(most - 1, -1, -1) * self.step_ms
        are_real = (starts >= 0) & (starts > (times_ms - self.size_ms)[:, None])
        index, _ = np.nonzero(are_real)
        return index, starts[are_real]

    def are_open(self, starts: Ints, time_ms: Any) -> Any:
        """Whether windows still take records when stream time is `time_ms`."""
        return starts + self.size_ms > np.asarray(time_ms) - self.grace_ms


class Updated(NamedTuple):
    rows: Ints  # changed, each once
    late: int  # records' windows that were closed already
    time_ms: int  # stream time behind the last record


class Closed(NamedTuple):
    keys: Any
    starts: Ints
    columns: dict[str, Any]
    times: Ints | None = None  # of a timestamped store


class WindowedAggregate:
    """Aggregates for each key and window, in a windowed store named `name`. In a timestamped one a row's time is
    that of its latest record."""

    def __init__(
        self, name: str, windows: Windows, aggregates: tuple[Aggregate, ...], *, timestamped: bool = False
    ) -> None:
        self.windows, self.aggregates = windows, aggregates
        self.spec = StoreSpec(name, columns(aggregates), windowed=True, timestamped=timestamped)

    def update(
        self, store: KeyedStore, keys: Any, times_ms: Any, inputs: Mapping[str, Any], time_ms: int
    ) -> Updated:
        """Takes records in their order; `time_ms` is stream time before them (-1: there were none yet)."""
        times = np.asarray(times_ms, np.int64)
        if not len(times):
            return Updated(np.empty(0, np.int64), 0, time_ms)
        reached = np.maximum.accumulate(np.maximum(times, time_ms))
        index, starts = self.windows.of(times)
        are_open = self.windows.are_open(starts, reached[index])
        late = int(len(starts) - are_open.sum())
        index, starts = index[are_open], starts[are_open]
        picked = {name: np.asarray(column)[index] for name, column in inputs.items()}
        places = stored_window_keys(keys.take(arrow_column(index)), starts)
        rows = fold(store, places, picked, self.aggregates)
        if self.spec.timestamped:
            np.maximum.at(store.times, store.find(places), times[index])
        return Updated(rows, late, int(reached[-1]))

    def take_closed(self, store: KeyedStore, time_ms: int) -> Closed:
        """The windows that take no more records at `time_ms`, by start and key; they leave the store."""
        rows = store.expired(time_ms - self.windows.grace_ms - self.windows.size_ms + 1)
        by_start = pa.table({"start": store.window_starts[rows], "key": store.keys(rows)})
        rows = rows[pc.sort_indices(by_start, [("start", "ascending"), ("key", "ascending")]).to_numpy()]
        keys, starts, _ = split_stored_window_keys(store.keys(rows))
        values = {aggregate.name: store[aggregate.name][rows] for aggregate in self.aggregates}
        times = store.times[rows] if self.spec.timestamped else None
        store.delete(rows)
        return Closed(keys, starts, values, times)


def _begin(column: Any, new: Ints, how: str) -> None:
    """A new row's smallest value is not zero."""
    if how not in (MIN, MAX) or not len(new):
        return
    if column.dtype.kind == "f":
        column[new] = np.inf if how == MIN else -np.inf
    elif column.dtype.kind == "b":
        column[new] = how == MIN
    else:
        limits = np.iinfo(column.dtype)
        column[new] = limits.max if how == MIN else limits.min


def _as(values: Any, dtype: Any) -> Any:
    """In the column's type: `ufunc.at` is quick only then."""
    return np.asarray(values).astype(dtype, copy=False)
