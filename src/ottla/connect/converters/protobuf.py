"""ProtobufConverter: Connect's structs as messages of a schema that is made for them.

Optional fields are `optional`, so that null stays null. Protobuf has no small integers, and a list or map is never
null: they come back as int32, and as empty.
"""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from ottla.connect import schema as s
from ottla.connect.converters.registered import RegisteredConverter
from ottla.connect.errors import DataError
from ottla.connect.schema import Field, Schema
from ottla.serialization.framing import indexes_of, indexes_to_bytes
from ottla.serialization.protobuf import file_of
from ottla.serialization.registry_client import RegisteredSchema

_FieldProto = descriptor_pb2.FieldDescriptorProto
_PLAIN = {
    s.INT8: _FieldProto.TYPE_INT32, s.INT16: _FieldProto.TYPE_INT32, s.INT32: _FieldProto.TYPE_INT32,
    s.INT64: _FieldProto.TYPE_INT64, s.FLOAT32: _FieldProto.TYPE_FLOAT, s.FLOAT64: _FieldProto.TYPE_DOUBLE,
    s.BOOLEAN: _FieldProto.TYPE_BOOL, s.STRING: _FieldProto.TYPE_STRING, s.BYTES: _FieldProto.TYPE_BYTES,
}  # fmt: skip
_TYPES = {
    FieldDescriptor.TYPE_INT32: s.INT32, FieldDescriptor.TYPE_SINT32: s.INT32, FieldDescriptor.TYPE_SFIXED32: s.INT32,
    FieldDescriptor.TYPE_UINT32: s.INT64, FieldDescriptor.TYPE_FIXED32: s.INT64, FieldDescriptor.TYPE_INT64: s.INT64,
    FieldDescriptor.TYPE_SINT64: s.INT64, FieldDescriptor.TYPE_SFIXED64: s.INT64, FieldDescriptor.TYPE_UINT64: s.INT64,
    FieldDescriptor.TYPE_FIXED64: s.INT64, FieldDescriptor.TYPE_FLOAT: s.FLOAT32,
    FieldDescriptor.TYPE_DOUBLE: s.FLOAT64,
    FieldDescriptor.TYPE_BOOL: s.BOOLEAN, FieldDescriptor.TYPE_STRING: s.STRING, FieldDescriptor.TYPE_BYTES: s.BYTES,
    FieldDescriptor.TYPE_ENUM: s.STRING,
}  # fmt: skip
_TIMESTAMP = "google.protobuf.Timestamp"
_DEFAULT_NAME = "ConnectDefault1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ProtobufConverter(RegisteredConverter):
    schema_type = "PROTOBUF"
    form = "serialized"

    def _prepared(self, schema: Schema) -> Any:
        if schema.type != s.STRUCT:
            raise DataError(
                f"Protobuf writes structs, and this is {schema.type}; use another converter for it"
            )
        file = _file(schema)
        pool = descriptor_pool.DescriptorPool()
        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
        pool.Add(file)
        (descriptor,) = pool.FindFileByName(file.name).message_types_by_name.values()
        kind = message_factory.GetMessageClass(descriptor)
        return base64.b64encode(file.SerializeToString()).decode(), kind

    def _text(self, prepared: Any) -> str:
        return str(prepared[0])

    def _payload(self, prepared: Any, schema: Schema, value: Any) -> bytes:
        message = prepared[1]()
        _fill(message, schema, value)
        return indexes_to_bytes([0]) + bytes(message.SerializeToString())

    def _reader(self, registered: RegisteredSchema) -> Any:
        return file_of(self._registry, registered), {}

    def _value(self, reader: Any, data: bytes, at: int) -> tuple[Schema | None, Any]:
        file, known = reader
        indexes, begin = indexes_of(data, at)
        path = tuple(indexes)
        if path not in known:
            descriptor = list(file.message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                descriptor = descriptor.nested_types[index]
            known[path] = message_factory.GetMessageClass(descriptor), _schema_of(descriptor, ())
        kind, schema = known[path]
        message = kind()
        try:
            message.ParseFromString(data[begin:])
        except DecodeError as error:
            raise DataError(f"the value is no {schema.name}: {error}") from error
        return schema, _values(message)


# -- schemas ---------------------------------------------------------------------------------------


def _file(schema: Schema) -> Any:
    package, _, name = (schema.name or _DEFAULT_NAME).rpartition(".")
    file = descriptor_pb2.FileDescriptorProto(name="value.proto", package=package, syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    full = f".{package}.{name}" if package else f".{name}"
    _describe(file.message_type.add(name=name), schema, full)
    return file


def _describe(message: Any, schema: Schema, full: str) -> None:
    """Structs in a field are messages inside of this one, named after the field."""
    for number, inner in enumerate(schema.fields, 1):
        _add_field(message, inner.name, number, inner.schema, full)
    # Synthetic groups of one stand behind all others.
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _add_field(message: Any, name: str, number: int, schema: Schema, full: str) -> Any:
    field = message.field.add(name=name, number=number, label=_FieldProto.LABEL_OPTIONAL)
    if schema.type == s.ARRAY:
        assert schema.values is not None
        if schema.values.type in (s.ARRAY, s.MAP):
            raise DataError(f"field {name}: Protobuf has no list of lists or maps; use another converter")
        field.label = _FieldProto.LABEL_REPEATED
        _set_type(message, field, schema.values, full)
    elif schema.type == s.MAP:
        field.label = _FieldProto.LABEL_REPEATED
        _set_map(message, field, schema, full)
    else:
        _set_type(message, field, schema, full)
        field.proto3_optional = schema.optional and field.type != _FieldProto.TYPE_MESSAGE
    return field


def _set_type(message: Any, field: Any, schema: Schema, full: str) -> None:
    if schema.name == s.TIMESTAMP:
        field.type, field.type_name = _FieldProto.TYPE_MESSAGE, f".{_TIMESTAMP}"
    elif schema.type == s.STRUCT:
        name = f"{field.name[:1].upper()}{field.name[1:]}Struct"
        field.type, field.type_name = _FieldProto.TYPE_MESSAGE, f"{full}.{name}"
        _describe(message.nested_type.add(name=name), schema, f"{full}.{name}")
    elif schema.logical == s.DECIMAL:
        field.type = _FieldProto.TYPE_STRING  # its digits
    else:
        field.type = _PLAIN[schema.type]


def _set_map(message: Any, field: Any, schema: Schema, full: str) -> None:
    assert schema.keys is not None and schema.values is not None
    if schema.keys.type not in (*s.INTEGERS, s.STRING, s.BOOLEAN):
        raise DataError(f"field {field.name}: Protobuf has no map with keys of {schema.keys.type}")
    if schema.values.type in (s.ARRAY, s.MAP):
        raise DataError(f"field {field.name}: Protobuf has no map of lists or maps; use another converter")
    words = field.name.split("_")
    name = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    _add_field(entry, "key", 1, schema.keys.as_optional(False), f"{full}.{name}")
    _add_field(entry, "value", 2, schema.values.as_optional(False), f"{full}.{name}")
    field.type, field.type_name = _FieldProto.TYPE_MESSAGE, f"{full}.{name}"


def _schema_of(descriptor: Descriptor, outer: tuple[str, ...]) -> Schema:
    if descriptor.full_name == _TIMESTAMP:
        return s.timestamp(optional=True)
    if descriptor.full_name in outer:
        raise DataError(f"the message {descriptor.full_name} holds itself: Connect has no such schema")
    inside = (*outer, descriptor.full_name)
    fields = tuple(Field(field.name, _field_schema(field, inside)) for field in descriptor.fields)
    return Schema(s.STRUCT, name=descriptor.full_name, fields=fields, optional=bool(outer))


def _field_schema(field: FieldDescriptor, outer: tuple[str, ...]) -> Schema:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return s.map_of(_single(key, outer).as_optional(False), _single(value, outer).as_optional(False))
    if _is_repeated(field):
        return s.array(_single(field, outer).as_optional(False))
    return _single(field, outer)


def _single(field: FieldDescriptor, outer: tuple[str, ...]) -> Schema:
    if field.message_type is not None:
        return _schema_of(field.message_type, outer)
    return Schema(_TYPES[field.type], optional=field.has_presence)


def _is_repeated(field: FieldDescriptor) -> bool:
    is_repeated = getattr(field, "is_repeated", None)  # since 6.31, where `label` warns
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if is_repeated is None else is_repeated)


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


# -- values ----------------------------------------------------------------------------------------


def _fill(message: Message, schema: Schema, value: Any) -> None:
    for field in schema.fields:
        inner = value.get(field.name)
        if inner is None and field.schema.has_default:
            inner = field.schema.default
        if inner is None:
            if not field.schema.optional:
                raise DataError(f'Invalid value: null used for required field: "{field.name}"')
            continue
        _set(message, field.name, field.schema, inner)


def _set(message: Any, name: str, schema: Schema, value: Any) -> None:
    if schema.type == s.ARRAY:
        assert schema.values is not None
        for element in value:
            _add(getattr(message, name), schema.values, element)
    elif schema.type == s.MAP:
        assert schema.values is not None
        target = getattr(message, name)
        for key, element in value.items():
            if schema.values.type == s.STRUCT:
                _fill(target[key], schema.values, element)
            else:
                target[key] = _plain(schema.values, element)
    elif schema.type == s.STRUCT:
        target = getattr(message, name)
        target.SetInParent()
        _fill(target, schema, value)
    elif schema.name == s.TIMESTAMP:
        getattr(message, name).FromDatetime(value)
    else:
        setattr(message, name, _plain(schema, value))


def _add(target: Any, schema: Schema, value: Any) -> None:
    if schema.type == s.STRUCT:
        _fill(target.add(), schema, value)
    elif schema.name == s.TIMESTAMP:
        target.add().FromDatetime(value)
    else:
        target.append(_plain(schema, value))


def _plain(schema: Schema, value: Any) -> Any:
    if schema.logical == s.DECIMAL:
        return str(value)
    return s.to_stored(schema, value) if schema.logical else value


def _values(message: Message) -> Any:
    if message.DESCRIPTOR.full_name == _TIMESTAMP:
        stamp: Any = message
        return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Message, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        inner = _element(field.message_type.fields_by_name["value"])
        return {key: inner(item) for key, item in value.items()}
    if _is_repeated(field):
        inner = _element(field)
        return [inner(item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _element(field)(value)


def _element(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _values
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else str(number)
    return lambda value: value
