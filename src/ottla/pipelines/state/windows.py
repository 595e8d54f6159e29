"""Keys with a window, in the bytes of Kafka Streams, for whole arrays of keys.

| whose | behind the key |
|---|---|
| TimeWindowedSerializer: results | start, 8 bytes |
| WindowKeySchema: changelogs of window stores | start, 8 bytes, and a sequence number, 4 bytes |
| SessionWindowedSerializer and SessionKeySchema | end, 8 bytes, then start, 8 bytes |

All numbers are big-endian, and times are milliseconds.
"""

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state import compute as pc
from ottla.pipelines.state.arrays import Ints
from ottla.pipelines.state.table import split

_WINDOW = np.dtype([("start", ">i8")])
_STORED = np.dtype([("start", ">i8"), ("sequence", ">i4")])
_SESSION = np.dtype([("end", ">i8"), ("start", ">i8")])
_FIRST = bytes(4)  # a sequence number


def window_keys(keys: Any, starts: Any) -> Any:
    """As a result's key: what Java's TimeWindowedDeserializer reads."""
    return _joined(keys, _WINDOW, start=starts)


def stored_window_keys(keys: Any, starts: Any, sequences: Any = 0) -> Any:
    """As a window store's changelog has them; sequence numbers tell apart rows of one key and window."""
    return _joined(keys, _STORED, start=starts, sequence=sequences)


def stored_keys(keys: Any) -> Any:
    """Keys of results as a window store has them."""
    return pc.binary_join_element_wise(keys.cast(pa.binary()), pa.scalar(_FIRST), b"")


def session_keys(keys: Any, starts: Any, ends: Any) -> Any:
    """As a result's key and in a session store's changelog."""
    return _joined(keys, _SESSION, start=starts, end=ends)


def split_window_keys(keys: Any) -> tuple[Any, Ints]:
    """Keys, starts."""
    plain, cells = _split(keys, _WINDOW)
    return plain, _native(cells["start"])


def split_stored_window_keys(keys: Any) -> tuple[Any, Ints, Ints]:
    """Keys, starts, sequence numbers."""
    plain, cells = _split(keys, _STORED)
    return plain, _native(cells["start"]), _native(cells["sequence"])


def split_session_keys(keys: Any) -> tuple[Any, Ints, Ints]:
    """Keys, starts, ends."""
    plain, cells = _split(keys, _SESSION)
    return plain, _native(cells["start"]), _native(cells["end"])


def _joined(keys: Any, layout: np.dtype[Any], **parts: Any) -> Any:
    cells = np.empty(len(keys), layout)
    for name, part in parts.items():
        cells[name] = part
    tails = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(layout.itemsize), len(keys), [None, pa.py_buffer(cells.tobytes())]
    )
    return pc.binary_join_element_wise(keys.cast(pa.binary()), tails.cast(pa.binary()), b"")


def _split(keys: Any, layout: np.dtype[Any]) -> tuple[Any, Any]:
    size, cells = layout.itemsize, keys.cast(pa.binary())
    shortest = pc.min(pc.binary_length(cells)).as_py()
    if shortest is not None and shortest < size:
        raise ValueError(f"a key of {shortest} bytes ends in no window, which takes {size}")
    ends, plain = split(cells, size, at_end=True)
    return plain, ends.view(layout)


def _native(cells: Any) -> Ints:
    return np.asarray(cells, np.int64)
