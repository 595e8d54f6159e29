from collections.abc import Iterable
from typing import Any

from ottla.ports import Buffer
from ottla.wire.kernel_columns_py import Column, Measured
from ottla.wire.kernel_py import Header, Walked
from ottla.wire.kernel_rows_py import Gate as Gate
from ottla.wire.kernel_rows_py import Lane as Lane
from ottla.wire.kernel_rows_py import Receipt as Receipt
from ottla.wire.kernel_rows_py import Room as Room
from ottla.wire.kernel_rows_py import Rows as Rows
from ottla.wire.kernel_rows_py import tuples as tuples

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def walk(payload: Buffer, count: int, *, consecutive: bool) -> Walked: ...
def index(payload: Buffer, count: int) -> bytes: ...
def find_record(
    payload: Buffer, count: int, base_timestamp: int, target: int, from_delta: int = 0
) -> tuple[int, int] | None: ...
def outliers(
    payload: Buffer,
    count: int,
    limit: int,
    low: int = 0,
    high: int = 0,
    exempt: int = 0,
    null_keys: bool = False,
) -> tuple[int, list[tuple[int, int]]]: ...
def read_header(buffer: Buffer, position: int = 0) -> Header: ...
def scan(buffer: Buffer, position: int = 0, limit: int = 1024) -> list[tuple[int, Header]]: ...
def check(buffer: Buffer, position: int = 0) -> Header: ...
def validate(
    buffer: Buffer, position: int = 0, *, consecutive: bool = True
) -> tuple[Header, Walked | None]: ...
def encode(
    records: Iterable[tuple[Any, ...]], base_offset: int = 0, base_timestamp: int = 0
) -> tuple[bytes, int, int, int]: ...
def murmur2(key: Buffer) -> int: ...
def measure_columns(payload: Buffer, count: int, first: int, end: int) -> Measured: ...
def fill_columns(
    payload: Buffer,
    count: int,
    first: int,
    end: int,
    row: int,
    base_offset: int,
    base_timestamp: int,
    same_time: bool,
    key: Column,
    value: Column,
    offsets: Any,
    timestamps: Any,
) -> int: ...
def fill_headers(
    payload: Buffer,
    count: int,
    first: int,
    end: int,
    row: int,
    lists: Any,
    key: tuple[Any, Any],
    value: Column,
) -> int: ...
def encode_columns(
    first: int,
    end: int,
    max_bytes: int,
    key: Column | None,
    value: Column | None,
    timestamps: Any,
    timestamp: int = -1,
) -> tuple[bytes, int, int, int]: ...
def partition_column(rows: int, key: Column | None, partitions: int) -> bytes: ...
def share_heap() -> bool: ...
def strays(
    payload: Buffer, count: int, limit: int, is_key: bool, ids: Buffer, guids: Buffer
) -> tuple[int, list[tuple[int, int]]]: ...
