"""JSON with a schema beside it to values: what JsonConverter reads."""

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ottla.connect import java_text
from ottla.connect import schema as s
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema

NAMES = {
    s.BOOLEAN: "boolean", s.INT8: "int8", s.INT16: "int16", s.INT32: "int32", s.INT64: "int64", s.FLOAT32: "float",
    s.FLOAT64: "double", s.BYTES: "bytes", s.STRING: "string", s.ARRAY: "array", s.MAP: "map", s.STRUCT: "struct",
}  # fmt: skip
_TYPES = {name: kind for kind, name in NAMES.items()}


class Exact(float):
    """A fraction that remembers how it was written: a decimal must not go through a float."""

    def __new__(cls, text: str) -> "Exact":
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __str__(self) -> str:
        return self.text


def plain_floats(told: Any) -> Any:
    match told:
        case Exact():
            return float(told)
        case list():
            return [plain_floats(each) for each in told]
        case dict():
            return {name: plain_floats(each) for name, each in told.items()}
        case _:
            return told


class JsonReader:
    """`schema` remembers the schemas of as many texts as it is told."""

    def __init__(self, size: int, *, defaults: bool) -> None:
        self._defaults = defaults
        self.schema = lru_cache(size)(self._schema_of)

    def _schema_of(self, text: str) -> Schema:
        return self.parse_schema(json.loads(text))

    def parse_schema(self, told: Any) -> Schema:
        if not isinstance(told, dict) or not isinstance(told.get("type"), str):
            raise DataError("Schema must contain 'type' field")
        kind = _TYPES.get(told["type"])
        if kind is None:
            raise DataError(f"Unknown schema type: {told['type']}")
        schema = Schema(
            kind,
            optional=bool(told.get("optional", False)),
            name=told.get("name"),
            version=told.get("version"),
            doc=told.get("doc"),
            parameters=told.get("parameters"),
            fields=self._fields(told) if kind == s.STRUCT else (),
            keys=self.parse_schema(told.get("keys")) if kind == s.MAP else None,
            values=self._inner(kind, told),
        )
        if told.get("default") is not None:
            schema = replace(schema, default=self.value(schema, told["default"]), has_default=True)
        return schema

    def _inner(self, kind: str, told: Any) -> Schema | None:
        if kind == s.ARRAY:
            if not isinstance(told.get("items"), dict):
                raise DataError("Array schema did not specify the element type")
            return self.parse_schema(told["items"])
        return self.parse_schema(told.get("values")) if kind == s.MAP else None

    def _fields(self, told: Any) -> tuple[Field, ...]:
        fields = told.get("fields")
        if not isinstance(fields, list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        if any(not isinstance(each, dict) or not isinstance(each.get("field"), str) for each in fields):
            raise DataError("Struct schema's field name not specified properly")
        return tuple(Field(each["field"], self.parse_schema(each)) for each in fields)

    def value(self, schema: Schema, told: Any) -> Any:
        if told is None:
            if schema.has_default and self._defaults:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type} field")
        try:
            stored = _READERS[schema.type](self, schema, told)
            return s.from_stored(schema, stored) if schema.logical else stored
        except (TypeError, AttributeError, ValueError, KeyError, OverflowError) as error:
            raise DataError(f"Invalid value for {schema.type}: {str(told)[:100]}") from error


def _read_integer(_: JsonReader, schema: Schema, told: Any) -> Any:
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        raise TypeError(type(told).__name__)
    bits = s.INTEGERS[schema.type]
    whole = int(told)
    return (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # as Java's narrowing


def _read_float(_: JsonReader, schema: Schema, told: Any) -> Any:
    if isinstance(told, str) and told not in ("NaN", "Infinity", "-Infinity"):
        raise TypeError("a text")
    value = float(told)
    return java_text.to_single(value) if schema.type == s.FLOAT32 else value


def _read_string(_: JsonReader, schema: Schema, told: Any) -> Any:
    if not isinstance(told, str):
        raise TypeError(type(told).__name__)
    return told


def _read_boolean(_: JsonReader, schema: Schema, told: Any) -> Any:
    if not isinstance(told, bool):
        raise TypeError(type(told).__name__)
    return told


def _read_bytes(_: JsonReader, schema: Schema, told: Any) -> Any:
    if schema.name == s.DECIMAL and isinstance(told, (int, float)):
        return _decimal_bytes(schema, told)
    try:
        return base64.b64decode(told, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error


def _decimal_bytes(schema: Schema, told: Any) -> bytes:
    scale = int((schema.parameters or {})[s.SCALE])
    value = Decimal(str(told))
    return s.decimal_bytes(s.rescaled(value, scale), scale)


def _read_array(self: JsonReader, schema: Schema, told: Any) -> Any:
    if not isinstance(told, list) or schema.values is None:
        raise TypeError(type(told).__name__)
    return [self.value(schema.values, each) for each in told]


def _read_map(self: JsonReader, schema: Schema, told: Any) -> Any:
    assert schema.keys is not None and schema.values is not None
    if schema.keys.type == s.STRING:
        return {name: self.value(schema.values, each) for name, each in told.items()}
    return {self.value(schema.keys, key): self.value(schema.values, each) for key, each in told}


def _read_struct(self: JsonReader, schema: Schema, told: Any) -> Any:
    if not isinstance(told, dict):
        raise TypeError(type(told).__name__)
    return {each.name: self.value(each.schema, told.get(each.name)) for each in schema.fields}


_READERS: dict[str, Callable[[JsonReader, Schema, Any], Any]] = {
    **dict.fromkeys(s.INTEGERS, _read_integer),
    s.FLOAT32: _read_float,
    s.FLOAT64: _read_float,
    s.BOOLEAN: _read_boolean,
    s.STRING: _read_string,
    s.BYTES: _read_bytes,
    s.ARRAY: _read_array,
    s.MAP: _read_map,
    s.STRUCT: _read_struct,
}
