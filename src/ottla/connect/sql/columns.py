"""What a field's schema is in a database: the kind of its column, and its value as drivers take it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ottla.connect import schema as schemas
from ottla.connect.errors import DataError
from ottla.connect.schema import Schema

# Kinds of columns; a dialect has a type for each.
BOOLEAN, SMALL, INTEGER, LONG, SINGLE, DOUBLE = "boolean", "small", "integer", "long", "single", "double"
TEXT, BYTES, DECIMAL, DATE, TIME, TIMESTAMP, ZONED, JSON, UUID = (
    "text", "bytes", "decimal", "date", "time", "timestamp", "zoned", "json", "uuid",
)  # fmt: skip

Convert = Callable[[Any], Any]
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1)
_DAY_US = 86_400_000_000
_PLAIN = {
    schemas.BOOLEAN: BOOLEAN,
    schemas.INT8: SMALL,
    schemas.INT16: SMALL,
    schemas.INT32: INTEGER,
    schemas.INT64: LONG,
    schemas.FLOAT32: SINGLE,
    schemas.FLOAT64: DOUBLE,
    schemas.STRING: TEXT,
    schemas.BYTES: BYTES,
}


class Column(NamedTuple):
    name: str
    kind: str
    is_required: bool
    default: Any  # None: there is none
    convert: Convert | None  # None: the value is taken as it is
    precision: tuple[int, int] | None = None  # of a decimal: digits and those behind the point


def column(name: str, schema: Schema) -> Column:
    kind, convert = _kind(schema)
    default = schema.default if schema.has_default and schema.default is not None else None
    if default is not None and convert is not None:
        try:
            default = convert(default)
        except (ValueError, ArithmeticError):
            default = None  # 'infinity', say: rows of other values can be written nevertheless
    return Column(
        name, kind, not schema.optional, default, convert, _precision(schema) if kind == DECIMAL else None
    )


def _precision(schema: Schema) -> tuple[int, int] | None:
    parameters = schema.parameters or {}
    digits = parameters.get("connect.decimal.precision")
    return (int(digits), int(parameters[schemas.SCALE])) if digits and schemas.SCALE in parameters else None


def _kind(schema: Schema) -> tuple[str, Convert | None]:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type in _PLAIN:
        return _PLAIN[schema.type], None
    return JSON, _json_text


def _json_text(value: Any) -> str:
    return json.dumps(value, default=_json_value, ensure_ascii=False, separators=(",", ":"))


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
    raise DataError(f"a {type(value).__name__} inside a struct or array cannot be written as JSON")


def _naive(value: datetime) -> datetime:
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value


def _clock(micros: int) -> time:
    """MariaDB's times are spans of up to 838 hours, of either sign: not every one is a time of a day."""
    if not 0 <= micros < _DAY_US:
        raise ValueError(f"{timedelta(microseconds=micros)} is not a time of a day")
    return (_EPOCH + timedelta(microseconds=micros)).time()


def _variable_decimal(value: dict[str, Any]) -> Decimal:
    return schemas.decimal_from(value["value"], value["scale"])


_LOGICAL: dict[str, tuple[str, Convert | None]] = {
    schemas.DECIMAL: (DECIMAL, None),
    schemas.DATE: (DATE, None),
    schemas.TIME: (TIME, None),
    schemas.TIMESTAMP: (TIMESTAMP, _naive),
    "io.debezium.time.Date": (DATE, lambda days: _EPOCH_DAY + timedelta(days=days)),
    "io.debezium.time.Time": (TIME, lambda ms: _clock(ms * 1000)),
    "io.debezium.time.MicroTime": (TIME, lambda us: _clock(us)),
    "io.debezium.time.Timestamp": (TIMESTAMP, lambda ms: _EPOCH + timedelta(milliseconds=ms)),
    "io.debezium.time.MicroTimestamp": (TIMESTAMP, lambda us: _EPOCH + timedelta(microseconds=us)),
    "io.debezium.time.NanoTimestamp": (TIMESTAMP, lambda ns: _EPOCH + timedelta(microseconds=ns // 1000)),
    "io.debezium.time.ZonedTimestamp": (ZONED, lambda text: datetime.fromisoformat(text)),
    "io.debezium.time.ZonedTime": (TEXT, None),
    "io.debezium.data.Json": (JSON, None),
    "io.debezium.data.Uuid": (UUID, None),
    "io.debezium.data.VariableScaleDecimal": (DECIMAL, _variable_decimal),
}
LOGICAL_NAMES = frozenset(_LOGICAL)
