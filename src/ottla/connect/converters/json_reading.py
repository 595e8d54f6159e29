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
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str

    def __str__(self) -> str:
        return self.text


def plain_floats(document: Any) -> Any:
    match document:
        case Exact():
            return float(document)
        case list():
            return [plain_floats(item) for item in document]
        case dict():
            return {name: plain_floats(item) for name, item in document.items()}
        case _:
            return document


class JsonReader:
    """`schema` remembers the schemas of as many texts as it is told."""

    def __init__(self, size: int, *, defaults: bool) -> None:
        self._defaults = defaults
        self.schema = lru_cache(size)(self._schema_of)

    def _schema_of(self, text: str) -> Schema:
        return self.parse_schema(json.loads(text))

    def parse_schema(self, document: Any) -> Schema:
        if not isinstance(document, dict) or not isinstance(document.get("type"), str):
            raise DataError("Schema must contain 'type' field")
        kind = _TYPES.get(document["type"])
        if kind is None:
            raise DataError(f"Unknown schema type: {document['type']}")
        schema = Schema(
            kind,
            optional=bool(document.get("optional", False)),
            name=document.get("name"),
            version=document.get("version"),
            doc=document.get("doc"),
            parameters=document.get("parameters"),
            fields=self._fields(document) if kind == s.STRUCT else (),
            keys=self.parse_schema(document.get("keys")) if kind == s.MAP else None,
            values=self._inner(kind, document),
        )
        if document.get("default") is not None:
            schema = replace(schema, default=self.value(schema, document["default"]), has_default=True)
        return schema

    def _inner(self, kind: str, document: Any) -> Schema | None:
        if kind == s.ARRAY:
            if not isinstance(document.get("items"), dict):
                raise DataError("Array schema did not specify the element type")
            return self.parse_schema(document["items"])
        return self.parse_schema(document.get("values")) if kind == s.MAP else None

    def _fields(self, document: Any) -> tuple[Field, ...]:
        fields = document.get("fields")
        if not isinstance(fields, list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        if any(not isinstance(field, dict) or not isinstance(field.get("field"), str) for field in fields):
            raise DataError("Struct schema's field name not specified properly")
        return tuple(Field(field["field"], self.parse_schema(field)) for field in fields)

    def value(self, schema: Schema, document: Any) -> Any:
        if document is None:
            if schema.has_default and self._defaults:
                return schema.default
            if schema.optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type} field")
        try:
            stored = _READERS[schema.type](self, schema, document)
            return s.from_stored(schema, stored) if schema.logical else stored
        except (TypeError, AttributeError, ValueError, KeyError, OverflowError) as error:
            raise DataError(f"Invalid value for {schema.type}: {str(document)[:100]}") from error


def _read_integer(_: JsonReader, schema: Schema, document: Any) -> Any:
    if isinstance(document, bool) or not isinstance(document, (int, float)):
        raise TypeError(type(document).__name__)
    bits = s.INTEGERS[schema.type]
    whole = int(document)
    return (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # as Java's narrowing


def _read_float(_: JsonReader, schema: Schema, document: Any) -> Any:
    if isinstance(document, str) and document not in ("NaN", "Infinity", "-Infinity"):
        raise TypeError("a text")
    value = float(document)
    return java_text.to_single(value) if schema.type == s.FLOAT32 else value


def _read_string(_: JsonReader, schema: Schema, document: Any) -> Any:
    if not isinstance(document, str):
        raise TypeError(type(document).__name__)
    return document


def _read_boolean(_: JsonReader, schema: Schema, document: Any) -> Any:
    if not isinstance(document, bool):
        raise TypeError(type(document).__name__)
    return document


def _read_bytes(_: JsonReader, schema: Schema, document: Any) -> Any:
    if schema.name == s.DECIMAL and isinstance(document, (int, float)):
        return _decimal_bytes(schema, document)
    try:
        return base64.b64decode(document, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error


def _decimal_bytes(schema: Schema, document: Any) -> bytes:
    scale = int((schema.parameters or {})[s.SCALE])
    value = Decimal(str(document))
    return s.decimal_bytes(s.rescaled(value, scale), scale)


def _read_array(self: JsonReader, schema: Schema, document: Any) -> Any:
    if not isinstance(document, list) or schema.values is None:
        raise TypeError(type(document).__name__)
    return [self.value(schema.values, item) for item in document]


def _read_map(self: JsonReader, schema: Schema, document: Any) -> Any:
    assert schema.keys is not None and schema.values is not None
    if schema.keys.type == s.STRING:
        return {name: self.value(schema.values, item) for name, item in document.items()}
    return {self.value(schema.keys, key): self.value(schema.values, item) for key, item in document}


def _read_struct(self: JsonReader, schema: Schema, document: Any) -> Any:
    if not isinstance(document, dict):
        raise TypeError(type(document).__name__)
    return {field.name: self.value(field.schema, document.get(field.name)) for field in schema.fields}


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
