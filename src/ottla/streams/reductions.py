"""`count()`, `max(col.pulse)`: what `agg` makes of the records of a key. Nulls are left out, as in SQL."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.frozen import frozen_with_dict
from ottla.pipelines.state.arrays import arrow_column, known_cells, numpy_column
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.serdes import Column, arrow, objects

COUNT, SUM, MIN, MAX, AVG, FIRST, LAST, COLLECT = (
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "first",
    "last",
    "collect",
)
_SEEN = ".seen"  # behind a column's name: how many values went into it


@frozen_with_dict
class Reduction:
    """`how` over an expression; without one, over the values themselves (a count: over all records). The values of a
    `partial` count are counts already."""

    how: str
    expression: Expression | None = None
    partial: bool = False

    def inputs(self, values: Column) -> Column:
        return values if self.expression is None else self.expression.of(values)

    def dtype(self, kind: Any) -> str | None:
        """Of the column of a store that keeps it; None if it is for Python to keep."""
        if self.how == COUNT:
            return "int64"
        if kind is None or self.how == COLLECT:
            return None
        input_type = kind if self.expression is None else self.expression.of(pa.nulls(0, kind)).type
        if pa.types.is_integer(input_type):
            return "float64" if self.how == AVG else "int64"
        return "float64" if pa.types.is_floating(input_type) else None


def reduction(how: str) -> Any:
    def make(expression: Expression | None = None) -> Reduction:
        if expression is not None and not isinstance(expression, Expression):
            raise BadTopology(f"{how}({expression!r}): it takes an expression, as {how}(col.pulse)")
        return Reduction(how, expression)

    make.__name__ = make.__qualname__ = how
    make.__doc__ = f"For `agg`: {how} over an expression, as {how}(col.pulse)."
    return make


count, sum, min, max, avg, first, last, collect = (
    reduction(how) for how in (COUNT, SUM, MIN, MAX, AVG, FIRST, LAST, COLLECT)
)

# -- in columns of a store ---------------------------------------------------------------------------------


def columns(reductions: Mapping[str, Reduction], kind: Any) -> tuple[tuple[str, str], ...] | None:
    """The columns of a store, if all can be kept in columns."""
    layout: list[tuple[str, str]] = []
    for name, reduction in reductions.items():
        dtype = reduction.dtype(kind)
        if dtype is None:
            return None
        layout.append((name, dtype))
        if reduction.how != COUNT:
            layout.append((name + _SEEN, "int64"))
    return tuple(layout)


def take_in(store: Any, rows: Any, reductions: Mapping[str, Reduction], values: Column) -> None:
    """Records into the rows of their keys, in order; a row may be there several times."""
    for name, reduction in reductions.items():
        column = store[name]
        if reduction.how == COUNT and reduction.expression is None:
            np.add.at(column, rows, numpy_column(arrow(values)) if reduction.partial else 1)
            continue
        inputs = arrow(reduction.inputs(values))
        valid = known_cells(inputs)
        places = rows if valid.all() else rows[valid]
        if reduction.how == COUNT:
            np.add.at(column, places, 1)
            continue
        cells = numpy_column(inputs.drop_null()).astype(column.dtype, copy=False)
        _fold(reduction.how, column, store[name + _SEEN], places, cells)


def _fold(how: str, column: Any, counts: Any, places: Any, cells: Any) -> None:
    if how in (SUM, AVG):
        np.add.at(column, places, cells)
    elif how == LAST:
        column[places] = cells  # of a row that is there twice numpy takes the last
    else:
        new = counts[places] == 0
        column[places[new][::-1]] = cells[new][::-1]  # the first one, as what is assigned last stays
        if how == MIN:
            np.minimum.at(column, places, cells)
        elif how == MAX:
            np.maximum.at(column, places, cells)
    np.add.at(counts, places, 1)


def results(cells: Mapping[str, Any], reductions: Mapping[str, Reduction]) -> dict[str, pa.Array]:
    """From the cells of some rows: a column for each reduction."""
    by_name = {}
    for name, reduction in reductions.items():
        values = cells[name]
        if reduction.how == COUNT:
            by_name[name] = arrow_column(values)
            continue
        counts = cells[name + _SEEN]
        if reduction.how == AVG:
            values = values / np.where(counts == 0, 1, counts)
        by_name[name] = arrow_column(values, known=counts != 0)
    return by_name


# -- as Python values ----------------------------------------------------------------------------------------


def begin(reductions: Mapping[str, Reduction]) -> list[Any]:
    """What is kept of no records: for each reduction a list, so that JSON can hold it."""
    return [[0] if reduction.how == COUNT else [] for reduction in reductions.values()]


def evaluated(values: Column, reductions: Mapping[str, Reduction]) -> list[tuple[Any, ...]]:
    """The inputs of all reductions, for each record."""
    inputs = [
        [True] * len(values)
        if reduction.how == COUNT and reduction.expression is None
        else objects(reduction.inputs(values))
        for reduction in reductions.values()
    ]
    return list(zip(*inputs, strict=True))


def added(state: list[Any], inputs: tuple[Any, ...], reductions: Mapping[str, Reduction]) -> list[Any]:
    cells = zip(state, inputs, reductions.values(), strict=True)
    return [cell if value is None else _added(cell, value, reduction.how) for cell, value, reduction in cells]


def _added(state: list[Any], value: Any, how: str) -> list[Any]:
    if how == COUNT:
        return [state[0] + 1]
    if how == COLLECT:
        return [*state, value]
    if how == AVG:
        return [state[0] + value, state[1] + 1] if state else [value, 1]
    if not state or how == LAST:
        return [value]
    if how == SUM:
        return [state[0] + value]
    if how == FIRST:
        return state
    return [value] if (value < state[0]) == (how == MIN) and value != state[0] else state


def merged(one: list[Any], other: list[Any], reductions: Mapping[str, Reduction]) -> list[Any]:
    """What is kept of both; the records of `one` come first."""
    return [
        _merged(a, b, reduction.how) for a, b, reduction in zip(one, other, reductions.values(), strict=True)
    ]


def _merged(one: list[Any], other: list[Any], how: str) -> list[Any]:
    if how == COLLECT:
        return [*one, *other]
    if how in (COUNT, SUM, AVG) and one and other:
        return [a + b for a, b in zip(one, other, strict=True)]
    if not one or not other:
        return one or other
    if how in (FIRST, LAST):
        return one if how == FIRST else other
    return _added(one, other[0], how)


def finished(state: list[Any], reductions: Mapping[str, Reduction]) -> dict[str, Any]:
    return {
        name: _finished(cell, reduction.how)
        for (name, reduction), cell in zip(reductions.items(), state, strict=True)
    }


def _finished(state: list[Any], how: str) -> Any:
    if how == COLLECT:
        return state
    if how == AVG:
        return state[0] / state[1] if state else None
    return state[0] if state else None
