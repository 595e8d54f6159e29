"""Values as Java writes them: numbers in JSON, and what `toString` gives."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from struct import pack, unpack
from typing import Any

from ottla.connect.schema import FLOAT32, Schema


def number(value: float, *, single: bool = False) -> str:
    """`Double.toString`, or `Float.toString` with `single`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    digits, exponent = _shortest(abs(value), single)
    sign = "-" if str(value).startswith("-") else ""
    if value == 0:
        return f"{sign}0.0"
    if -3 <= exponent < 7:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        padded = digits.ljust(exponent + 2, "0")
        return f"{sign}{padded[: exponent + 1]}.{padded[exponent + 1 :]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest(value: float, single: bool) -> tuple[str, int]:
    """Its digits, and the power of ten of the first one."""
    text = repr(value)
    if single:
        text = next(
            tried
            for places in range(1, 18)
            if to_single(float(tried := f"{value:.{places}g}")) == to_single(value)
        )
    _, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    plain = "".join(map(str, digits))
    return plain.rstrip("0") or "0", exponent + len(plain) - 1


def to_single(value: float) -> float:
    try:
        rounded: float = unpack(">f", pack(">f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def text(value: Any, schema: Schema | None = None) -> str:
    """`toString` of a value: what StringConverter writes."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return number(value, single=schema is not None and schema.type == FLOAT32)
        case Mapping() if schema is not None and schema.fields:
            shown = (
                f"{field.name}={text(value.get(field.name), field.schema)}"
                for field in schema.fields
                if value.get(field.name) is not None
            )
            return "Struct{" + ",".join(shown) + "}"
        case Mapping():
            keys, values = (schema.keys, schema.values) if schema else (None, None)
            return "{" + ", ".join(f"{text(k, keys)}={text(v, values)}" for k, v in value.items()) + "}"
        case str() | bytes():
            return value if isinstance(value, str) else repr(value)
        case Sequence():
            inner = schema.values if schema else None
            return "[" + ", ".join(text(item, inner) for item in value) + "]"
        case _:
            return str(value)
