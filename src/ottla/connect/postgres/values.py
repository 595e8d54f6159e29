"""PostgreSQL's types as Debezium maps them: the schema of a column, and the value for the column's text.

Handling modes have Debezium's names. The schema and the parser of a column are found once; rows are parsed with them.
"""

from __future__ import annotations

import base64
import json
import re
import struct as packing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ottla.connect import schema as schemas
from ottla.connect.postgres.arrays import parse_array
from ottla.connect.schema import Schema

Parse = Callable[[str], Any]
_DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
# What the JDBC driver takes for infinity, and so Debezium.
_INFINITY_US = {"infinity": 9_223_372_036_825_200_000, "-infinity": -9_223_372_036_832_400_000}
_INFINITY_DAYS = {"infinity": 2**31 - 1, "-infinity": -(2**31)}
_NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_MONTH_US = 2_629_800_000_000  # 30.4375 days, as Debezium counts
_BITS_UNLIMITED = 2**31 - 1
_STRINGS = frozenset({
    "text", "varchar", "bpchar", "name", "char", "citext", "inet", "cidr", "macaddr", "macaddr8",
    "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
})  # fmt: skip
_TAGGED = {
    "uuid": "io.debezium.data.Uuid",
    "json": "io.debezium.data.Json",
    "jsonb": "io.debezium.data.Json",
    "xml": "io.debezium.data.Xml",
    "tsvector": "io.debezium.data.Tsvector",
    "ltree": "io.debezium.data.Ltree",
}


@dataclass(frozen=True, slots=True)
class Modes:
    """How values of some types are written: Debezium's `*.handling.mode` settings."""

    decimals: str = "precise"
    times: str = "adaptive"
    intervals: str = "numeric"
    binary: str = "bytes"
    hstore: str = "json"
    unavailable: str = "__debezium_unavailable_value"
    money_digits: int = 2


class Type(NamedTuple):
    """A row of pg_type, as far as it matters here."""

    oid: int
    name: str
    kind: str  # b: base, d: domain, e: enumeration, c: composite, r: range
    element: int  # of an array, else 0
    base: int  # of a domain, else 0
    modifier: int  # of a domain
    labels: tuple[str, ...]  # of an enumeration


class Codec(NamedTuple):
    """`schema` is not optional; `unavailable` stands for a value that the log does not hold."""

    schema: Schema
    parse: Parse
    unavailable: Any = None
    zero: Any = None  # for a value that is not known, where NULL is not allowed
    is_plain_decimal: bool = False  # a text of as many digits behind the point as the schema's scale


def codec(types: Mapping[int, Type], oid: int, modifier: int, modes: Modes) -> Codec | None:
    """None: a type that Debezium leaves out (`include.unknown.datatypes=false`)."""
    kind = types.get(oid)
    if kind is None:
        return None
    if kind.kind == "d":
        return codec(types, kind.base, kind.modifier if modifier == -1 else modifier, modes)
    if kind.element:
        return _array(types, kind, modifier, modes)
    if kind.kind == "e":
        allowed = {"allowed": ",".join(kind.labels)}
        return _text(
            Schema(schemas.STRING, name="io.debezium.data.Enum", version=1, parameters=allowed), modes
        )
    if kind.name in _STRINGS:
        return _text(schemas.string(), modes)
    if kind.name in _TAGGED:
        return _text(schemas.string(name=_TAGGED[kind.name], version=1), modes)
    maker = _MAKERS.get(kind.name)
    return maker(modifier, modes) if maker else None


def _text(schema: Schema, modes: Modes) -> Codec:
    return Codec(schema, str, modes.unavailable, "")


def _array(types: Mapping[int, Type], kind: Type, modifier: int, modes: Modes) -> Codec | None:
    inner = codec(types, kind.element, modifier, modes)
    if inner is None:
        return None
    is_enumeration = types[kind.element].kind == "e"  # whose elements Debezium calls required
    parse = inner.parse
    unavailable = None if inner.unavailable is None else [inner.unavailable]
    schema = schemas.array(inner.schema.as_optional(not is_enumeration))
    return Codec(schema, lambda text: parse_array(text, parse), unavailable, [])


# -- numbers ---------------------------------------------------------------------------------------


def _number(schema: Schema, parse: Parse, zero: Any) -> Callable[[int, Modes], Codec]:
    return lambda _modifier, _modes: Codec(schema, parse, None, zero)


def is_true(text: str) -> bool:
    return text == "t"


def _numeric(modifier: int, modes: Modes) -> Codec:
    if modes.decimals == "string":
        return Codec(schemas.string(), str, None, "")
    if modes.decimals == "double":
        return Codec(Schema(schemas.FLOAT64), _float_or_null, None, 0.0)
    if modifier == -1:
        return Codec(_VARIABLE_DECIMAL, _variable_decimal, None, {"scale": 0, "value": b"\0"})
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale >= 0x400 else scale  # negative scales, since PostgreSQL 15
    parameters = {schemas.SCALE: str(scale), "connect.decimal.precision": str(precision)}
    return _decimal(replace(schemas.decimal(scale), parameters=parameters), scale)


def unscaled_bytes(text: str, scale: int) -> bytes | None:
    """What Connect stores for a decimal that PostgreSQL has written with `scale` digits; None for NaN and its like."""
    if text in _NOT_NUMBERS:
        return None
    unscaled = int(text.replace(".", "")) if scale >= 0 else int(text) // 10**-scale
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def _decimal(schema: Schema, scale: int) -> Codec:
    step = Decimal(1).scaleb(-scale)
    return Codec(
        schema,
        lambda text: None if text in _NOT_NUMBERS else schemas.rescaled(Decimal(text), scale),
        None,
        step * 0,
        is_plain_decimal=True,
    )


_VARIABLE_DECIMAL = schemas.struct(
    "io.debezium.data.VariableScaleDecimal",
    {"scale": schemas.integer(), "value": Schema(schemas.BYTES)},
    version=1,
    doc="Variable scaled decimal",
)


def _variable_decimal(text: str) -> dict[str, Any] | None:
    if text in _NOT_NUMBERS:
        return None  # a decimal has no such value; decimal.handling.mode=string writes it
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return {"scale": -exponent, "value": schemas.decimal_bytes(number, -exponent)}


def _float_or_null(text: str) -> float | None:
    return None if text in _NOT_NUMBERS else float(text)


def _money(_modifier: int, modes: Modes) -> Codec:
    if modes.decimals == "string":
        return Codec(schemas.string(), lambda text: str(_money_amount(text)), None, "")
    if modes.decimals == "double":
        return Codec(Schema(schemas.FLOAT64), lambda text: float(_money_amount(text)), None, 0.0)
    digits = modes.money_digits
    zero = schemas.rescaled(Decimal(0), digits)
    return Codec(
        schemas.decimal(digits), lambda text: schemas.rescaled(_money_amount(text), digits), None, zero
    )


def _money_amount(text: str) -> Decimal:
    """`-$1,234.56`, or with another sign of currency; a point is taken for the point of decimals."""
    return Decimal(("-" if text[0] in "-(" else "") + re.sub(r"[^0-9.]", "", text))


# -- times -----------------------------------------------------------------------------------------


def _date(_modifier: int, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.day(), _python_date, None, date(1970, 1, 1))
    return Codec(Schema(schemas.INT32, name="io.debezium.time.Date", version=1), days_since_1970, None, 0)


def days_since_1970(text: str) -> int:
    if text in _INFINITY_DAYS:
        return _INFINITY_DAYS[text]
    if text.endswith(" BC"):
        year, month, day = text[:-3].split("-")
        return _days_of(1 - int(year), int(month), int(day))
    if len(text) == 10:
        return date.fromisoformat(text).toordinal() - _EPOCH_ORDINAL
    year, month, day = text.split("-")
    return _days_of(int(year), int(month), int(day))


def _days_of(year: int, month: int, day: int) -> int:
    """Any year: moved into the range of `date` by whole cycles of 400 years."""
    cycles = (year - 2000) // 400
    return date(year - 400 * cycles, month, day).toordinal() - _EPOCH_ORDINAL + cycles * 146_097


def _python_date(text: str) -> date:
    if text in _INFINITY_DAYS:
        return date.max if text == "infinity" else date.min
    return date.fromordinal(days_since_1970(text) + _EPOCH_ORDINAL)


def _time(modifier: int, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.time_of_day(), _python_time, None, time(0))
    if 0 <= modifier <= 3 and modes.times == "adaptive":
        schema = Schema(schemas.INT32, name="io.debezium.time.Time", version=1)
        return Codec(schema, lambda text: time_us(text) // 1000, None, 0)
    return Codec(Schema(schemas.INT64, name="io.debezium.time.MicroTime", version=1), time_us, None, 0)


def time_us(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    micros = int((fraction + "000000")[:6]) if fraction else 0
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + micros


def _python_time(text: str) -> time:
    return (datetime.min + timedelta(microseconds=time_us(text) % _DAY_US)).time()


def _zoned_time(_modifier: int, modes: Modes) -> Codec:
    schema = schemas.string(name="io.debezium.time.ZonedTime", version=1)
    return Codec(schema, _utc_time, None, "00:00:00Z")


def _utc_time(text: str) -> str:
    clock, offset_us = _split_zone(text)
    micros = (time_us(clock) - offset_us) % _DAY_US
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{shown}Z"


def _split_zone(text: str) -> tuple[str, int]:
    """A clock's time and its zone's distance from UTC in microseconds: `+02`, `-03:30`, `+01:02:03`."""
    at = max(text.rfind("+"), text.rfind("-"))
    sign = -1 if text[at] == "-" else 1
    parts = [int(part) for part in text[at + 1 :].split(":")] + [0, 0]
    return text[:at], sign * ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1_000_000


def _timestamp(modifier: int, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.timestamp(), _python_timestamp, None, datetime(1970, 1, 1, tzinfo=UTC))
    if 0 <= modifier <= 3 and modes.times == "adaptive":
        schema = Schema(schemas.INT64, name="io.debezium.time.Timestamp", version=1)
        return Codec(schema, lambda text: timestamp_us(text) // 1000, None, 0)
    schema = Schema(schemas.INT64, name="io.debezium.time.MicroTimestamp", version=1)
    return Codec(schema, timestamp_us, None, 0)


def timestamp_us(text: str) -> int:
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    except ValueError:
        pass  # infinite, or of a year that `datetime` does not know
    if text in _INFINITY_US:
        return _INFINITY_US[text]
    era = " BC" if text.endswith(" BC") else ""
    day, clock = text.removesuffix(" BC").split(" ")
    return days_since_1970(day + era) * _DAY_US + time_us(clock)


def _python_timestamp(text: str) -> datetime:
    """To the millisecond, as Connect's Timestamp is."""
    if text in _INFINITY_US:
        return (datetime.max if text == "infinity" else datetime.min).replace(tzinfo=UTC)
    return schemas.moment(timestamp_us(text) // 1000)


def _zoned_timestamp(modifier: int, modes: Modes) -> Codec:
    digits = modifier if 0 <= modifier <= 6 else 6
    schema = schemas.string(name="io.debezium.time.ZonedTimestamp", version=1)
    return Codec(schema, lambda text: _utc_timestamp(text, digits), None, "1970-01-01T00:00:00.000000Z")


def _utc_timestamp(text: str, digits: int) -> str:
    if text in _INFINITY_US:
        return text
    era = " BC" if text.endswith(" BC") else ""
    local, offset_us = _split_zone(text.removesuffix(" BC"))
    days, micros = divmod(timestamp_us(local + era) - offset_us, _DAY_US)
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}"[: digits + 1] if digits else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{_day_text(days)}T{clock}{shown}Z"


def _day_text(days: int) -> str:
    cycles, rest = divmod(days + _EPOCH_ORDINAL - 1, 146_097)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}-{day.month:02}-{day.day:02}"


_INTERVAL_UNITS = {"year": 12, "years": 12, "mon": 1, "mons": 1}


def interval_parts(text: str) -> tuple[int, int, int]:
    """Months, days, microseconds of `1 year 2 mons 3 days -04:05:06.789`, the style `postgres`."""
    months = days = micros = 0
    words = text.split(" ")
    while words:
        word = words.pop(0)
        if ":" in word:
            micros = time_us(word.lstrip("+-")) * (-1 if word.startswith("-") else 1)
        elif words[0].startswith("day"):
            words.pop(0)
            days = int(word)
        else:
            months += int(word) * _INTERVAL_UNITS[words.pop(0)]
    return months, days, micros


def _interval(_modifier: int, modes: Modes) -> Codec:
    if modes.intervals == "string":
        schema = schemas.string(name="io.debezium.time.Interval", version=1)
        return Codec(schema, _interval_text, None, "P0Y0M0DT0H0M0S")
    schema = Schema(schemas.INT64, name="io.debezium.time.MicroDuration", version=1)
    return Codec(schema, _interval_us, None, 0)


def _interval_us(text: str) -> int:
    months, days, micros = interval_parts(text)
    return months * _MONTH_US + days * _DAY_US + micros


def _interval_text(text: str) -> str:
    months, days, micros = interval_parts(text)
    sign, micros = (-1, -micros) if micros < 0 else (1, micros)
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f".{fraction:06}".rstrip("0") if fraction else ""
    minus = "-" if sign < 0 and seconds % 60 + fraction else ""
    year_sign, months = (-1, -months) if months < 0 else (1, months)
    years = f"P{year_sign * (months // 12)}Y{year_sign * (months % 12)}M{days}D"
    return f"{years}T{sign * (seconds // 3600)}H{sign * (seconds // 60 % 60)}M{minus}{seconds % 60}{shown}S"


# -- the rest --------------------------------------------------------------------------------------


def _bytea(_modifier: int, modes: Modes) -> Codec:
    unavailable = modes.unavailable.encode()
    if modes.binary == "bytes":
        return Codec(Schema(schemas.BYTES), _from_hex, unavailable, b"")
    write: dict[str, Callable[[bytes], str]] = {
        "base64": lambda data: base64.b64encode(data).decode(),
        "base64-url-safe": lambda data: base64.urlsafe_b64encode(data).decode(),
        "hex": bytes.hex,
    }
    shown = write[modes.binary]
    return Codec(schemas.string(), lambda text: shown(_from_hex(text)), shown(unavailable), "")


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(text[2:])  # \x...; the connection sets bytea_output


def _bit(modifier: int, _modes: Modes) -> Codec:
    if modifier == 1:
        return Codec(Schema(schemas.BOOLEAN), lambda text: text == "1", None, False)
    return _varbit(modifier, _modes)


def _varbit(modifier: int, _modes: Modes) -> Codec:
    length = modifier if modifier > 0 else _BITS_UNLIMITED
    schema = Schema(
        schemas.BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": str(length)}
    )
    return Codec(schema, _bits, None, b"")


def _bits(text: str) -> bytes:
    """The lowest byte first."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0") or b"\0" if text else b""


_POINT = schemas.struct(
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


def _point(text: str) -> dict[str, Any]:
    x, y = map(float, text[1:-1].split(","))
    return {"x": x, "y": y, "wkb": packing.pack("<BIdd", 1, 1, x, y), "srid": None}


def _hstore(_modifier: int, modes: Modes) -> Codec:
    if modes.hstore == "map":
        optional = schemas.string(optional=True)
        return Codec(schemas.map_of(schemas.string(), optional), hstore_pairs, None, {})
    schema = schemas.string(name="io.debezium.data.Json", version=1)
    write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return Codec(schema, lambda text: write(hstore_pairs(text)), modes.unavailable, "{}")


_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', re.DOTALL)


def hstore_pairs(text: str) -> dict[str, str | None]:
    def plain(word: str) -> str:
        return re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)

    return {plain(key): None if value is None else plain(value) for key, value in _pairs(text)}


def _pairs(text: str) -> list[tuple[str, str | None]]:
    return [(found[1], found[2]) for found in _HSTORE.finditer(text)]


_MAKERS: dict[str, Callable[[int, Modes], Codec]] = {
    "bool": _number(Schema(schemas.BOOLEAN), is_true, False),
    "int2": _number(schemas.integer(16), int, 0),
    "int4": _number(schemas.integer(32), int, 0),
    "int8": _number(schemas.integer(64), int, 0),
    "oid": _number(schemas.integer(64), int, 0),
    "float4": _number(Schema(schemas.FLOAT32), float, 0.0),
    "float8": _number(Schema(schemas.FLOAT64), float, 0.0),
    "numeric": _numeric,
    "money": _money,
    "date": _date,
    "time": _time,
    "timetz": _zoned_time,
    "timestamp": _timestamp,
    "timestamptz": _zoned_timestamp,
    "interval": _interval,
    "bytea": _bytea,
    "bit": _bit,
    "varbit": _varbit,
    "point": _number(_POINT, _point, {"x": 0.0, "y": 0.0, "wkb": None, "srid": None}),
    "hstore": _hstore,
}
