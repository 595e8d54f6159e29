"""A struct column as Protobuf: the message that it is written as, and its values.

Numbers of fields cannot be told from columns. They are those of the subject's latest schema, by the names of fields; a
column that it does not have gets the next number that was never used there.
"""

import base64
from collections.abc import Callable
from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ottla.serialization.framing import indexes_to_bytes
from ottla.spark.errors import SchemaError

_TYPES = {
    "string": Field.TYPE_STRING,
    "binary": Field.TYPE_BYTES,
    "tinyint": Field.TYPE_INT32,
    "smallint": Field.TYPE_INT32,
    "int": Field.TYPE_INT32,
    "bigint": Field.TYPE_INT64,
    "float": Field.TYPE_FLOAT,
    "double": Field.TYPE_DOUBLE,
    "boolean": Field.TYPE_BOOL,
}
# What a column may also be written as, if the subject's schema has it so: nothing of a value gets lost.
_WIDER = {
    Field.TYPE_INT32: {Field.TYPE_SINT32, Field.TYPE_SFIXED32, Field.TYPE_INT64, Field.TYPE_SINT64},
    Field.TYPE_INT64: {Field.TYPE_SINT64, Field.TYPE_SFIXED64},
    Field.TYPE_FLOAT: {Field.TYPE_DOUBLE},
}
_TIMES = ("timestamp",)
_TIME = ".google.protobuf.Timestamp"
_FILE = "default"


def file_text(kind: Any, earlier: str | None) -> str:
    """The base64 of the file whose first message the column is written as; `earlier` is the subject's latest."""
    file = FileDescriptorProto(name=_FILE, syntax="proto3")
    if earlier is not None:
        file.ParseFromString(base64.b64decode(earlier))
        if any(name != timestamp_pb2.DESCRIPTOR.name for name in file.dependency):
            raise SchemaError("the subject's schema refers to others; a column cannot be written with it")
    if not file.message_type:
        file.message_type.add(name="TopLevelRecord")
    prefix = f".{file.package}" if file.package else ""
    _extend(file.message_type[0], kind, f"{prefix}.{file.message_type[0].name}")
    if _has_times(file.message_type[0]) and timestamp_pb2.DESCRIPTOR.name not in file.dependency:
        file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()


def is_same(one: str, other: str) -> bool:
    """Whether two files, as `file_text` gives them, describe the same."""
    files = [FileDescriptorProto.FromString(base64.b64decode(text)) for text in (one, other)]
    return bool(files[0] == files[1])


def _extend(message: DescriptorProto, kind: Any, path: str) -> None:
    """Adds the fields that the struct has and the message has not; refuses one that is of another type there."""
    for column in kind.fields:
        field = next((known for known in message.field if known.name == column.name), None)
        if field is None:
            field = message.field.add(name=column.name, number=_free_number(message))
            _describe(field, column.dataType, message, path)
        else:
            _check(field, column.dataType, message, path)


def _free_number(message: DescriptorProto) -> int:
    used = [field.number for field in message.field]
    used += [taken.end - 1 for taken in message.reserved_range]
    highest = max(used, default=0)
    return highest + 1 if not 19_000 <= highest + 1 < 20_000 else 20_000


def _describe(field: Field, kind: Any, message: DescriptorProto, path: str) -> None:
    word = kind.typeName()
    field.label = Field.LABEL_OPTIONAL
    if word == "array":
        if kind.elementType.typeName() in ("array", "map"):
            raise SchemaError(f"column {field.name}: Protobuf has no lists of lists or of maps")
        _describe_one(field, kind.elementType, message, path)
        field.label = Field.LABEL_REPEATED
    elif word == "map":
        entry = message.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        for number, (name, of) in enumerate((("key", kind.keyType), ("value", kind.valueType)), 1):
            part = entry.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
            _describe_one(part, of, entry if name == "key" else message, path)
        field.type, field.type_name = Field.TYPE_MESSAGE, f"{path}.{entry.name}"
        field.label = Field.LABEL_REPEATED
    else:
        _describe_one(field, kind, message, path)
        if field.type != Field.TYPE_MESSAGE:  # null is not the same as zero
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")


def _describe_one(field: Field, kind: Any, message: DescriptorProto, path: str) -> None:
    word = kind.simpleString().split(" collate")[0]
    if kind.typeName() == "struct":
        name = f"{field.name[:1].upper()}{field.name[1:]}Struct"
        _extend(message.nested_type.add(name=name), kind, f"{path}.{name}")
        field.type, field.type_name = Field.TYPE_MESSAGE, f"{path}.{name}"
    elif word in _TIMES:
        field.type, field.type_name = Field.TYPE_MESSAGE, _TIME
    elif word in _TYPES:
        field.type = _TYPES[word]
    else:
        raise SchemaError(f"column {field.name} of type {word} has no Protobuf type; cast it before writing")


def _check(field: Field, kind: Any, message: DescriptorProto, path: str) -> None:
    """The column must be written as the subject's schema says; a struct may bring new fields."""
    wanted, scratch = Field(name=field.name), DescriptorProto()
    if kind.typeName() == "struct":
        nested = next((n for n in message.nested_type if f"{path}.{n.name}" == field.type_name), None)
        if nested is not None and field.label != Field.LABEL_REPEATED:
            _extend(nested, kind, field.type_name)
            return
    _describe(wanted, kind, scratch, path)
    is_map = kind.typeName() == "map"
    same_type = field.type == wanted.type or field.type in _WIDER.get(wanted.type, ())
    same_name = is_map or wanted.type != Field.TYPE_MESSAGE or field.type_name == wanted.type_name
    if (
        not same_type
        or not same_name
        or (field.label == Field.LABEL_REPEATED) != (wanted.label == Field.LABEL_REPEATED)
    ):
        raise SchemaError(
            f"column {field.name} is {kind.simpleString()}, which is not its type in the subject's schema; cast it"
        )


def _entry_name(name: str) -> str:
    """As protoc names the message of a map's entries."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Entry"


def _has_times(message: DescriptorProto) -> bool:
    return any(field.type_name == _TIME for field in message.field) or any(
        map(_has_times, message.nested_type)
    )


# -- in a worker -----------------------------------------------------------------------------------


def writer(schema: str) -> Callable[[Any], bytes]:
    """Of a value as Arrow gives it; behind the id stands the path to the message, which is the first."""
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    file = FileDescriptorProto.FromString(base64.b64decode(schema))
    file.name = _FILE
    pool.Add(file)
    message_class = GetMessageClass(next(iter(pool.FindFileByName(_FILE).message_types_by_name.values())))
    path = indexes_to_bytes([0])

    def encode(value: Any) -> bytes:
        message = message_class()
        _fill(message, value)
        written: bytes = message.SerializeToString()
        return path + written

    return encode


def _fill(message: Message, value: dict[str, Any]) -> None:
    for name, part in value.items():
        if part is None:
            continue
        field, target = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(target, part)
        elif isinstance(part, list):
            for item in part:
                _add(target, item)
        elif field.message_type is None:
            setattr(message, name, part)
        else:
            _fill_message(target, part)


def _fill_map(target: Any, pairs: list[tuple[Any, Any]]) -> None:
    for key, part in pairs:
        if isinstance(part, dict) or hasattr(part, "tzinfo"):
            _fill_message(target[key], part)
        else:
            target[key] = part


def _add(target: Any, part: Any) -> None:
    if part is None:
        raise ValueError("a list of Protobuf cannot hold null")
    if isinstance(part, dict) or hasattr(part, "tzinfo"):
        _fill_message(target.add(), part)
    else:
        target.append(part)


def _fill_message(target: Any, part: Any) -> None:
    target.SetInParent()
    if isinstance(part, dict):
        _fill(target, part)
    else:
        target.FromDatetime(part)
