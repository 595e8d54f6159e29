"""Connect's schemas: what a value is, so that converters write for it what Java's converters write.

Values are plain Python: int, float, bool, str, bytes, list, dict. A struct is a dict with its fields by name. The
logical types hold `decimal.Decimal`, `datetime.date`, `datetime.time` (no zone) and `datetime.datetime` (UTC).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_PREC, Context, Decimal
from typing import Any

from ottla.connect.errors import DataError, TimeOutOfRange

INT8, INT16, INT32, INT64 = "INT8", "INT16", "INT32", "INT64"
FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES = "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES"
ARRAY, MAP, STRUCT = "ARRAY", "MAP", "STRUCT"
INTEGERS = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}
PRIMITIVES = frozenset({*INTEGERS, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES})

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
LOGICAL = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})
SCALE = "scale"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_ANY_LENGTH = Context(prec=MAX_PREC)
_PYTHON: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(INTEGERS, (int,)),
    FLOAT32: (float,),
    FLOAT64: (float,),
    BOOLEAN: (bool,),
    STRING: (str,),
    BYTES: (bytes,),
    ARRAY: (list, tuple),
    MAP: (dict,),
    STRUCT: (dict,),
}


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: "Schema"


@dataclass(frozen=True, slots=True)
class Schema:
    """`type` is one of Connect's; a logical type is told by `name`. `default` counts if `has_default`."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = field(default=None, hash=False)
    fields: tuple[Field, ...] = ()
    keys: "Schema | None" = None  # of a map
    values: "Schema | None" = None  # of a map's values, of an array's elements
    default: Any = field(default=None, hash=False)
    has_default: bool = False

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)

    def as_optional(self, optional: bool = True) -> "Schema":
        return replace(self, optional=optional)

    @property
    def logical(self) -> str | None:
        return self.name if self.name in LOGICAL else None


def integer(bits: int = 32, **more: Any) -> Schema:
    return Schema(f"INT{bits}", **more)


def string(**more: Any) -> Schema:
    return Schema(STRING, **more)


def struct(name: str | None, fields: Mapping[str, Schema], **more: Any) -> Schema:
    return Schema(
        STRUCT,
        name=name,
        fields=tuple(Field(key, field_schema) for key, field_schema in fields.items()),
        **more,
    )


def array(values: Schema, **more: Any) -> Schema:
    return Schema(ARRAY, values=values, **more)


def map_of(keys: Schema, values: Schema, **more: Any) -> Schema:
    return Schema(MAP, keys=keys, values=values, **more)


def decimal(scale: int, **more: Any) -> Schema:
    return Schema(BYTES, name=DECIMAL, version=1, parameters={SCALE: str(scale)}, **more)


def day(**more: Any) -> Schema:
    return Schema(INT32, name=DATE, version=1, **more)


def time_of_day(**more: Any) -> Schema:
    return Schema(INT32, name=TIME, version=1, **more)


def timestamp(**more: Any) -> Schema:
    return Schema(INT64, name=TIMESTAMP, version=1, **more)


# -- logical values <-> what is stored -------------------------------------------------------------


def to_stored(schema: Schema, value: Any) -> Any:
    """The integer or bytes behind a logical value."""
    match schema.logical:
        case "org.apache.kafka.connect.data.Decimal":
            return decimal_bytes(value, int((schema.parameters or {})[SCALE]))
        case "org.apache.kafka.connect.data.Date":
            return (value - _EPOCH_DAY).days
        case "org.apache.kafka.connect.data.Time":
            whole = (value.hour * 60 + value.minute) * 60 + value.second
            return whole * 1000 + value.microsecond // 1000
        case "org.apache.kafka.connect.data.Timestamp":
            return millis(value)
        case _:
            return value


def from_stored(schema: Schema, stored: Any) -> Any:
    match schema.logical:
        case "org.apache.kafka.connect.data.Decimal":
            return decimal_from(stored, int((schema.parameters or {})[SCALE]))
        case "org.apache.kafka.connect.data.Date":
            return moment(stored * 86_400_000).date()
        case "org.apache.kafka.connect.data.Time":
            return moment(stored).time()
        case "org.apache.kafka.connect.data.Timestamp":
            return moment(stored)
        case _:
            return stored


def millis(value: datetime) -> int:
    """Since 1970, downwards to a whole one."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def moment(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise TimeOutOfRange(f"{milliseconds} ms since 1970 is not within the years 1 to 9999") from None


def decimal_bytes(value: Decimal, scale: int) -> bytes:
    """The unscaled number, big-endian, in as few bytes as it takes."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent != scale:
        raise DataError(
            f"Decimal value has mismatching scale for given Decimal schema: {value}, scale {scale}"
        )
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def rescaled(value: Decimal, scale: int) -> Decimal:
    """With as many digits behind the point; of any length, which the usual context has not."""
    return value.quantize(Decimal(1).scaleb(-scale), context=_ANY_LENGTH)


def decimal_from(stored: bytes, scale: int) -> Decimal:
    unscaled = int.from_bytes(stored, "big", signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return Decimal((int(unscaled < 0), digits, -scale))


# -- checks and guesses ----------------------------------------------------------------------------


def check(schema: Schema, value: Any, where: str = "value") -> None:
    """Refuses a value that its schema does not describe."""
    if value is None:
        if not schema.optional and not schema.has_default:
            raise DataError(
                f'Invalid value: null used for required field: "{where}", schema type: {schema.type}'
            )
        return
    if not _fits(schema, value):
        raise DataError(f"Invalid value for {where}: {type(value).__name__} where {schema.type} is wanted")
    if schema.logical is None and schema.type in INTEGERS:
        bits = INTEGERS[schema.type]
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise DataError(f"Invalid value for {where}: {value} does not fit {schema.type}")
    elif schema.type == STRUCT:
        for field in schema.fields:
            check(field.schema, value.get(field.name), field.name)
    elif schema.type == ARRAY and schema.values is not None:
        for element in value:
            check(schema.values, element, f"{where}[]")
    elif schema.type == MAP and schema.keys is not None and schema.values is not None:
        for key, element in value.items():
            check(schema.keys, key, f"{where} key")
            check(schema.values, element, f"{where} value")


def _fits(schema: Schema, value: Any) -> bool:
    logical: dict[str, type] = {DECIMAL: Decimal, DATE: date, TIME: time, TIMESTAMP: datetime}
    expected = (logical[schema.logical],) if schema.logical else _PYTHON[schema.type]
    return isinstance(value, expected) and (schema.type == BOOLEAN or not isinstance(value, bool))


def guess(value: Any) -> Schema | None:
    """The schema that Java's Connect takes for a value without one; None for null, list and dict."""
    match value:
        case bool():
            return Schema(BOOLEAN)
        case int():
            return Schema(INT64)
        case float():
            return Schema(FLOAT64)
        case str():
            return Schema(STRING)
        case bytes():
            return Schema(BYTES)
        case datetime():
            return timestamp()
        case date():
            return day()
        case time():
            return time_of_day()
        case Decimal():
            exponent = value.as_tuple().exponent
            return decimal(-exponent if isinstance(exponent, int) else 0)
        case _:
            return None
