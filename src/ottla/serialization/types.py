"""Dataclasses, TypedDicts and pydantic models as schemas, so that nobody has to write one."""

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any, get_args, get_origin, get_type_hints

from ottla.serialization.framing import BadValue

_AVRO = {
    str: "string",
    bytes: "bytes",
    bool: "boolean",
    int: "long",
    float: "double",
    type(None): "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
    Any: "string",
}
_JSON = {
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "string"},
    Any: {},
}
_MISSING = dataclasses.MISSING


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or hasattr(kind, "model_json_schema") or typing.is_typeddict(kind)
    )


def avro_schema(kind: type, namespace: str = "") -> dict[str, Any]:
    """A record with the class's fields. A field that may be None is a union with null, and null by default."""
    schema = _avro_record(kind, set())
    return (
        {"type": "record", "name": schema["name"], "namespace": namespace, "fields": schema["fields"]}
        if (namespace)
        else schema
    )


def json_schema(kind: Any) -> dict[str, Any]:
    if hasattr(kind, "model_json_schema"):
        return dict(kind.model_json_schema())
    definitions: dict[str, Any] = {}
    schema = _json_object(kind, definitions)
    definitions.pop(kind.__name__, None)
    return {**schema, **({"$defs": definitions} if definitions else {})}


def to_plain(value: Any) -> Any:
    """A value of such a class as a dict."""
    if hasattr(value, "model_dump"):
        return to_plain(value.model_dump())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    return value


def fields_of(kind: Any) -> list[tuple[str, Any, Any]]:
    """Name, type and default (MISSING without one) of each field."""
    if hasattr(kind, "model_fields"):
        return [
            (name, field.annotation, _MISSING if field.is_required() else field.get_default())
            for name, field in kind.model_fields.items()
        ]
    hints = get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        return [(field.name, hints[field.name], field.default) for field in dataclasses.fields(kind)]
    optional: frozenset[str] = getattr(kind, "__optional_keys__", frozenset())
    return [(name, hint, None if name in optional else _MISSING) for name, hint in hints.items()]


# -- Avro ------------------------------------------------------------------------------------------------


def _avro_record(kind: Any, known: set[str]) -> Any:
    if kind.__name__ in known:
        return kind.__name__
    known.add(kind.__name__)
    fields = []
    for name, hint, default in fields_of(kind):
        field: dict[str, Any] = {"name": name, "type": _avro(hint, known)}
        if _may_be_none(hint):
            field["default"] = None
        elif default is not _MISSING and isinstance(default, (str, int, float, bool)):
            field["default"] = default
        fields.append(field)
    return {"type": "record", "name": kind.__name__, "fields": fields}


def _avro(hint: Any, known: set[str]) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _avro(arguments[0], known)
    if origin in (typing.Union, types.UnionType):
        branches = sorted(arguments, key=lambda branch: branch is not type(None))
        return [_avro(branch, known) for branch in branches]
    if origin in (list, tuple, set, frozenset):
        return {"type": "array", "items": _avro(arguments[0], known)}
    if origin is dict:
        return {"type": "map", "values": _avro(arguments[1], known)}
    if is_model(hint):
        return _avro_record(hint, known)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        if hint.__name__ in known:
            return hint.__name__
        known.add(hint.__name__)
        return {"type": "enum", "name": hint.__name__, "symbols": [member.name for member in hint]}
    if hint in _AVRO:
        return _AVRO[hint]
    raise BadValue(f"{hint!r} has no type in Avro; write the schema yourself")


def _may_be_none(hint: Any) -> bool:
    return get_origin(hint) in (typing.Union, types.UnionType) and type(None) in get_args(hint)


# -- JSON Schema -----------------------------------------------------------------------------------------


def _json_object(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    definitions[kind.__name__] = {}  # known from here on: a class may hold itself
    properties = {name: _json(hint, definitions) for name, hint, _ in fields_of(kind)}
    required = [
        name for name, hint, default in fields_of(kind) if default is _MISSING and not _may_be_none(hint)
    ]
    schema = {"title": kind.__name__, "type": "object", "properties": properties, "required": required}
    definitions[kind.__name__] = schema
    return schema


def _json(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return _json(arguments[0], definitions)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_json(branch, definitions) for branch in arguments]}
    if origin in (list, tuple, set, frozenset):
        return {"type": "array", "items": _json(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _json(arguments[1], definitions)}
    if is_model(hint):
        if hint.__name__ not in definitions:
            _json_object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.name for member in hint]}
    if hint in _JSON:
        return dict(_JSON[hint])
    raise BadValue(f"{hint!r} has no type in JSON Schema; write the schema yourself")
