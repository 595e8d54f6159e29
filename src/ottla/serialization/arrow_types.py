"""Types of columns in SQL's words, as `columns.py` writes them, as Arrow's types."""

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

_TYPES = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "VOID": pa.null(),
}
_TOKEN = re.compile(r"`[^`]*`|[A-Z_]+|\d+|[<>(),:]")


def arrow_type(text: str) -> Any:
    """Of `STRUCT<`id`: STRING, `tags`: ARRAY<STRING>>`, for example."""
    return _type(iter(_TOKEN.findall(text)))


def _type(tokens: Iterator[str]) -> Any:
    word = next(tokens)
    if word == "STRUCT":
        return pa.struct(list(_fields(tokens)))
    if word == "ARRAY":
        next(tokens)
        inner = _type(tokens)
        next(tokens)
        return pa.list_(inner)
    if word == "MAP":
        next(tokens)
        key = _type(tokens)
        next(tokens)
        value = _type(tokens)
        next(tokens)
        return pa.map_(key, value)
    if word == "DECIMAL":
        _, precision, _, scale, _ = (next(tokens) for _ in range(5))
        return pa.decimal128(int(precision), int(scale))
    return _TYPES[word]


def _fields(tokens: Iterator[str]) -> Iterator[Any]:
    next(tokens)
    name = next(tokens)
    while name != ">":
        next(tokens)
        yield pa.field(name.strip("`"), _type(tokens))
        if next(tokens) == ">":
            return
        name = next(tokens)
