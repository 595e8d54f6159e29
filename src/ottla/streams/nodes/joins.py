"""A stream with a table, and two tables, by their keys."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.operators import Step
from ottla.streams.frames import EMPTY, Frame
from ottla.streams.nodes.aggregates import compacted
from ottla.streams.nodes.base import EVERY, Function, Node, keyed, present
from ottla.streams.nodes.lookups import NEVER, Lookup, rows_as_of
from ottla.streams.nodes.tables import put_all
from ottla.streams.serdes import Column, Serde, objects, pick

INNER, LEFT, OUTER = "inner", "left", "outer"


@frozen_with_dict
class TableJoin(Node):
    """Each record of a stream with its key's row of a table, as the table is at that moment.

    `select(key, value)`, if there is one, gives the table's key: for a global table. Records without value are left
    out, and those without key too unless it is a left join. Without a function the fields of both are joined.
    """

    key: Serde  # of the table
    lookup: Lookup
    function: Callable[[Any, Any], Any] | None
    left: bool = False
    select: Function | None = None

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        keys = frame.keys if self.select is None else [self.select(*pair) for pair in frame.pairs()]
        there = present(keys)
        wanted = present(frame.values) & (there | self.left)
        if not wanted.any():
            return EMPTY
        if not wanted.all():
            frame, keys, there = frame.where(wanted), pick(keys, np.flatnonzero(wanted)), there[wanted]
        asked = frame.with_keys(keys).where(there)
        rows, times = rows_as_of(self.lookup, self.key, step, asked, sides[0] if sides else EMPTY)
        if self.left:
            return frame.with_values(joined(self.function, frame.values, _spread(rows, there)))
        is_matched = times != NEVER
        if not is_matched.all():
            frame, rows = frame.where(is_matched), pick(rows, np.flatnonzero(is_matched))
        return frame.with_values(joined(self.function, frame.values, rows)) if len(frame) else EMPTY


def _spread(rows: Column, there: Any) -> Column:
    """Rows for those records that have a key, nulls for the others."""
    if there.all():
        return rows
    remaining = iter(objects(rows))
    return [next(remaining) if known else None for known in there]


def joined(function: Callable[[Any, Any], Any] | None, values: Column, rows: Column) -> Column:
    if function is None:
        if isinstance(values, pa.Array) and isinstance(rows, pa.Array):
            kinds = values.type, rows.type
            if all(pa.types.is_struct(kind) for kind in kinds):
                return _structs(values, rows)
        function = together
    return list(map(function, objects(values), objects(rows)))


def together(value: Any, row: Any) -> Any:
    """Without a function of the user's: the fields of both, the first one's win."""
    if isinstance(value, dict) or (value is None and isinstance(row, dict)):
        return {**(row or {}), **(value or {})}
    return [value, row]


def _structs(values: pa.StructArray, rows: pa.StructArray) -> pa.StructArray:
    """`together` for whole columns. Fields of a row that is null are null."""
    own = [field.name for field in values.type]
    fields = {field.name: column for field, column in zip(rows.type, rows.flatten(), strict=True)}
    fields |= dict(zip(own, values.flatten(), strict=True))
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


@frozen_with_dict
class TableTableJoin(Node):
    """Changes of one of two tables with the row of the other. `how` is that of the join as a whole; `is_left` tells
    whose changes come here. Both sides see each other change by change: if one of them skipped some, the old values of
    their results would not be what the other gave before."""

    key: Serde
    lookup: Lookup  # of the other table
    function: Callable[[Any, Any], Any]
    how: str
    is_left: bool
    takes_every: bool = False  # the table gives the last changes of a step

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        frame = keyed(frame)
        if not len(frame):
            return EMPTY
        others, times = rows_as_of(self.lookup, self.key, step, frame, sides[0])
        cells = zip(objects(frame.values), objects(frame.olds), objects(others), strict=True)
        results = [self._joined(*change) for change in cells]
        places = np.array([at for at, change in enumerate(results) if change is not None], np.int64)
        changes = [change for change in results if change is not None]
        stamps = np.maximum(frame.times, times)[places]
        news, olds = ([change[i] for change in changes] for i in (0, 1))
        return replace(replace(frame, trace=None).take(places), values=news, olds=olds, times=stamps)

    def _joined(self, new: Any, old: Any, other: Any) -> tuple[Any, Any] | None:
        """The change of the result, None if there is none."""
        mine_is_enough = self.how == OUTER or (self.how == LEFT and self.is_left)
        if other is None:
            if not mine_is_enough or (new is None and old is None):
                return None
            return self._joined_value(new, other, new is not None), self._joined_value(
                old, other, old is not None
            )
        other_is_enough = self.how == OUTER or (self.how == LEFT and not self.is_left)
        return (
            self._joined_value(new, other, new is not None or other_is_enough),
            self._joined_value(old, other, old is not None or other_is_enough),
        )

    def _joined_value(self, mine: Any, other: Any, is_there: bool) -> Any:
        if not is_there:
            return None
        return self.function(mine, other) if self.is_left else self.function(other, mine)


@frozen_with_dict
class TableMerge(Node):
    """The changes of both sides of a join of tables; kept if the result has a name. With `emit="batch"` (one of the
    tables has it) the last one of each key."""

    key: Serde
    value: Serde
    store: str | None = None
    emit: str = EVERY

    def run(self, frame: Frame, step: Step, *sides: Frame) -> Frame:
        changes = self._kept(frame, step)
        return changes if self.emit == EVERY else compacted(changes, self.key.encode(changes.keys), self.emit)

    def _kept(self, frame: Frame, step: Step) -> Frame:
        if self.store is None:
            return frame
        olds = frame.olds
        stored = put_all(frame, step, self.store, self.key, self.value)
        return stored if olds is None else replace(stored, olds=olds)
