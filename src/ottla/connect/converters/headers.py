"""SimpleHeaderConverter: headers as text, and text as whatever it looks like."""

import json
import re
from base64 import b64encode
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect import java_text
from ottla.connect.schema import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    STRING,
    Schema,
    day,
    decimal,
    time_of_day,
    timestamp,
)

_INTEGER = re.compile(r"[+-]?\d+\Z")
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?\Z")
_FORMS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z"), timestamp, datetime.fromisoformat),
    (re.compile(r"\d{4}-\d\d-\d\d\Z"), day, date.fromisoformat),
    (re.compile(r"\d\d:\d\d:\d\d\.\d{3}Z\Z"), time_of_day, lambda text: time.fromisoformat(text[:-1])),
)


class SimpleHeaderConverter:
    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return None if value is None else shown(value, schema).encode()

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        return parse(data.decode("utf-8", "replace"))

    def from_column(self, topic: str, values: Any) -> Any:
        return None

    def to_column(self, topic: str, data: Any) -> Any:
        return None


def shown(value: Any, schema: Schema | None = None, *, inside: bool = False) -> str:
    """Texts inside of lists and maps are in quotation marks."""
    match value:
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if inside else value
        case bytes():
            return b64encode(value).decode()
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        case date():
            return value.isoformat()
        case time():
            return value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
        case Decimal():
            return str(value)
        case list() | tuple():
            inner = schema.values if schema else None
            return "[" + ",".join(shown(item, inner, inside=True) for item in value) + "]"
        case dict():
            pairs = (f"{shown(k, inside=True)}:{shown(v, inside=True)}" for k, v in value.items())
            return "{" + ",".join(pairs) + "}"
        case _:
            return java_text.text(value, schema)


def parse(text: str) -> tuple[Schema | None, Any]:
    """The narrowest type that a text can be."""
    stripped = text.strip()
    if not stripped:
        return Schema(STRING), text
    if stripped == "null":
        return None, None
    if stripped in ("true", "false"):
        return Schema(BOOLEAN), stripped == "true"
    for pattern, schema, convert in _FORMS:
        if pattern.match(stripped):
            try:
                return schema(), convert(stripped)
            except ValueError:
                continue
    if _INTEGER.match(stripped):
        return _integer(int(stripped))
    if _DECIMAL.match(stripped):
        return _fraction(stripped)
    if stripped[0] in "[{":
        try:
            return _structured(json.loads(stripped))
        except ValueError:
            pass
    return Schema(STRING), text


def _integer(value: int) -> tuple[Schema, Any]:
    for kind in (INT8, INT16, INT32, INT64):
        half = 1 << INTEGERS[kind] - 1
        if -half <= value < half:
            return Schema(kind), value
    return decimal(0), Decimal(value)


def _fraction(text: str) -> tuple[Schema, Any]:
    """A whole number is one however it is written; else the first of float, double, decimal that can hold its size."""
    exact = Decimal(text)
    if exact == exact.to_integral_value() and abs(exact) < 1 << 63:
        return _integer(int(exact))
    value = float(text)
    if abs(java_text.to_single(value)) != float("inf"):
        return Schema(FLOAT32), java_text.to_single(value)
    if abs(value) != float("inf"):
        return Schema(FLOAT64), value
    exponent = exact.as_tuple().exponent
    return decimal(-exponent if isinstance(exponent, int) else 0), exact


def _structured(value: Any) -> tuple[Schema | None, Any]:
    """Lists and maps, without a schema of their elements."""
    if isinstance(value, (list, dict)):
        return None, value
    raise ValueError("a text")
