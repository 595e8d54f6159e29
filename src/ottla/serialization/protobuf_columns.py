"""Protobuf messages as struct columns: the type of a message in SQL's words, and its values as plain ones."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ottla.serialization.framing import NoColumns
from ottla.serialization.protobuf import file_of
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient

_TIMESTAMP = "google.protobuf.Timestamp"
_TYPES = {
    FieldDescriptor.CPPTYPE_INT32: "INT",
    FieldDescriptor.CPPTYPE_INT64: "BIGINT",
    FieldDescriptor.CPPTYPE_UINT32: "BIGINT",
    FieldDescriptor.CPPTYPE_UINT64: "DECIMAL(20, 0)",
    FieldDescriptor.CPPTYPE_DOUBLE: "DOUBLE",
    FieldDescriptor.CPPTYPE_FLOAT: "FLOAT",
    FieldDescriptor.CPPTYPE_BOOL: "BOOLEAN",
    FieldDescriptor.CPPTYPE_ENUM: "STRING",
}


def message_of(registry: RegistryClient, latest: RegisteredSchema) -> Descriptor:
    """The first message of the subject's schema: the one that the topic's values are."""
    messages = list(file_of(registry, latest).message_types_by_name.values())
    if not messages:
        raise NoColumns(f"the schema of subject {latest.subject} has no message")
    first: Descriptor = messages[0]
    return first


def struct_text(message: Descriptor, above: tuple[str, ...] = ()) -> str:
    if message.full_name in above:
        raise NoColumns(f"the message {message.full_name} holds itself; read the value as bytes")
    inside = (*above, message.full_name)
    return f"STRUCT<{', '.join(f'`{field.name}`: {_field_text(field, inside)}' for field in message.fields)}>"


def _field_text(field: FieldDescriptor, above: tuple[str, ...]) -> str:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return f"MAP<{_one_text(key, above)}, {_one_text(value, above)}>"
    text = _one_text(field, above)
    return f"ARRAY<{text}>" if _is_repeated(field) else text


def _one_text(field: FieldDescriptor, above: tuple[str, ...]) -> str:
    if field.message_type is not None:
        is_time = field.message_type.full_name == _TIMESTAMP
        return "TIMESTAMP" if is_time else struct_text(field.message_type, above)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "BINARY" if field.type == FieldDescriptor.TYPE_BYTES else "STRING"
    return _TYPES[field.cpp_type]


def plain(message: Message) -> dict[str, Any]:
    """By field. One that can tell whether it was set is null if it was not; others have their default."""
    return {field.name: _plain_field(message, field) for field in message.DESCRIPTOR.fields}


def _plain_field(message: Message, field: FieldDescriptor) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        of = _plain_one(field.message_type.fields_by_name["value"])
        items: Mapping[Any, Any] = value
        return [(key, of(item)) for key, item in items.items()]
    if _is_repeated(field):
        return [_plain_one(field)(item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain_one(field)(value)


def _plain_one(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _time if field.message_type.full_name == _TIMESTAMP else plain
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else str(number)
    return lambda value: value


def _time(value: Any) -> Any:
    return value.ToDatetime(tzinfo=UTC)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _is_repeated(field: FieldDescriptor) -> bool:
    """By its label, under the name that every version of the library has it."""
    repeated = getattr(field, "is_repeated", None)
    return bool(repeated if repeated is not None else field.label == FieldDescriptor.LABEL_REPEATED)
