"""JsonSchemaConverter: Connect's schemas as JSON Schemas, with the marks that Confluent's converter leaves."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.connect import schema as s
from ottla.connect.converters.json import JsonConverter
from ottla.connect.converters.json_reading import JsonReader
from ottla.connect.converters.registered import RegisteredConverter
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema
from ottla.serialization.registry_client import RegisteredSchema

_PLAIN = {
    **dict.fromkeys(s.INTEGERS, "integer"), s.FLOAT32: "number", s.FLOAT64: "number", s.BOOLEAN: "boolean",
    s.STRING: "string", s.BYTES: "string",
}  # fmt: skip
_TYPES = {"integer": s.INT64, "number": s.FLOAT64, "boolean": s.BOOLEAN, "string": s.STRING}
_READERS_SIZE = 1000


class JsonSchemaConverter(RegisteredConverter):
    schema_type = "JSON"

    def __init__(self, settings: Mapping[str, Any], *, is_key: bool) -> None:
        super().__init__(settings, is_key=is_key)
        self._json = JsonConverter({**settings, "schemas.enable": "false"})
        self._values = JsonReader(_READERS_SIZE, defaults=True)

    def _prepared(self, schema: Schema) -> Any:
        return json.dumps(self.to_json_schema(schema))

    def _text(self, prepared: Any) -> str:
        return str(prepared)

    def _payload(self, prepared: Any, schema: Schema, value: Any) -> bytes:
        return self._json.payload(schema, value).encode("utf-8", "surrogatepass")

    def _reader(self, registered: RegisteredSchema) -> Any:
        return from_json_schema(json.loads(registered.schema), self._values)

    def _value(self, reader: Any, data: bytes, at: int) -> tuple[Schema | None, Any]:
        return reader, self._values.value(reader, json.loads(data[at:]))

    def to_json_schema(self, schema: Schema, index: int | None = None) -> dict[str, Any]:
        document = self._described(schema)
        if index is not None:
            document["connect.index"] = index
        if not schema.optional:
            return document
        extras = {name: document.pop(name) for name in ("connect.index",) if name in document}
        return {"oneOf": [{"type": "null"}, document], **extras}

    def _described(self, schema: Schema) -> dict[str, Any]:
        document: dict[str, Any]
        if schema.type == s.STRUCT:
            fields = {
                field.name: self.to_json_schema(field.schema, i) for i, field in enumerate(schema.fields)
            }
            document = {"type": "object", "properties": fields}
        elif schema.type == s.ARRAY:
            assert schema.values is not None
            document = {"type": "array", "items": self.to_json_schema(schema.values)}
        elif schema.type == s.MAP:
            document = self._map(schema)
        else:
            is_number = schema.logical == s.DECIMAL and self._json.has_numbers
            document = {"type": "number" if is_number else _PLAIN[schema.type]}
            if schema.type not in (s.BOOLEAN, s.STRING):
                document["connect.type"] = schema.type.lower()
        return document | self._marks(schema)

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.keys is not None and schema.values is not None
        if schema.keys.type == s.STRING:
            return {
                "type": "object",
                "connect.type": "map",
                "additionalProperties": self.to_json_schema(schema.values),
            }
        pair = [self.to_json_schema(schema.keys), self.to_json_schema(schema.values)]
        return {"type": "array", "connect.type": "map", "items": {"type": "array", "prefixItems": pair}}

    def _marks(self, schema: Schema) -> dict[str, Any]:
        marks: dict[str, Any] = {}
        if schema.name is not None:
            marks["title"] = schema.name
        if schema.version is not None:
            marks["connect.version"] = schema.version
        if schema.doc is not None:
            marks["description"] = schema.doc
        if schema.parameters:
            marks["connect.parameters"] = dict(schema.parameters)
        if schema.has_default and schema.default is not None:
            marks["default"] = json.loads(self._json.payload(schema, schema.default))
        return marks


def from_json_schema(document: Any, values: JsonReader) -> Schema:
    """Connect's schema of a JSON Schema that a converter or a serializer of an ordinary class has written."""
    if not isinstance(document, dict):
        raise DataError("a JSON Schema without a type cannot be read: Connect has no such schema")
    optional = False
    for word in ("oneOf", "anyOf"):
        if word in document:
            rest = [branch for branch in document[word] if branch.get("type") != "null"]
            if len(rest) != 1:
                raise DataError(f"{word} of {len(rest)} types cannot be read: Connect has no such schema")
            optional = len(rest) < len(document[word])
            document = {**document, **rest[0]}
    kind = document.get("type")
    if isinstance(kind, list):
        rest = [name for name in kind if name != "null"]
        if len(rest) != 1:
            raise DataError(f"the types {kind} cannot be read: Connect has no such schema")
        optional, kind = len(rest) < len(kind), rest[0]
    schema = replace(
        _typed(document, kind, values),
        optional=optional,
        name=document.get("title"),
        version=document.get("connect.version"),
        doc=document.get("description"),
        parameters=document.get("connect.parameters"),
    )
    if document.get("default") is not None:
        schema = replace(schema, default=values.value(schema, document["default"]), has_default=True)
    return schema


def _typed(document: dict[str, Any], kind: Any, values: JsonReader) -> Schema:
    marked = str(document.get("connect.type", "")).upper()
    if marked == s.MAP and kind == "object":
        return s.map_of(s.string(), from_json_schema(document.get("additionalProperties"), values))
    if marked == s.MAP:
        key, value = (
            from_json_schema(prefix_item, values) for prefix_item in document["items"]["prefixItems"]
        )
        return s.map_of(key, value)
    if kind == "array":
        return s.array(from_json_schema(document.get("items"), values))
    if kind == "object":
        required = set(document.get("required", ()))
        fields = sorted(
            document.get("properties", {}).items(),
            key=lambda named_field: named_field[1].get("connect.index", len(document)),
        )
        return Schema(
            s.STRUCT,
            fields=tuple(_field(name, field_schema, required, values) for name, field_schema in fields),
        )
    if marked in s.PRIMITIVES:
        return Schema(marked)
    if kind not in _TYPES:
        raise DataError(f"the type {kind} of a JSON Schema cannot be read: Connect has no such schema")
    return Schema(_TYPES[kind])


def _field(name: str, document: dict[str, Any], required: set[str], values: JsonReader) -> Field:
    """A field that may be missing is optional; schemas of converters say so themselves, by `connect.index`."""
    schema = from_json_schema(document, values)
    is_open = "connect.index" not in document and name not in required
    return Field(name, schema.as_optional() if is_open else schema)
