"""What is reduced by key, and by key and window alike: sums, extremes, averages, and several at once."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.frozen import frozen_with_dict
from ottla.streams import nodes, reductions
from ottla.streams.dsl.table import Table
from ottla.streams.errors import BadTopology
from ottla.streams.expressions import Expression
from ottla.streams.json_serde import json
from ottla.streams.nodes import BATCH
from ottla.streams.nodes.aggregates import Keeping
from ottla.streams.reductions import Reduction
from ottla.streams.serdes import Serde, float64, int64

_NUMBERS = {"int64": int64, "float64": float64}
TableT = TypeVar("TableT", bound=Table)


class Reductions(ABC, Generic[TableT]):
    """Of the values, or of an expression over them: `sum(col.cents)`. Nulls are left out."""

    def sum(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        return self.reduced({"sum": reductions.sum(of)}, name, emit, single=True)

    def min(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        return self.reduced({"min": reductions.min(of)}, name, emit, single=True)

    def max(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        return self.reduced({"max": reductions.max(of)}, name, emit, single=True)

    def avg(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        return self.reduced({"avg": reductions.avg(of)}, name, emit, single=True)

    def first(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        return self.reduced({"first": reductions.first(of)}, name, emit, single=True)

    def last(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        return self.reduced({"last": reductions.last(of)}, name, emit, single=True)

    def collect(self, of: Expression | None = None, name: str | None = None, emit: str = BATCH) -> TableT:
        """All of them, in a list: for a few."""
        return self.reduced({"collect": reductions.collect(of)}, name, emit, single=True)

    def agg(self, name: str | None = None, emit: str = BATCH, **of: Reduction) -> TableT:
        """Several at once: `agg(n=count(), high=max(col.pulse), name="pulse")`; rows have a field for each."""
        return self.reduced(checked(of), name, emit)

    @abstractmethod
    def reduced(
        self, of: dict[str, Reduction], name: str | None, emit: str, *, single: bool = False
    ) -> TableT: ...


def reducing(values: Serde, of: dict[str, Reduction], *, single: bool = False) -> tuple[Keeping, Serde]:
    """How reductions of values of this serde are kept, and the serde of what comes out."""
    columns = reductions.columns(of, values.kind)
    if columns is None:
        return nodes.Reducing(json, of, single), json
    if not single:
        return nodes.Columns(of, columns), json
    first = next(iter(of.values()))
    return nodes.Columns(of, columns, single=True), _NUMBERS[
        "float64" if first.how == "avg" else columns[0][1]
    ]


def checked(of: dict[str, Reduction]) -> dict[str, Reduction]:
    wrong = [name for name, reduction in of.items() if not isinstance(reduction, Reduction)]
    if wrong or not of:
        raise BadTopology(
            f"agg({', '.join(wrong)}): it takes reductions by name: agg(n=count(), high=max(col.pulse))"
        )
    return of


@frozen_with_dict
class Reduce:
    """A function of two as one of key, value, aggregate; the first value is the first aggregate."""

    function: Callable[[Any, Any], Any]

    def __call__(self, _: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else self.function(aggregate, value)


def nothing() -> None:
    return None


def zero() -> int:
    return 0


def plus_one(_: Any, __: Any, count: int) -> int:
    return count + 1
