"""What a store holds: a plain value that travels to Spark's workers."""

import re
from typing import Any

import numpy as np

from ottla.errors import OttlaError
from ottla.frozen import frozen_with_dict

BYTES = "bytes"
_FIXED = ("int64", "int32", "float64", "bool")
_VECTOR_MAX = 1024

ColumnType = str | type | tuple[str | type, int]


class BadStore(OttlaError):
    """The description of a store does not hold together."""


class StoreChanged(OttlaError):
    """A store was described differently when its changelog was written."""


@frozen_with_dict
class StoreSpec:
    """`columns` are pairs of a name and a type: "int64", "int32", "float64", "bool", one of these and a number for a
    vector, ("float64", 3), or "bytes" for a value of variable size, once and as the last.

    In the changelog a value is the columns one after the other, big-endian: a single int64 is what Java's
    LongDeserializer reads, a single "bytes" column is the value itself.

    `time` names an int64 column with milliseconds, by which rows expire and are found: after `ttl_ms` if that is set.
    With `max_rows` further keys are refused. The keys of a `windowed` store end in a window, as in a window store's
    changelog of Kafka Streams (`windows.stored_window_keys`); its rows have the window's start as their time. The
    rows of a `timestamped` store have a time of their own (`KeyedStore.times`): the timestamp of their changelog
    records.
    """

    name: str
    columns: tuple[tuple[str, ColumnType], ...]
    time: str | None = None
    ttl_ms: int | None = None
    max_rows: int | None = None
    windowed: bool = False
    timestamped: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple((name, _plain(kind)) for name, kind in self.columns))
        _check(self)

    @property
    def fixed(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """The columns of fixed size, as numpy has them in memory."""
        return tuple((name, _dtype(kind)) for name, kind in self.columns if kind != BYTES)

    @property
    def variable(self) -> str | None:
        """The column of variable size."""
        return next((name for name, kind in self.columns if kind == BYTES), None)

    @property
    def encoded(self) -> np.dtype[Any]:
        """The columns of fixed size, as a changelog has them."""
        return np.dtype([(name, dtype.base.newbyteorder(">"), dtype.shape) for name, dtype in self.fixed])

    def signature(self) -> str:
        """What the bytes in changelog and files depend on. Limits and expiry may change freely."""
        columns = ", ".join(f"{name} {_text(kind)}" for name, kind in self.columns)
        kinds = [" windowed"] * self.windowed + [" timestamped"] * self.timestamped
        return f"{self.name}({columns}){''.join(kinds)}"

    def check_compatible(self, signature: str) -> None:
        """`signature` is that of the spec that wrote the changelog."""
        if signature != self.signature():
            raise StoreChanged(
                f"store {self.name} has changed: its changelog was written as {signature}, the pipeline now has "
                f"{self.signature()}; give the new store another name or reset the pipeline"
            )


def _plain(kind: ColumnType) -> ColumnType:
    """Types as text, so that equal specs compare equal: np.int64 is "int64", bytes is "bytes"."""
    if isinstance(kind, tuple):
        if len(kind) != 2:
            raise BadStore(f"a vector column is a type and a number, as ('float64', 3), not {kind!r}")
        return str(_plain(kind[0])), int(kind[1])
    if kind is bytes or kind == BYTES:
        return BYTES
    try:
        return np.dtype(kind).name
    except TypeError:
        return str(kind)


def _dtype(kind: ColumnType) -> np.dtype[Any]:
    base, size = kind if isinstance(kind, tuple) else (kind, None)
    return np.dtype(base) if size is None else np.dtype((np.dtype(base), (size,)))


def _text(kind: ColumnType) -> str:
    return f"{kind[0]}[{kind[1]}]" if isinstance(kind, tuple) else str(kind)


def _check(spec: StoreSpec) -> None:
    names = [name for name, _ in spec.columns]
    for name in (spec.name, *names):
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name):  # they are in names of topics and files
            raise BadStore(f"store {spec.name}: {name!r} is not a name of letters, digits, '.', '_' and '-'")
    if not names or len(set(names)) < len(names):
        raise BadStore(f"store {spec.name}: it needs columns, each with its own name, not {names}")
    for position, (name, kind) in enumerate(spec.columns):
        base, size = kind if isinstance(kind, tuple) else (kind, 1)
        if kind == BYTES and position == len(names) - 1:
            continue
        if base not in _FIXED or not 1 <= size <= _VECTOR_MAX:
            raise BadStore(
                f"store {spec.name}: column {name} is {_text(kind)}; columns are {', '.join(_FIXED)}, vectors of up "
                f"to {_VECTOR_MAX} of these, and {BYTES} as the last one"
            )
    if spec.time is not None and (spec.time, "int64") not in spec.columns:
        raise BadStore(f"store {spec.name}: time is {spec.time!r}, which is not among its int64 columns")
    if spec.windowed and spec.time is not None:
        raise BadStore(
            f"store {spec.name}: the time of a windowed store is in its keys, it needs no column for it"
        )
    if spec.ttl_ms is not None and spec.time is None and not spec.windowed:
        raise BadStore(f"store {spec.name}: ttl_ms needs time, the column that says how old a row is")
