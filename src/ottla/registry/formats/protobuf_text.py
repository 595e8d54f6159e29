"""A file's descriptor as the text of a .proto file: always the same text for the same descriptor."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.descriptor_pb2 import (
    FieldDescriptorProto as Field,
)

_SCALARS = {
    Field.TYPE_DOUBLE: "double",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_INT64: "int64",
    Field.TYPE_UINT64: "uint64",
    Field.TYPE_INT32: "int32",
    Field.TYPE_FIXED64: "fixed64",
    Field.TYPE_FIXED32: "fixed32",
    Field.TYPE_BOOL: "bool",
    Field.TYPE_STRING: "string",
    Field.TYPE_BYTES: "bytes",
    Field.TYPE_UINT32: "uint32",
    Field.TYPE_SFIXED32: "sfixed32",
    Field.TYPE_SFIXED64: "sfixed64",
    Field.TYPE_SINT32: "sint32",
    Field.TYPE_SINT64: "sint64",
}
_LABELS = {Field.LABEL_REQUIRED: "required ", Field.LABEL_REPEATED: "repeated "}
_FIELD_NUMBER_MAX = 536_870_911
_ESCAPES = {
    **{code: f"\\{code:03o}" for code in range(32)},
    ord("\n"): "\\n",
    ord('"'): '\\"',
    ord("\\"): "\\\\",
}


def printed(file: FileDescriptorProto) -> str:
    return "\n".join(_file(file)) + "\n"


def _file(file: FileDescriptorProto) -> Iterator[str]:
    syntax = file.syntax or "proto2"
    yield f'syntax = "{syntax}";'
    if file.package:
        yield f"package {file.package};"
    if file.dependency:
        yield ""
    for at, name in enumerate(file.dependency):
        public = "public " if at in file.public_dependency else ""
        yield f"import {public}{_quoted(name)};"
    options = list(_options(file.options))
    if options:
        yield ""
    for name, value in options:
        yield f"option {name} = {value};"
    for message in file.message_type:
        yield ""
        yield from _message(message, syntax)
    for enum in file.enum_type:
        yield ""
        yield from _enum(enum)
    for service in file.service:
        yield ""
        yield from _service(service)


def _message(message: DescriptorProto, syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    yield from _indented(_message_body(message, syntax))
    yield "}"


def _message_body(message: DescriptorProto, syntax: str) -> Iterator[str]:
    for name, value in _options(message.options):
        yield f"option {name} = {value};"
    yield from _reserved(message)
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    opened: set[int] = set()
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in opened:
                opened.add(field.oneof_index)
                yield f"oneof {message.oneof_decl[field.oneof_index].name} {{"
                mates = [
                    f
                    for f in message.field
                    if f.HasField("oneof_index")
                    and f.oneof_index == field.oneof_index
                    and not f.proto3_optional
                ]
                yield from _indented(_field(f, syntax, entries, in_oneof=True) for f in mates)
                yield "}"
        else:
            yield _field(field, syntax, entries)
    for span in message.extension_range:
        yield f"extensions {_span(span.start, span.end - 1)};"
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message(nested, syntax)
    for enum in message.enum_type:
        yield from _enum(enum)


def _reserved(message: Any) -> Iterator[str]:
    if message.reserved_range:
        yield "reserved " + ", ".join(_span(s.start, s.end - 1) for s in message.reserved_range) + ";"
    if message.reserved_name:
        yield "reserved " + ", ".join(map(_quoted, message.reserved_name)) + ";"


def _span(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= _FIELD_NUMBER_MAX else last}"


def _field(field: Field, syntax: str, entries: dict[str, DescriptorProto], *, in_oneof: bool = False) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.type == Field.TYPE_MESSAGE else None
    if entry is not None:
        key, value = entry.field
        kind, label = f"map<{_type(key)}, {_type(value)}>", ""
    else:
        kind, label = _type(field), "" if in_oneof else _LABELS.get(field.label, "")
    if not in_oneof and not label and entry is None and (field.proto3_optional or syntax == "proto2"):
        label = "optional "
    options = [f"default = {_default(field)}"] if field.HasField("default_value") else []
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    options += [f"{name} = {value}" for name, value in _options(field.options)]
    behind = f" [{', '.join(options)}]" if options else ""
    return f"{label}{kind} {field.name} = {field.number}{behind};"


def _default(field: Field) -> str:
    if field.type == Field.TYPE_BYTES:
        return f'"{field.default_value}"'  # a descriptor has them escaped
    return _quoted(field.default_value) if field.type == Field.TYPE_STRING else str(field.default_value)


def _quoted(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'


def _json_name(name: str) -> str:
    """What a field is called in JSON unless it says otherwise: the compiler's rule."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _type(field: Field) -> str:
    return _SCALARS.get(field.type) or field.type_name


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from _indented(f"option {name} = {value};" for name, value in _options(enum.options))
    for span in enum.reserved_range:
        yield f"  reserved {_span(span.start, span.end)};"
    yield from _indented(f"{value.name} = {value.number};" for value in enum.value)
    yield "}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    for method in service.method:
        streams = ["stream " if flag else "" for flag in (method.client_streaming, method.server_streaming)]
        request, response = (
            f"{s}{t}" for s, t in zip(streams, (method.input_type, method.output_type), strict=True)
        )
        yield f"  rpc {method.name} ({request}) returns ({response});"
    yield "}"


def _options(options: Any) -> Iterator[tuple[str, str]]:
    for descriptor, value in options.ListFields():
        if descriptor.is_extension or descriptor.name in ("map_entry", "uninterpreted_option"):
            continue
        if descriptor.enum_type is not None:
            yield descriptor.name, descriptor.enum_type.values_by_number[value].name
        elif isinstance(value, bool):
            yield descriptor.name, str(value).lower()
        elif isinstance(value, str):
            yield descriptor.name, _quoted(value)


def _indented(lines: Any) -> Iterator[str]:
    return (f"  {line}" for line in lines)
