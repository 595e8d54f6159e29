"""JsonConverter: with an envelope of schema and payload (`schemas.enable`, the default), or without."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from json.encoder import encode_basestring as quoted
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]
import pyarrow.compute as pc  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.connect import java_text
from ottla.connect import schema as s
from ottla.connect.converters.json_columns import escaped, parts_of
from ottla.connect.converters.json_reading import NAMES, Exact, JsonReader, plain_floats
from ottla.connect.errors import DataError
from ottla.connect.schema import Schema

Writer = Callable[[Any], str]
_WRITERS_MAX = 10_000
_NOT_AN_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)
_SPECIAL = r'[\x00-\x1f"\\]'  # what JSON writes with a backslash
_STRING_HEAD = '{"schema":{"type":"string","optional":false},"payload":"'


class JsonConverter:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._schemas = str(settings.get("schemas.enable", "true")).lower() == "true"
        self._numeric = str(settings.get("decimal.format", "BASE64")).upper() == "NUMERIC"
        self._defaults = str(settings.get("replace.null.with.default", "true")).lower() == "true"
        size = int(settings.get("schemas.cache.size", 1000))
        # By identity first: comparing schemas of a hundred fields costs more than writing one.
        self._written: dict[int, tuple[Schema, str]] = {}
        self._writers: dict[int, tuple[Schema, Writer]] = {}
        self._reader = JsonReader(size, defaults=self._defaults)

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
        parts = [f'"type":"{NAMES[schema.type]}"']
        if schema.type == s.ARRAY and schema.values is not None:
            parts.append(f'"items":{self._schema_text(schema.values)}')
        elif schema.type == s.MAP and schema.keys is not None and schema.values is not None:
            parts.append(f'"keys":{self._schema_text(schema.keys)}')
            parts.append(f'"values":{self._schema_text(schema.values)}')
        elif schema.type == s.STRUCT:
            inner = ",".join(self._schema_text(field.schema, field.name) for field in schema.fields)
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
        return self._schemaless(value) if schema is None else self._writer(schema)(value)

    def _writer(self, schema: Schema) -> Writer:
        """A function for each schema, made once: to look at a schema for each value takes longer than to write it."""
        known = self._writers.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._writers) > _WRITERS_MAX:
                self._writers.clear()
            known = self._writers[id(schema)] = schema, self._made_writer(schema)
        return known[1]

    def _made_writer(self, schema: Schema) -> Writer:
        inner: Writer
        if schema.logical is not None:
            inner = partial(self._logical, schema)
        elif schema.type == s.STRUCT:
            inner = self._struct_writer(schema)
        elif schema.type == s.ARRAY:
            inner = self._array_writer(schema)
        elif schema.type == s.MAP:
            inner = self._map_writer(schema)
        else:
            inner = _WRITERS[schema.type]
        null = self._null(schema)

        def write(value: Any) -> str:
            if value is None:
                if null is None:
                    raise DataError(
                        "Conversion error: null value for field that is required and has no default value"
                    )
                return null
            try:
                return inner(value)
            except (TypeError, AttributeError, ValueError) as error:
                raise DataError(f"Invalid type for {schema.type}: {type(value).__name__}") from error

        return write

    def _null(self, schema: Schema) -> str | None:
        """What stands for a null; None if there is nothing."""
        if schema.has_default and schema.default is not None and self._defaults:
            return self._made_writer(replace(schema, default=None, has_default=False))(schema.default)
        return "null" if schema.optional else None

    def _struct_writer(self, schema: Schema) -> Writer:
        fields = [
            (field.name, f"{quoted(field.name)}:", self._writer(field.schema)) for field in schema.fields
        ]

        def write(value: Any) -> str:
            get = value.get
            return "{" + ",".join([head + inner(get(name)) for name, head, inner in fields]) + "}"

        return write

    def _array_writer(self, schema: Schema) -> Writer:
        inner = self._schemaless if schema.values is None else self._writer(schema.values)
        return lambda value: "[" + ",".join([inner(item) for item in value]) + "]"

    def _map_writer(self, schema: Schema) -> Writer:
        assert schema.keys is not None and schema.values is not None
        keys, values = self._writer(schema.keys), self._writer(schema.values)
        if schema.keys.type == s.STRING:
            return lambda value: "{" + ",".join([f"{quoted(k)}:{values(v)}" for k, v in value.items()]) + "}"
        return lambda value: "[" + ",".join([f"[{keys(k)},{values(v)}]" for k, v in value.items()]) + "]"

    def _logical(self, schema: Schema, value: Any) -> str:
        if schema.name == s.DECIMAL and self._numeric and isinstance(value, Decimal):
            return format(value, "f") if "E" not in str(value) else str(value)
        try:
            stored = s.to_stored(schema, value)
        except (TypeError, AttributeError) as error:
            raise DataError(f"Invalid type for {schema.name}: {type(value).__name__}") from error
        return _bytes(stored) if isinstance(stored, bytes) else str(stored)

    def _schemaless(self, value: Any) -> str:
        plain = _PLAIN.get(type(value))
        if plain is not None:
            return plain(value)
        match value:
            case list() | tuple():
                return "[" + ",".join([self._schemaless(item) for item in value]) + "]"
            case dict() if all(isinstance(key, str) for key in value):
                return "{" + ",".join([f"{quoted(k)}:{self._schemaless(v)}" for k, v in value.items()]) + "}"
            case dict():
                pairs = [f"[{self._schemaless(k)},{self._schemaless(v)}]" for k, v in value.items()]
                return "[" + ",".join(pairs) + "]"
            case _:
                guessed = s.guess(value)
                if guessed is None:
                    raise DataError(
                        f"Java class {type(value).__name__} does not have corresponding schema type."
                    )
                return self._writer(guessed)(value)

    # -- from JSON ---------------------------------------------------------------------------------

    def to_value(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            parsed = json.loads(data, parse_float=Exact if self._schemas else float)
        except (ValueError, RecursionError) as error:
            raise DataError(
                "Converting byte[] to Kafka Connect data failed due to serialization error: "
            ) from error
        if not self._schemas:
            return None, parsed
        if not isinstance(parsed, dict) or parsed.keys() != {"schema", "payload"}:
            raise DataError(_NOT_AN_ENVELOPE)
        if parsed["schema"] is None:
            return None, plain_floats(parsed["payload"])
        schema = self._reader.schema(json.dumps(parsed["schema"], default=str))
        return schema, self._reader.value(schema, parsed["payload"])

    # -- columns -----------------------------------------------------------------------------------

    def from_column(self, topic: str, values: Any) -> Any:
        """Columns of strings without nulls, unless one has a control character that needs more than a backslash."""
        if not pa.types.is_string(values.type) or values.null_count:
            return None
        texts = escaped(values)
        if texts is None:
            return None
        head, tail = (_STRING_HEAD, '"}') if self._schemas else ('"', '"')
        return pc.binary_join_element_wise(head, texts, tail, "").cast(pa.binary())

    def from_tree(self, schema: Schema, tree: Any) -> Any:
        """The JSON of records whose fields are columns, or values that all of them have; None where a field must be
        looked at record by record."""
        head = f'{{"schema":{self.schema_text(schema)},"payload":' if self._schemas else ""
        parts = parts_of(schema, tree)
        if parts is None or all(isinstance(part, str) for part in parts):
            return None
        return pc.binary_join_element_wise(head, *parts, "}" if self._schemas else "", "").cast(pa.binary())

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


def _float(value: float, single: bool = False) -> str:
    written = java_text.number(value, single=single)
    return f'"{written}"' if written[-1] in "Ny" else written


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _write_bytes(value: Any) -> str:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(type(value).__name__)
    return _bytes(bytes(value))


def _write_integer(value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(type(value).__name__)
    return str(value)


def _write_boolean(value: Any) -> str:
    if not isinstance(value, bool):
        raise TypeError(type(value).__name__)
    return "true" if value else "false"


_WRITERS: dict[str, Writer] = {
    **dict.fromkeys(s.INTEGERS, _write_integer),
    s.FLOAT32: lambda value: _float(float(value), True),
    s.FLOAT64: lambda value: _float(float(value)),
    s.BOOLEAN: _write_boolean,
    s.STRING: quoted,
    s.BYTES: _write_bytes,
}
_PLAIN: dict[type, Writer] = {
    str: quoted,
    int: str,
    float: _float,
    bool: _write_boolean,
    bytes: _write_bytes,
    type(None): lambda value: "null",
}
