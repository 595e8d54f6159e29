"""AvroConverter: Connect's schemas as Avro's, with the marks that Confluent's converter leaves (`connect.*`)."""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import fastavro

from ottla.connect import schema as s
from ottla.connect.converters.registered import RegisteredConverter
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema
from ottla.serialization.avro import check_of, parsed
from ottla.serialization.registry_client import RegisteredSchema

_PLAIN = {
    s.INT8: "int", s.INT16: "int", s.INT32: "int", s.INT64: "long", s.FLOAT32: "float", s.FLOAT64: "double",
    s.BOOLEAN: "boolean", s.STRING: "string", s.BYTES: "bytes",
}  # fmt: skip
_TYPES = {
    "int": s.INT32, "long": s.INT64, "float": s.FLOAT32, "double": s.FLOAT64, "boolean": s.BOOLEAN, "string": s.STRING,
    "bytes": s.BYTES, "enum": s.STRING, "fixed": s.BYTES,
}  # fmt: skip
_LOGICAL = {s.DECIMAL: "decimal", s.DATE: "date", s.TIME: "time-millis", s.TIMESTAMP: "timestamp-millis"}
_FROM_LOGICAL = {name: kind for kind, name in _LOGICAL.items()}
_DEFAULT_NAME = "io.confluent.connect.avro.ConnectDefault"
_ENTRY = "io.confluent.connect.avro.MapEntry"
_DECIMAL_DIGITS = 64  # Confluent's, where Connect's schema says nothing
Convert = Callable[[Any], Any]


class AvroConverter(RegisteredConverter):
    schema_type = "AVRO"

    def _prepared(self, schema: Schema) -> Any:
        avro_schema = to_avro(schema)
        writer = fastavro.parse_schema(_without_logical(avro_schema))
        return json.dumps(avro_schema), writer, _writer(schema)

    def _text(self, prepared: Any) -> str:
        return str(prepared[0])

    def _payload(self, prepared: Any, schema: Schema, value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, prepared[1], prepared[2](value))
        return out.getvalue()

    def _reader(self, registered: RegisteredSchema) -> Any:
        whole = parsed(self._registry, registered, {})  # with everything that it refers to
        named = whole.get("__named_schemas", {}) if isinstance(whole, dict) else {}
        schema = from_avro(json.loads(registered.schema), named)
        return (
            schema,
            fastavro.parse_schema(_without_logical(json.loads(registered.schema))),
            _reader_of(schema),
            check_of(self._registry, registered),
        )

    def _value(self, reader: Any, data: bytes, at: int) -> tuple[Schema | None, Any]:
        schema, writer, convert, check = reader
        if check is not None and (fault := check.fault(data[at:])):
            raise DataError(f"the value is not what its schema says: {fault}")
        source = io.BytesIO(data)
        source.seek(at)
        return schema, convert(fastavro.schemaless_reader(source, writer, None))


# -- schemas ---------------------------------------------------------------------------------------


def to_avro(schema: Schema, known: set[str] | None = None) -> Any:
    """A record is described where it comes first, and named where it comes again."""
    names = set() if known is None else known
    avro_schema = _described(schema, names)
    if not schema.optional:
        return avro_schema
    if schema.has_default and schema.default is not None:
        return [avro_schema, "null"]
    return ["null", avro_schema]


def _described(schema: Schema, names: set[str]) -> Any:
    avro_schema: dict[str, Any]
    if schema.type == s.STRUCT:
        return _record(schema, names)
    if schema.type == s.ARRAY:
        assert schema.values is not None
        avro_schema = {"type": "array", "items": to_avro(schema.values, names)}
    elif schema.type == s.MAP:
        avro_schema = _map(schema, names)
    else:
        avro_schema = {"type": _PLAIN[schema.type]}
        if schema.type in (s.INT8, s.INT16):
            avro_schema["connect.type"] = schema.type.lower()
    avro_schema |= _marks(schema)
    if schema.logical == s.DECIMAL:
        parameters = schema.parameters or {}
        avro_schema["scale"] = int(parameters[s.SCALE])
        avro_schema["precision"] = int(parameters.get("connect.decimal.precision", _DECIMAL_DIGITS))
    if schema.logical is not None:
        avro_schema["logicalType"] = _LOGICAL[schema.logical]
    return avro_schema["type"] if len(avro_schema) == 1 else avro_schema


def _marks(schema: Schema) -> dict[str, Any]:
    """What Avro has no place for."""
    marks: dict[str, Any] = {}
    if schema.version is not None:
        marks["connect.version"] = schema.version
    if schema.parameters:
        marks["connect.parameters"] = dict(schema.parameters)
    if schema.doc is not None and schema.type != s.STRUCT:
        marks["connect.doc"] = schema.doc
    if schema.has_default and schema.default is not None:
        marks["connect.default"] = _default(schema)
    if schema.name is not None:
        marks["connect.name"] = schema.name
    return marks


def _record(schema: Schema, names: set[str]) -> Any:
    full = schema.name or _DEFAULT_NAME
    if full in names:
        return full
    names.add(full)
    namespace, _, name = full.rpartition(".")
    avro_schema: dict[str, Any] = {"type": "record", "name": name}
    if namespace:
        avro_schema["namespace"] = namespace
    if schema.doc is not None:
        avro_schema["doc"] = schema.doc
    avro_schema["fields"] = [_field(field, names) for field in schema.fields]
    return avro_schema | _marks(schema)


def _field(field: Field, names: set[str]) -> dict[str, Any]:
    avro_schema = {"name": field.name, "type": to_avro(field.schema, names)}
    if field.schema.has_default and field.schema.default is not None:
        avro_schema["default"] = _default(field.schema)
    elif field.schema.optional:
        avro_schema["default"] = None
    return avro_schema


def _default(schema: Schema) -> Any:
    """As JSON: bytes are a text whose characters are the bytes."""
    stored = s.to_stored(schema, schema.default) if schema.logical else schema.default
    return _as_json(stored)


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list | tuple) else value


def _map(schema: Schema, names: set[str]) -> dict[str, Any]:
    assert schema.keys is not None and schema.values is not None
    if schema.keys.type == s.STRING and not schema.keys.optional:
        return {"type": "map", "values": to_avro(schema.values, names)}
    full = schema.name or _ENTRY
    if full in names:
        return {"type": "array", "items": full, "connect.type": "map"}
    names.add(full)
    namespace, _, name = full.rpartition(".")
    fields = [
        {"name": "key", "type": to_avro(schema.keys, names)},
        {"name": "value", "type": to_avro(schema.values, names)},
    ]
    items = {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": fields,
        "connect.internal.type": "MapEntry",
    }
    return {"type": "array", "items": items, "connect.type": "map"}


def _without_logical(avro_schema: Any) -> Any:
    """Values are stored here as Avro stores them: fastavro must not convert them again."""
    if isinstance(avro_schema, list):
        return [_without_logical(branch) for branch in avro_schema]
    if not isinstance(avro_schema, dict):
        return avro_schema
    return {
        key: _without_logical(part) if key in ("type", "items", "values", "fields") else part
        for key, part in avro_schema.items()
        if key not in ("logicalType", "__named_schemas", "__fastavro_parsed__")
    }


def from_avro(avro_schema: Any, named: Mapping[str, Any]) -> Schema:
    """Connect's schema of one of Avro's; recursive ones are not read."""
    return _Reading(named).schema(avro_schema, "")


class _Reading:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = dict(named)
        self._open: list[str] = []

    def schema(self, avro_schema: Any, namespace: str) -> Schema:
        if isinstance(avro_schema, list):
            return self._union(avro_schema, namespace)
        if isinstance(avro_schema, str):
            return self._by_name(avro_schema, namespace)
        kind = avro_schema["type"]
        if isinstance(kind, dict | list):
            return self.schema(kind, namespace)
        if kind == "record":
            return self._marked(avro_schema, self._record(avro_schema, namespace))
        if kind == "array" and avro_schema.get("connect.type") == "map":
            items = (
                avro_schema["items"]
                if isinstance(avro_schema["items"], dict)
                else self._named[avro_schema["items"]]
            )
            key, value = (self.schema(field["type"], namespace) for field in items["fields"])
            return self._marked(avro_schema, s.map_of(key, value))
        if kind == "array":
            return self._marked(avro_schema, s.array(self.schema(avro_schema["items"], namespace)))
        if kind == "map":
            return self._marked(
                avro_schema, s.map_of(s.string(), self.schema(avro_schema["values"], namespace))
            )
        if kind not in _TYPES:
            return self._by_name(kind, namespace)
        if "name" in avro_schema:
            self._named[_full(avro_schema, namespace)] = avro_schema
        if str(avro_schema.get("connect.type", "")).upper() in (s.INT8, s.INT16):
            return self._marked(avro_schema, Schema(avro_schema["connect.type"].upper()))
        return self._marked(avro_schema, Schema(_TYPES[kind]))

    def _union(self, avro_schema: list[Any], namespace: str) -> Schema:
        rest = [branch for branch in avro_schema if branch != "null"]
        if len(rest) != 1:
            raise DataError(f"a union of {len(rest)} types cannot be read: Connect has no such schema")
        return self.schema(rest[0], namespace).as_optional(len(rest) < len(avro_schema))

    def _by_name(self, name: str, namespace: str) -> Schema:
        if name in _TYPES:
            return Schema(_TYPES[name])
        full = name if name in self._named else f"{namespace}.{name}"
        if full not in self._named or full in self._open:
            raise DataError(f"the schema {name} is not known, or holds itself: Connect has no such schema")
        return self.schema(self._named[full], namespace)

    def _record(self, avro_schema: dict[str, Any], namespace: str) -> Schema:
        full = _full(avro_schema, namespace)
        self._named[full] = avro_schema
        self._open.append(full)
        inner = full.rpartition(".")[0]
        fields = []
        for field in avro_schema["fields"]:
            schema = self.schema(field["type"], inner)
            if "default" in field and field["default"] is not None and not schema.has_default:
                schema = _with_default(schema, field["default"])
            fields.append(Field(field["name"], schema))
        self._open.pop()
        name = None if full == _DEFAULT_NAME else full
        return Schema(s.STRUCT, name=name, doc=avro_schema.get("doc"), fields=tuple(fields))

    def _marked(self, avro_schema: Mapping[str, Any], schema: Schema) -> Schema:
        logical = _FROM_LOGICAL.get(avro_schema.get("logicalType", ""))
        parameters = avro_schema.get("connect.parameters")
        if logical == s.DECIMAL and parameters is None:
            parameters = {
                s.SCALE: str(avro_schema.get("scale", 0)),
                "connect.decimal.precision": str(avro_schema.get("precision")),
            }
        is_logical = logical is not None and avro_schema.get("connect.name", logical) == logical
        marked = replace(
            schema,
            name=avro_schema.get("connect.name", logical if is_logical else schema.name),
            version=avro_schema.get("connect.version", 1 if is_logical else schema.version),
            doc=avro_schema.get("connect.doc", schema.doc),
            parameters=parameters,
        )
        return (
            _with_default(marked, avro_schema["connect.default"])
            if "connect.default" in avro_schema
            else marked
        )


def _full(avro_schema: Mapping[str, Any], namespace: str) -> str:
    name = str(avro_schema["name"])
    space = avro_schema.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _with_default(schema: Schema, default: Any) -> Schema:
    stored = default.encode("latin-1") if schema.type == s.BYTES and isinstance(default, str) else default
    value = s.from_stored(schema, stored) if schema.logical else stored
    return replace(schema, default=value, has_default=True)


# -- values ----------------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _writer(schema: Schema) -> Convert:
    """A function for each schema, made once; values that are stored as they are pass through."""
    return _walk(schema, lambda inner, value: s.to_stored(inner, value), is_writing=True)


def _reader_of(schema: Schema) -> Convert:
    return _walk(schema, lambda inner, value: s.from_stored(inner, value), is_writing=False)


def _walk(schema: Schema, convert: Callable[[Schema, Any], Any], *, is_writing: bool) -> Convert:
    if schema.logical is not None:
        return lambda value: None if value is None else convert(schema, value)
    if schema.type == s.STRUCT:
        steps = [(field.name, _walk(field.schema, convert, is_writing=is_writing)) for field in schema.fields]
        defaults = {field.name: field.schema for field in schema.fields if field.schema.has_default}

        def struct(value: Any) -> Any:
            if value is None:
                return None
            record = {}
            for name, step in steps:
                inner = value.get(name)
                if inner is None and is_writing and name in defaults:
                    inner = defaults[name].default
                record[name] = step(inner)
            return record

        return struct
    if schema.type == s.ARRAY:
        assert schema.values is not None
        element = _walk(schema.values, convert, is_writing=is_writing)
        return lambda value: None if value is None else [element(item) for item in value]
    if schema.type == s.MAP:
        return _map_step(schema, convert, is_writing=is_writing)
    return _same


def _map_step(schema: Schema, convert: Callable[[Schema, Any], Any], *, is_writing: bool) -> Convert:
    assert schema.keys is not None and schema.values is not None
    key, element = (_walk(inner, convert, is_writing=is_writing) for inner in (schema.keys, schema.values))
    if schema.keys.type == s.STRING and not schema.keys.optional:
        return lambda value: None if value is None else {name: element(item) for name, item in value.items()}
    if is_writing:
        return lambda value: (
            None if value is None else [{"key": key(k), "value": element(v)} for k, v in value.items()]
        )
    return lambda value: (
        None if value is None else {key(item["key"]): element(item["value"]) for item in value}
    )
