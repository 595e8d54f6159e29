"""MariaDB's and MySQL's types as Debezium maps them: the schema of a column, and the value for a cell."""

from __future__ import annotations

import struct as packing
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from ottla.connect import debezium_types
from ottla.connect import schema as schemas
from ottla.connect.mysql.cells import Cell
from ottla.connect.schema import Schema

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
GEOMETRIES = frozenset({
    "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Modes:
    """How values of some types are written: Debezium's `*.handling.mode` settings."""

    decimals: str = "precise"
    times: str = "adaptive_time_microseconds"
    binary: str = "bytes"
    unsigned: str = "long"  # bigint.unsigned.handling.mode


@dataclass(frozen=True, slots=True)
class Type:
    """A column's type: `name` as in information_schema."""

    name: str
    is_unsigned: bool = False
    precision: int = 0  # digits of a decimal, bits of BIT
    scale: int = 0
    fraction: int = 0  # digits of a second's fraction
    labels: tuple[str, ...] = ()


class Codec(NamedTuple):
    """`schema` is not optional. `parse` gives None for what has no value: a day 0000-00-00."""

    schema: Schema
    parse: Callable[[Any], Any]
    zero: Any = None  # stands for NULL where NULL is not allowed


def codec(kind: Type, modes: Modes) -> Codec:
    name = kind.name
    if name in INTEGERS:
        return _integer(kind, modes)
    if name in BYTES:
        return _bytes(modes)
    if name in GEOMETRIES:
        return _POINT_CODEC if name == "point" else _GEOMETRY_CODEC
    if name in ("enum", "set"):
        tag = "io.debezium.data.Enum" if name == "enum" else "io.debezium.data.EnumSet"
        return Codec(debezium_types.enumeration(kind.labels, tag), str, "")
    if name == "json":
        return Codec(debezium_types.JSON, str, "{}")
    maker = _MAKERS.get(name)
    return maker(kind, modes) if maker else Codec(schemas.string(), str, "")


def _integer(kind: Type, modes: Modes) -> Codec:
    match kind.name, kind.is_unsigned:
        case ("tinyint", _) | ("smallint", False):
            bits = 16
        case ("smallint", True) | ("mediumint", _) | ("int", False):
            bits = 32
        case "bigint", True if modes.unsigned == "precise":
            return Codec(debezium_types.decimal(20, 0), lambda cell: Decimal(int(cell)), Decimal(0))
        case "bigint", True:
            return Codec(schemas.integer(64), _wrapped, 0)
        case _:
            bits = 64
    return Codec(schemas.integer(bits), int, 0)


def _wrapped(cell: Cell) -> int:
    """bigint.unsigned.handling.mode=long: as Java's long, greater numbers become negative."""
    number = int(cell)  # type: ignore[arg-type]
    return number - (1 << 64) if number >= 1 << 63 else number


def _float(_kind: Type, _modes: Modes) -> Codec:
    return Codec(Schema(schemas.FLOAT32), float, 0.0)


def _double(_kind: Type, _modes: Modes) -> Codec:
    return Codec(Schema(schemas.FLOAT64), float, 0.0)


def _decimal(kind: Type, modes: Modes) -> Codec:
    if modes.decimals == "string":
        return Codec(schemas.string(), str, "")
    if modes.decimals == "double":
        return Codec(Schema(schemas.FLOAT64), float, 0.0)
    schema = debezium_types.decimal(kind.precision, kind.scale)
    zero = schemas.rescaled(Decimal(0), kind.scale)
    return Codec(schema, lambda cell: schemas.rescaled(Decimal(cell), kind.scale), zero)


def _bytes(modes: Modes) -> Codec:
    if modes.binary == "bytes":
        return Codec(Schema(schemas.BYTES), bytes, b"")
    return Codec(schemas.string(), debezium_types.BINARY_WRITERS[modes.binary], "")


def _bit(kind: Type, _modes: Modes) -> Codec:
    if kind.precision == 1:
        return Codec(Schema(schemas.BOOLEAN), lambda cell: cell[-1:] == b"\1", False)
    return Codec(debezium_types.bits(kind.precision), lambda cell: cell[::-1], b"\0")  # the lowest byte first


# -- times -----------------------------------------------------------------------------------------


def _year(_kind: Type, _modes: Modes) -> Codec:
    return Codec(Schema(schemas.INT32, name="io.debezium.time.Year", version=1), int, 0)


def _date(_kind: Type, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.day(), _python_date, date(1970, 1, 1))
    return Codec(debezium_types.DATE, days_since_1970, 0)


def _python_date(text: str) -> date | None:
    days = days_since_1970(text)
    return None if days is None else date.fromordinal(days + debezium_types.EPOCH_ORDINAL)


def days_since_1970(text: str) -> int | None:
    """None for a day that is none: 0000-00-00, 2020-02-00."""
    try:
        return date.fromisoformat(text).toordinal() - debezium_types.EPOCH_ORDINAL
    except ValueError:
        return None


def _time(kind: Type, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.time_of_day(), _python_time, time(0))
    return Codec(debezium_types.MICRO_TIME, time_us, 0)


def time_us(text: str) -> int:
    """A time of the server is a span: of either sign, up to 838 hours."""
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    micros = int((fraction + "000000")[:6]) if fraction else 0
    return sign * (((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1_000_000 + micros)


def _python_time(text: str) -> time | None:
    """None for a span that is no time of a day."""
    micros = time_us(text)
    return (
        (datetime.min + timedelta(microseconds=micros)).time()
        if 0 <= micros < debezium_types.DAY_US
        else None
    )


def _datetime(kind: Type, modes: Modes) -> Codec:
    if modes.times == "connect":
        return Codec(schemas.timestamp(), _python_datetime, datetime(1970, 1, 1, tzinfo=UTC))
    if kind.fraction <= 3:
        return Codec(debezium_types.MILLI_TIMESTAMP, _datetime_ms, 0)
    return Codec(debezium_types.MICRO_TIMESTAMP, datetime_us, 0)


def datetime_us(text: str) -> int | None:
    try:
        return (datetime.fromisoformat(text) - debezium_types.EPOCH) // debezium_types.MICROSECOND
    except ValueError:
        return None


def _datetime_ms(text: str) -> int | None:
    micros = datetime_us(text)
    return None if micros is None else micros // 1000


def _python_datetime(text: str) -> datetime | None:
    millis = _datetime_ms(text)
    return None if millis is None else schemas.moment(millis)


def _timestamp(kind: Type, _modes: Modes) -> Codec:
    zero = "1970-01-01T00:00:00" + ("." + "0" * kind.fraction if kind.fraction else "") + "Z"
    return Codec(debezium_types.ZONED_TIMESTAMP, _zoned, zero)


def _zoned(text: str) -> str | None:
    """From the server's text in UTC."""
    return None if text.startswith("0000") else text.replace(" ", "T") + "Z"


# -- places ----------------------------------------------------------------------------------------

_GEOMETRY = schemas.struct(
    "io.debezium.data.geometry.Geometry",
    {"wkb": Schema(schemas.BYTES), "srid": Schema(schemas.INT32, optional=True)},
    version=1,
    doc="Geometry",
)


def _srid(cell: bytes) -> int | None:
    return int.from_bytes(cell[:4], "little") or None


def _point(cell: bytes) -> dict[str, Any]:
    order = "<" if cell[4] else ">"
    x, y = packing.unpack_from(f"{order}dd", cell, 9)
    return {"x": x, "y": y, "wkb": cell[4:], "srid": _srid(cell)}


_POINT_CODEC = Codec(debezium_types.POINT, _point, debezium_types.NO_POINT)
_GEOMETRY_CODEC = Codec(
    _GEOMETRY, lambda cell: {"wkb": cell[4:], "srid": _srid(cell)}, {"wkb": b"", "srid": None}
)

_MAKERS: dict[str, Callable[[Type, Modes], Codec]] = {
    "float": _float,
    "double": _double,
    "decimal": _decimal,
    "bit": _bit,
    "year": _year,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
}
