"""PostgreSQL's types as Debezium maps them: the schema of a column, and the value for the column's text.

Handling modes have Debezium's names. The schema and the parser of a column are found once; rows are parsed with them.
"""

from __future__ import annotations

import json
import re
import struct as packing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from ottla.connect import debezium_types
from ottla.connect import schema as schemas
from ottla.connect.postgres.arrays import parse_array
from ottla.connect.postgres.codecs import Codec, Modes, Parse
from ottla.connect.postgres.times import (
    date_codec,
    interval_codec,
    time_codec,
    timestamp_codec,
    zoned_time_codec,
    zoned_timestamp_codec,
)
from ottla.connect.schema import Schema

_NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
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


class Type(NamedTuple):
    """A row of pg_type, as far as it matters here."""

    oid: int
    name: str
    kind: str  # b: base, d: domain, e: enumeration, c: composite, r: range
    element: int  # of an array, else 0
    base: int  # of a domain, else 0
    modifier: int  # of a domain
    labels: tuple[str, ...]  # of an enumeration


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
        return _text(debezium_types.enumeration(kind.labels), modes)
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
    return _decimal(debezium_types.decimal(precision, scale), scale)


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


# -- the rest --------------------------------------------------------------------------------------


def _bytea(_modifier: int, modes: Modes) -> Codec:
    unavailable = modes.unavailable.encode()
    if modes.binary == "bytes":
        return Codec(Schema(schemas.BYTES), _from_hex, unavailable, b"")
    shown = debezium_types.BINARY_WRITERS[modes.binary]
    return Codec(schemas.string(), lambda text: shown(_from_hex(text)), shown(unavailable), "")


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(text[2:])  # \x...; the connection sets bytea_output


def _bit(modifier: int, _modes: Modes) -> Codec:
    if modifier == 1:
        return Codec(Schema(schemas.BOOLEAN), lambda text: text == "1", None, False)
    return _varbit(modifier, _modes)


def _varbit(modifier: int, _modes: Modes) -> Codec:
    length = modifier if modifier > 0 else _BITS_UNLIMITED
    return Codec(debezium_types.bits(length), _bits, None, b"")


def _bits(text: str) -> bytes:
    """The lowest byte first."""
    return int(text, 2).to_bytes((len(text) + 7) // 8, "little").rstrip(b"\0") or b"\0" if text else b""


def _point(text: str) -> dict[str, Any]:
    x, y = map(float, text[1:-1].split(","))
    return {"x": x, "y": y, "wkb": packing.pack("<BIdd", 1, 1, x, y), "srid": None}


def _hstore(_modifier: int, modes: Modes) -> Codec:
    if modes.hstore == "map":
        optional = schemas.string(optional=True)
        return Codec(schemas.map_of(schemas.string(), optional), hstore_pairs, None, {})
    write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return Codec(debezium_types.JSON, lambda text: write(hstore_pairs(text)), modes.unavailable, "{}")


_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', re.DOTALL)


def hstore_pairs(text: str) -> dict[str, str | None]:
    def plain(word: str) -> str:
        return re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL)

    return {plain(key): None if value is None else plain(value) for key, value in _pairs(text)}


def _pairs(text: str) -> list[tuple[str, str | None]]:
    return [(match[1], match[2]) for match in _HSTORE.finditer(text)]


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
    "date": date_codec,
    "time": time_codec,
    "timetz": zoned_time_codec,
    "timestamp": timestamp_codec,
    "timestamptz": zoned_timestamp_codec,
    "interval": interval_codec,
    "bytea": _bytea,
    "bit": _bit,
    "varbit": _varbit,
    "point": _number(debezium_types.POINT, _point, debezium_types.NO_POINT),
    "hstore": _hstore,
}
