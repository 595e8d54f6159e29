"""A table's row of a key, as joins look it up: in a store, or in the stores of the tables that it is derived from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.pipelines.state.arrays import numpy_column, taken
from ottla.pipelines.state.windows import stored_keys
from ottla.streams.expressions import Expression
from ottla.streams.frames import Frame
from ottla.streams.serdes import Column, Serde, objects

NEVER = -1  # the time of a row that is not there


class Lookup(ABC):
    @abstractmethod
    def get(self, step: Step, cells: pa.Array, keys: Column) -> tuple[Column, Any]:
        """Values and times for keys and their bytes; None and NEVER for a key without a row."""


@frozen_with_dict
class StoreLookup(Lookup):
    store: str
    value: Serde

    def get(self, step: Step, cells: pa.Array, keys: Column) -> tuple[Column, Any]:
        store = step.stores[self.store]
        rows = store.find(stored_keys(cells) if store.spec.windowed else cells)
        there = rows >= 0
        if there.all():
            return self.value.decode(store.encoded(rows)), self._times(store, rows)
        decoded = self.value.decode(store.encoded(rows[there]))
        times = np.full(len(rows), NEVER, np.int64)
        times[there] = self._times(store, rows[there])
        places = np.cumsum(there) - 1
        if isinstance(decoded, pa.Array):
            return taken(decoded, places, there), times
        return [decoded[place] if known else None for place, known in zip(places, there, strict=True)], times

    def _times(self, store: Any, rows: Any) -> Any:
        return store.times[rows] if store.spec.timestamped else np.zeros(len(rows), np.int64)


@frozen_with_dict
class FilterLookup(Lookup):
    parent: Lookup
    test: Callable[[Any, Any], bool] | Expression
    keep: bool

    def get(self, step: Step, cells: pa.Array, keys: Column) -> tuple[Column, Any]:
        values, times = self.parent.get(step, cells, keys)
        if isinstance(self.test, Expression):
            truth = self.test.of(values).fill_null(False).to_pylist()
        else:
            pairs = zip(objects(keys), objects(values), strict=True)
            truth = [v is not None and bool(self.test(k, v)) for k, v in pairs]
        passes = [v is not None and t == self.keep for v, t in zip(objects(values), truth, strict=True)]
        passed = [v if keep else None for v, keep in zip(objects(values), passes, strict=True)]
        return passed, np.where(passes, times, NEVER)


@frozen_with_dict
class MapLookup(Lookup):
    parent: Lookup
    function: Callable[[Any], Any]

    def get(self, step: Step, cells: pa.Array, keys: Column) -> tuple[Column, Any]:
        values, times = self.parent.get(step, cells, keys)
        mapped = [None if value is None else self.function(value) for value in objects(values)]
        return mapped, np.where([value is not None for value in mapped], times, NEVER)


@frozen_with_dict
class JoinLookup(Lookup):
    """Of a table that is joined from two others; `needs` tells which sides must be there."""

    left: Lookup
    right: Lookup
    function: Callable[[Any, Any], Any]
    needs: tuple[bool, bool]

    def get(self, step: Step, cells: pa.Array, keys: Column) -> tuple[Column, Any]:
        lefts, left_times = self.left.get(step, cells, keys)
        rights, right_times = self.right.get(step, cells, keys)
        values = [self._joined(*pair) for pair in zip(objects(lefts), objects(rights), strict=True)]
        times = np.maximum(left_times, right_times)
        return values, np.where([value is not None for value in values], times, NEVER)

    def _joined(self, left: Any, right: Any) -> Any:
        missing = (left is None and (self.needs[0] or right is None)) or (right is None and self.needs[1])
        return None if missing else self.function(left, right)


def rows_as_of(lookup: Lookup, key: Serde, step: Step, frame: Frame, changes: Frame) -> tuple[Column, Any]:
    """A table's rows for the keys of a frame, each as it was at the moment of its record.

    The store is already as it will be at the end of the step. Where a key has changed in this step, the last change up
    to the record tells its row, or the first one behind it what was there before.
    """
    cells = key.encode(frame.keys)
    values, times = lookup.get(step, cells, frame.keys)
    if not len(changes):
        return values, times
    changed = key.encode(changes.keys)
    encoded = pa.concat_arrays([cells, changed]).dictionary_encode()
    codes = numpy_column(encoded.indices).astype(np.int64)
    mine, theirs = codes[: len(frame)], codes[len(frame) :]
    touched = np.isin(mine, theirs)
    if not touched.any():
        return values, times
    return _rewound(objects(values), times, frame, changes, mine, theirs, np.flatnonzero(touched))


def _rewound(
    values: list[Any], times: Any, frame: Frame, changes: Frame, mine: Any, theirs: Any, places: Any
) -> tuple[list[Any], Any]:
    order = np.lexsort((np.arange(len(theirs)), changes.order, theirs))
    by_code = theirs[order]
    news, olds = objects(changes.values), objects(changes.olds)
    span = int(max(changes.order.max(), frame.order.max())) + 2
    moments = by_code * span + changes.order[order]
    at = np.searchsorted(moments, mine[places] * span + frame.order[places], side="right")
    values, times = list(values), times.copy()
    for place, behind in zip(places.tolist(), at.tolist(), strict=True):
        if behind > 0 and by_code[behind - 1] == mine[place]:
            change = order[behind - 1]
            values[place], when = news[change], changes.times[change]
        else:
            change = order[behind]
            values[place] = olds[change]
            when = changes.times[change] if changes.old_times is None else changes.old_times[change]
        times[place] = NEVER if values[place] is None else when
    return values, times
