"""`col.pulse > 150`: a value's field in an expression that Arrow evaluates for a whole column."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state import compute as pc
from ottla.streams.errors import BadValue
from ottla.streams.serdes import Column, arrow


class Expression:
    """A missing field, or a null in it, makes the result null."""

    def __init__(self, evaluate: Callable[[pa.Array], Any], text: str) -> None:
        self._evaluate, self._text = evaluate, text

    def of(self, values: Column) -> Any:
        """For each value."""
        return self._evaluate(arrow(values))

    def __repr__(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self} is an expression for a whole column; combine it with & | ~ instead of and, or, not"
        )

    def __getattr__(self, name: str) -> "Expression":
        """A field of a field: `col.place.bed`."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Expression(lambda values: _field(arrow(self._evaluate(values)), name), f"{self}.{name}")

    def __gt__(self, other: Any) -> "Expression":
        return _binary(pc.greater, self, other, ">")

    def __ge__(self, other: Any) -> "Expression":
        return _binary(pc.greater_equal, self, other, ">=")

    def __lt__(self, other: Any) -> "Expression":
        return _binary(pc.less, self, other, "<")

    def __le__(self, other: Any) -> "Expression":
        return _binary(pc.less_equal, self, other, "<=")

    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]
        return _binary(pc.equal, self, other, "==")

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        return _binary(pc.not_equal, self, other, "!=")

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> "Expression":
        return _binary(pc.add, self, other, "+")

    def __sub__(self, other: Any) -> "Expression":
        return _binary(pc.subtract, self, other, "-")

    def __mul__(self, other: Any) -> "Expression":
        return _binary(pc.multiply, self, other, "*")

    def __and__(self, other: Any) -> "Expression":
        return _binary(pc.and_kleene, self, other, "&")

    def __or__(self, other: Any) -> "Expression":
        return _binary(pc.or_kleene, self, other, "|")

    def __invert__(self) -> "Expression":
        return Expression(lambda values: pc.invert(self._evaluate(values)), f"~{self}")


class _Columns:
    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        return Expression(lambda values: _field(values, name), f"col.{name}")


col = _Columns()


def _field(values: pa.Array, name: str) -> Any:
    if pa.types.is_null(values.type):
        return values
    if not pa.types.is_struct(values.type):
        raise BadValue(f"col.{name}: the values are {values.type}, they have no fields")
    if values.type.get_field_index(name) < 0:
        return pa.nulls(len(values))
    return pc.struct_field(values, name)


def _binary(function: Any, left: Expression, right: Any, sign: str) -> Expression:
    def evaluate(values: pa.Array) -> Any:
        return function(
            left._evaluate(values), right._evaluate(values) if isinstance(right, Expression) else right
        )

    return Expression(evaluate, f"({left} {sign} {right!r})")
