"""Keys with windows, in the bytes of Kafka Streams."""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import numpy_column
from ottla.pipelines.state.windows import session_keys, split_session_keys, split_window_keys, window_keys
from ottla.streams.serdes import Column, Serde, windowed


class WindowedSerde(Serde):
    """As TimeWindowedSerializer writes them: without the end, which is `size_ms` behind the start."""

    def __init__(self, inner: Serde, size_ms: int) -> None:
        self.name, self.inner, self._size_ms = f"windowed {inner.name}", inner, size_ms

    def decode(self, cells: pa.Array) -> Column:
        keys, starts = split_window_keys(cells)
        return windowed(self.inner.decode(keys), starts, starts + self._size_ms)

    def encode(self, column: Column) -> pa.Array:
        keys, starts, _ = parts(column)
        return window_keys(self.inner.encode(keys), starts)


class SessionSerde(Serde):
    """As SessionWindowedSerializer writes them."""

    def __init__(self, inner: Serde) -> None:
        self.name, self.inner = f"session {inner.name}", inner

    def decode(self, cells: pa.Array) -> Column:
        keys, starts, ends = split_session_keys(cells)
        return windowed(self.inner.decode(keys), starts, ends)

    def encode(self, column: Column) -> pa.Array:
        keys, starts, ends = parts(column)
        return session_keys(self.inner.encode(keys), starts, ends)


def parts(column: Column) -> tuple[Column, Any, Any]:
    """Keys, starts, ends of a column of windowed keys."""
    if isinstance(column, pa.Array):
        return column.field(0), numpy_column(column.field(1)), numpy_column(column.field(2))
    keys, starts, ends = ([windowed_key[i] for windowed_key in column] for i in range(3))
    return keys, np.array(starts, np.int64), np.array(ends, np.int64)
