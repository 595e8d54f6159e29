"""Debezium's names for types of columns, whatever database they come from."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from ottla.connect import schema as schemas
from ottla.connect.schema import Schema

DAY_US = 86_400_000_000
EPOCH = datetime(1970, 1, 1)
EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
MICROSECOND = timedelta(microseconds=1)

DATE = Schema(schemas.INT32, name="io.debezium.time.Date", version=1)
MILLI_TIME = Schema(schemas.INT32, name="io.debezium.time.Time", version=1)
MICRO_TIME = Schema(schemas.INT64, name="io.debezium.time.MicroTime", version=1)
MILLI_TIMESTAMP = Schema(schemas.INT64, name="io.debezium.time.Timestamp", version=1)
MICRO_TIMESTAMP = Schema(schemas.INT64, name="io.debezium.time.MicroTimestamp", version=1)
ZONED_TIMESTAMP = schemas.string(name="io.debezium.time.ZonedTimestamp", version=1)
JSON = schemas.string(name="io.debezium.data.Json", version=1)
POINT = schemas.struct(
    "io.debezium.data.geometry.Point",
    {
        "x": Schema(schemas.FLOAT64),
        "y": Schema(schemas.FLOAT64),
        "wkb": Schema(schemas.BYTES, optional=True),
        "srid": Schema(schemas.INT32, optional=True),
    },
    version=1,
    doc="Geometry (POINT)",
)
NO_POINT: dict[str, Any] = {"x": 0.0, "y": 0.0, "wkb": None, "srid": None}  # where NULL is not allowed

# binary.handling.mode, but for `bytes`.
BINARY_WRITERS: dict[str, Callable[[bytes], str]] = {
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode(),
    "hex": bytes.hex,
}


def decimal(precision: int, scale: int) -> Schema:
    parameters = {schemas.SCALE: str(scale), "connect.decimal.precision": str(precision)}
    return replace(schemas.decimal(scale), parameters=parameters)


def enumeration(labels: Iterable[str], name: str = "io.debezium.data.Enum") -> Schema:
    return Schema(schemas.STRING, name=name, version=1, parameters={"allowed": ",".join(labels)})


def bits(length: int) -> Schema:
    return Schema(schemas.BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": str(length)})
