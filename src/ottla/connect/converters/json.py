"""JsonConverter: with an envelope of schema and payload (`schemas.enable`, the default), or without."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring as quoted
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import java_text
from ottla.connect import schema as s
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema

_NAMES = {
    s.BOOLEAN: "boolean", s.INT8: "int8", s.INT16: "int16", s.INT32: "int32", s.INT64: "int64", s.FLOAT32: "float",
    s.FLOAT64: "double", s.BYTES: "bytes", s.STRING: "string", s.ARRAY: "array", s.MAP: "map", s.STRUCT: "struct",
}  # fmt: skip
_TYPES = {name: kind for kind, name in _NAMES.items()}
_NOT_AN_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_SPECIAL = r'[\x00-\x1f"\\]'  # what JSON writes with a backslash
_CONTROL = r"[\x00-\x1f]"
_ESCAPED = (("\\", "\\\\"), ('"', '\\"'), ("\t", "\\t"))
_STRING_HEAD = '{"schema":{"type":"string","optional":false},"payload":"'


class JsonConverter:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._schemas = str(settings.get("schemas.enable", "true")).lower() == "true"
        self._numeric = str(settings.get("decimal.format", "BASE64")).upper() == "NUMERIC"
        self._defaults = str(settings.get("replace.null.with.default", "true")).lower() == "true"
        size = int(settings.get("schemas.cache.size", 1000))
        # By identity first: comparing schemas of a hundred fields costs more than writing one.
        self._written: dict[int, tuple[Schema, str]] = {}
        self._parse_schema = lru_cache(size)(self._parse_schema_text)

    @property
    def has_schemas(self) -> bool:
        return self._schemas

    @property
    def has_numbers(self) -> bool:
        """Decimals are numbers, not texts of bytes."""
        return self._numeric

    # -- to JSON -----------------------------------------------------------------------------------

    def from_value(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None and value is None:
            return None
        payload = self.payload(schema, value)
        if not self._schemas:
            return payload.encode("utf-8", "surrogatepass")
        head = "null" if schema is None else self.schema_text(schema)
        return f'{{"schema":{head},"payload":{payload}}}'.encode("utf-8", "surrogatepass")

    def schema_text(self, schema: Schema) -> str:
        known = self._written.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._written) > 1000:
                self._written.clear()
            known = self._written[id(schema)] = schema, self._schema_text(schema)
        return known[1]

    def _schema_text(self, schema: Schema, field: str | None = None) -> str:
        parts = [f'"type":"{_NAMES[schema.type]}"']
        if schema.type == s.ARRAY and schema.values is not None:
            parts.append(f'"items":{self._schema_text(schema.values)}')
        elif schema.type == s.MAP and schema.keys is not None and schema.values is not None:
            parts.append(f'"keys":{self._schema_text(schema.keys)}')
            parts.append(f'"values":{self._schema_text(schema.values)}')
        elif schema.type == s.STRUCT:
            inner = ",".join(self._schema_text(each.schema, each.name) for each in schema.fields)
            parts.append(f'"fields":[{inner}]')
        parts.append(f'"optional":{"true" if schema.optional else "false"}')
        if schema.name is not None:
            parts.append(f'"name":{quoted(schema.name)}')
        if schema.version is not None:
            parts.append(f'"version":{schema.version}')
        if schema.doc is not None:
            parts.append(f'"doc":{quoted(schema.doc)}')
        if schema.parameters is not None:
            pairs = ",".join(f"{quoted(name)}:{quoted(text)}" for name, text in schema.parameters.items())
            parts.append(f'"parameters":{{{pairs}}}')
        if schema.has_default and schema.default is not None:
            parts.append(f'"default":{self.payload(schema, schema.default)}')
        if field is not None:
            parts.append(f'"field":{quoted(field)}')
        return "{" + ",".join(parts) + "}"

    def payload(self, schema: Schema | None, value: Any) -> str:
        if schema is None:
            return self._schemaless(value)
        if value is None:
            if schema.has_default and schema.default is not None and self._defaults:
                return self.payload(schema, schema.default)
            if schema.optional:
                return "null"
            raise DataError(
                "Conversion error: null value for field that is required and has no default value"
            )
        if schema.logical is not None:
            return self._logical(schema, value)
        try:
            return _WRITERS[schema.type](self, schema, value)
        except (TypeError, AttributeError, ValueError) as error:
            raise DataError(f"Invalid type for {schema.type}: {type(value).__name__}") from error

    def _logical(self, schema: Schema, value: Any) -> str:
        if schema.name == s.DECIMAL and self._numeric and isinstance(value, Decimal):
            return format(value, "f") if "E" not in str(value) else str(value)
        try:
            stored = s.to_stored(schema, value)
        except (TypeError, AttributeError) as error:
            raise DataError(f"Invalid type for {schema.name}: {type(value).__name__}") from error
        return _bytes(stored) if isinstance(stored, bytes) else str(stored)

    def _schemaless(self, value: Any) -> str:
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case float():
                return _float(value)
            case str():
                return quoted(value)
            case bytes():
                return _bytes(value)
            case list() | tuple():
                return "[" + ",".join(map(self._schemaless, value)) + "]"
            case dict() if all(isinstance(key, str) for key in value):
                return "{" + ",".join(f"{quoted(k)}:{self._schemaless(v)}" for k, v in value.items()) + "}"
            case dict():
                pairs = (f"[{self._schemaless(k)},{self._schemaless(v)}]" for k, v in value.items())
                return "[" + ",".join(pairs) + "]"
            case _:
                guessed = s.guess(value)
                if guessed is None:
                    raise DataError(
                        f"Java class {type(value).__name__} does not have corresponding schema type."
                    )
                return self._logical(guessed, value)

    def _array(self, schema: Schema, value: Any) -> str:
        return "[" + ",".join(self.payload(schema.values, each) for each in value) + "]"

    def _map(self, schema: Schema, value: Any) -> str:
        assert schema.keys is not None
        if schema.keys.type == s.STRING:
            return (
                "{"
                + ",".join(f"{quoted(k)}:{self.payload(schema.values, v)}" for k, v in value.items())
                + "}"
            )
        pairs = (
            f"[{self.payload(schema.keys, k)},{self.payload(schema.values, v)}]" for k, v in value.items()
        )
        return "[" + ",".join(pairs) + "]"

    def _struct(self, schema: Schema, value: Any) -> str:
        get = value.get
        parts = [f"{quoted(each.name)}:{self.payload(each.schema, get(each.name))}" for each in schema.fields]
        return "{" + ",".join(parts) + "}"

    # -- from JSON ---------------------------------------------------------------------------------

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            parsed = json.loads(data, parse_float=_exact if self._schemas else float)
        except (ValueError, RecursionError) as error:
            raise DataError(
                "Converting byte[] to Kafka Connect data failed due to serialization error: "
            ) from error
        if not self._schemas:
            return None, parsed
        if not isinstance(parsed, dict) or parsed.keys() != {"schema", "payload"}:
            raise DataError(_NOT_AN_ENVELOPE)
        if parsed["schema"] is None:
            return None, _floats(parsed["payload"])
        schema = self._parse_schema(json.dumps(parsed["schema"], default=str))
        return schema, self._value(schema, parsed["payload"])

    def _parse_schema_text(self, text: str) -> Schema:
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
            schema = replace(schema, default=self._value(schema, _reread(told["default"])), has_default=True)
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

    def _value(self, schema: Schema, told: Any) -> Any:
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

    # -- columns -----------------------------------------------------------------------------------

    def from_column(self, topic: str, values: Any) -> Any:
        """Columns of strings without nulls, unless one has a control character that needs more than a backslash."""
        if not pa.types.is_string(values.type) or values.null_count:
            return None
        for plain, escaped in _ESCAPED:
            values = pc.replace_substring(values, plain, escaped)
        if pc.any(pc.match_substring_regex(values, _CONTROL)).as_py():
            return None
        head, tail = (_STRING_HEAD, '"}') if self._schemas else ('"', '"')
        return pc.binary_join_element_wise(head, values, tail, "").cast(pa.binary())

    def to_column(self, topic: str, data: Any) -> Any:
        """Columns that `from_column` would write, without anything to unescape."""
        if data.null_count or not len(data):
            return None
        try:
            texts = data.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        head, tail = (_STRING_HEAD, '"}') if self._schemas else ('"', '"')
        inner = pc.utf8_slice_codeunits(texts, len(head), -len(tail))
        fits = pc.and_(pc.starts_with(texts, head), pc.ends_with(texts, tail))
        special = pc.match_substring_regex(inner, _SPECIAL)
        return inner if pc.all(pc.and_not(fits, special)).as_py() else None


def _exact(text: str) -> Any:
    return _Exact(text)


class _Exact(float):
    """A fraction that remembers how it was written: a decimal must not go through a float."""

    def __new__(cls, text: str) -> "_Exact":
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __str__(self) -> str:
        return self.text


def _floats(told: Any) -> Any:
    match told:
        case _Exact():
            return float(told)
        case list():
            return [_floats(each) for each in told]
        case dict():
            return {name: _floats(each) for name, each in told.items()}
        case _:
            return told


def _reread(told: Any) -> Any:
    return told


def _float(value: float, single: bool = False) -> str:
    written = java_text.number(value, single=single)
    return f'"{written}"' if written[-1] in "Ny" else written


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _write_bytes(_: JsonConverter, schema: Schema, value: Any) -> str:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(type(value).__name__)
    return _bytes(bytes(value))


def _write_integer(_: JsonConverter, schema: Schema, value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(type(value).__name__)
    return str(value)


def _write_float(_: JsonConverter, schema: Schema, value: Any) -> str:
    return _float(float(value), schema.type == s.FLOAT32)


def _write_boolean(_: JsonConverter, schema: Schema, value: Any) -> str:
    if not isinstance(value, bool):
        raise TypeError(type(value).__name__)
    return "true" if value else "false"


_WRITERS: dict[str, Callable[[JsonConverter, Schema, Any], str]] = {
    **dict.fromkeys(s.INTEGERS, _write_integer),
    s.FLOAT32: _write_float,
    s.FLOAT64: _write_float,
    s.BOOLEAN: _write_boolean,
    s.STRING: lambda _, schema, value: quoted(value),
    s.BYTES: _write_bytes,
    s.ARRAY: JsonConverter._array,
    s.MAP: JsonConverter._map,
    s.STRUCT: JsonConverter._struct,
}


def _read_integer(_: JsonConverter, schema: Schema, told: Any) -> Any:
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        raise TypeError(type(told).__name__)
    bits = s.INTEGERS[schema.type]
    whole = int(told)
    return (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)  # as Java's narrowing


def _read_float(_: JsonConverter, schema: Schema, told: Any) -> Any:
    if isinstance(told, str) and told not in ("NaN", "Infinity", "-Infinity"):
        raise TypeError("a text")
    value = float(told)
    return java_text.to_single(value) if schema.type == s.FLOAT32 else value


def _read_string(_: JsonConverter, schema: Schema, told: Any) -> Any:
    if not isinstance(told, str):
        raise TypeError(type(told).__name__)
    return told


def _read_boolean(_: JsonConverter, schema: Schema, told: Any) -> Any:
    if not isinstance(told, bool):
        raise TypeError(type(told).__name__)
    return told


def _read_bytes(_: JsonConverter, schema: Schema, told: Any) -> Any:
    if schema.name == s.DECIMAL and isinstance(told, (int, float)):
        return _decimal_bytes(schema, told)
    try:
        return base64.b64decode(told, validate=True)
    except binascii.Error as error:
        raise ValueError("not base64") from error


def _decimal_bytes(schema: Schema, told: Any) -> bytes:
    scale = int((schema.parameters or {})[s.SCALE])
    value = Decimal(str(told))
    return s.decimal_bytes(value.quantize(Decimal(1).scaleb(-scale)), scale)


def _read_array(self: JsonConverter, schema: Schema, told: Any) -> Any:
    if not isinstance(told, list) or schema.values is None:
        raise TypeError(type(told).__name__)
    return [self._value(schema.values, each) for each in told]


def _read_map(self: JsonConverter, schema: Schema, told: Any) -> Any:
    assert schema.keys is not None and schema.values is not None
    if schema.keys.type == s.STRING:
        return {name: self._value(schema.values, each) for name, each in told.items()}
    return {self._value(schema.keys, key): self._value(schema.values, each) for key, each in told}


def _read_struct(self: JsonConverter, schema: Schema, told: Any) -> Any:
    if not isinstance(told, dict):
        raise TypeError(type(told).__name__)
    return {each.name: self._value(each.schema, told.get(each.name)) for each in schema.fields}


_READERS: dict[str, Callable[[JsonConverter, Schema, Any], Any]] = {
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
