from typing import Any

from ottla.ports import Buffer

Bytes = Buffer | Any  # numpy's arrays and Arrow's buffers are buffers too

def find(
    counters: Any,
    slots: Any,
    offsets: Any,
    heap: Any,
    rows: Any,
    key_offsets: Bytes,
    key_bytes: Bytes,
    start: int,
    count: int,
    /,
) -> int: ...
def assign(
    counters: Any,
    slots: Any,
    offsets: Any,
    heap: Any,
    rows: Any,
    created: Any,
    key_offsets: Bytes,
    key_bytes: Bytes,
    start: int,
    done: int,
    count: int,
    limit: int,
    /,
) -> tuple[int, int]: ...
def delete(counters: Any, slots: Any, offsets: Any, heap: Any, rows: Any, /) -> int: ...
def rehash(target: Any, source: Any, /) -> int: ...
def measure(offsets: Any, heap: Any, rows: Any, /) -> int: ...
def gather(out_offsets: Any, out_bytes: Any, offsets: Any, heap: Any, rows: Any, /) -> int: ...
def put(
    counters: Any,
    offsets: Any,
    heap: Any,
    rows: Any,
    value_offsets: Bytes,
    value_bytes: Bytes,
    start: int,
    done: int,
    count: int,
    /,
) -> int: ...
def pack(offsets: Any, heap: Any, copy: Any, rows: Any, /) -> int: ...
def split(
    fixed: Any,
    out_offsets: Any,
    out_bytes: Any,
    offsets: Bytes,
    data: Bytes,
    start: int,
    count: int,
    size: int,
    at_end: bool,
    /,
) -> int: ...
