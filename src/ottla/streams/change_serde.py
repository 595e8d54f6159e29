"""Changes of a table on their way through an internal topic."""

import struct
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import arrow_cells
from ottla.streams.errors import BadValue
from ottla.streams.serdes import Column, Serde, objects

_NEW, _OLD = 1, 2
_HEAD = struct.Struct(">BI")


class ChangeSerde(Serde):
    """Pairs of the new and the old value, either of which may be None: flags, length of the new value, new, old."""

    def __init__(self, inner: Serde) -> None:
        self.name, self._inner = f"change of {inner.name}", inner

    def decode(self, cells: pa.Array) -> Column:
        news, olds = [], []
        for cell in cells.to_pylist():
            if cell is None or len(cell) < _HEAD.size:
                raise BadValue(
                    "a record of a repartition topic is no change of a table; something else wrote to it"
                )
            flags, size = _HEAD.unpack_from(cell)
            middle = _HEAD.size + size
            news.append(cell[_HEAD.size : middle] if flags & _NEW else None)
            olds.append(cell[middle:] if flags & _OLD else None)
        both = (objects(self._inner.decode(arrow_cells(column, pa.binary()))) for column in (news, olds))
        return list(zip(*both, strict=True))

    def encode(self, column: Column) -> pa.Array:
        sides = ([pair[i] for pair in column] for i in (0, 1))
        news, olds = (self._inner.encode(side).to_pylist() for side in sides)
        return arrow_cells([_packed(new, old) for new, old in zip(news, olds, strict=True)], pa.binary())


def _packed(new: Any, old: Any) -> bytes:
    flags = (new is not None) * _NEW + (old is not None) * _OLD
    return _HEAD.pack(flags, len(new or b"")) + (new or b"") + (old or b"")
