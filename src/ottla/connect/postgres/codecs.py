"""How a column's values are read: its schema, and a parser of its texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.connect.schema import Schema

Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Modes:
    """How values of some types are written: Debezium's `*.handling.mode` settings."""

    decimals: str = "precise"
    times: str = "adaptive"
    intervals: str = "numeric"
    binary: str = "bytes"
    hstore: str = "json"
    unavailable: str = "__debezium_unavailable_value"
    money_digits: int = 2


class Codec(NamedTuple):
    """`schema` is not optional; `unavailable` stands for a value that the log does not hold."""

    schema: Schema
    parse: Parse
    unavailable: Any = None
    zero: Any = None  # for a value that is not known, where NULL is not allowed
    is_plain_decimal: bool = False  # a text of as many digits behind the point as the schema's scale
