"""Protobuf schemas: text, or the base64 of a file's descriptor as some clients send it. Compared by descriptors."""

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import protoxy
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.message import DecodeError

from ottla.frozen import frozen
from ottla.registry import errors
from ottla.registry.formats.protobuf_text import printed

_DEPTH_MAX = 40
_SMALL, _COMPILE_S = 4096, 10
_COMPILE = """
import sys, pathlib, protoxy
try:
    compiled = protoxy.compile(
        [pathlib.Path(sys.argv[1])], includes=[sys.argv[2]], include_imports=False, include_source_info=False
    )
except Exception as error:
    sys.exit(str(error))
sys.stdout.buffer.write(compiled.SerializeToString())
"""
_TOKEN = re.compile(r"//|/\*|[\"'{}\[\]()<>]")
_CLOSED_BY, _QUOTES = {"//": "\n", "/*": "*/"}, ('"', "'")
_FILE = "schema.proto"  # the name that a schema has here; clients give it their own
# Types whose bytes on the wire mean the same to a reader of either.
_ALIKE = (
    {
        Field.TYPE_INT32,
        Field.TYPE_UINT32,
        Field.TYPE_INT64,
        Field.TYPE_UINT64,
        Field.TYPE_BOOL,
        Field.TYPE_ENUM,
    },
    {Field.TYPE_SINT32, Field.TYPE_SINT64},
    {Field.TYPE_STRING, Field.TYPE_BYTES},
    {Field.TYPE_FIXED32, Field.TYPE_SFIXED32},
    {Field.TYPE_FIXED64, Field.TYPE_SFIXED64},
)


@frozen
class ProtobufSchema:
    canonical: str
    file: FileDescriptorProto

    @property
    def normalized(self) -> str:
        return printed(self.file)

    @property
    def top_fields(self) -> frozenset[str]:
        """Of the first message: the one that values are, unless they say otherwise."""
        return frozenset(field.name for message in self.file.message_type[:1] for field in message.field)

    def cannot_read(self, writer: Any) -> list[str]:
        return list(_problems(_package(self.file), _package(writer.file)))

    def formatted(self, name: str) -> str:
        return (
            base64.b64encode(self.file.SerializeToString()).decode()
            if name == "serialized"
            else self.canonical
        )


def parse(text: str, references: Mapping[str, str]) -> ProtobufSchema:
    canonical = _text(text)
    texts = {name: _text(reference) for name, reference in references.items()}
    for content in (*texts.values(), canonical):
        _check_depth(content)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {**texts, _FILE: canonical}.items():
                path = Path(folder, name).resolve()
                if not path.is_relative_to(Path(folder).resolve()):
                    raise errors.invalid_schema(f"the reference {name} leaves its folder")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            compiled = _compiled(folder, sum(map(len, texts.values()), len(canonical)))
    except (ValueError, OSError, DecodeError, protoxy.ProtoxyError) as error:
        reason = str(error).replace(_FILE, "the schema")
        raise errors.invalid_schema(f"{canonical[:200]}: {reason}") from error
    (file,) = compiled.file
    file.name = "default"
    return ProtobufSchema(canonical, file)


def _compiled(folder: str, size: int) -> FileDescriptorSet:
    """The compiler's time grows with the square of what is wrong, and nothing interrupts it: long texts are compiled by
    a process that is ended when it takes too long."""
    if size <= _SMALL:
        return protoxy.compile(
            [Path(folder, _FILE)], includes=[folder], include_imports=False, include_source_info=False
        )
    try:
        command = [sys.executable, "-c", _COMPILE, str(Path(folder, _FILE)), folder]
        done = subprocess.run(command, capture_output=True, timeout=_COMPILE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"it takes longer than {_COMPILE_S} s to compile") from error
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace")[:2_000] or "the compiler could not read it")
    return FileDescriptorSet.FromString(done.stdout)


def _check_depth(text: str) -> None:
    """The compiler calls itself for each level, and ends the process when its stack is full."""
    depth = position = 0
    while match := _TOKEN.search(text, position):
        token, position = match[0], match.end()
        if token in _CLOSED_BY:
            end = text.find(_CLOSED_BY[token], position)
            position = len(text) if end < 0 else end + len(_CLOSED_BY[token])
        elif token in _QUOTES:
            position = _end_of_string(text, position, token)
        else:
            depth += 1 if token in "{[(<" else -1
        if depth > _DEPTH_MAX:
            raise errors.invalid_schema(f"it nests deeper than {_DEPTH_MAX} levels")


def _end_of_string(text: str, position: int, quote: str) -> int:
    """A string ends with its line at the latest."""
    while position < len(text) and text[position] not in (quote, "\n"):
        position += 2 if text[position] == "\\" else 1
    return position + 1


def _text(text: str) -> str:
    sent = _descriptor(text)
    try:
        return text if sent is None else printed(sent)
    except (
        IndexError,
        KeyError,
        ValueError,
    ) as error:  # a oneof or the fields of a map that it does not have
        raise errors.invalid_schema(f"{text[:200]}: the descriptor is not complete: {error!r}") from error


def _descriptor(text: str) -> FileDescriptorProto | None:
    """What the text encodes, if it is no text but base64."""
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None
    return file if file.message_type or file.enum_type or file.name else None


# -- what can read what ----------------------------------------------------------------------------------


@frozen
class _Package:
    name: str
    messages: dict[str, DescriptorProto]  # by full name, in the order of the file
    enums: dict[str, Any]


def _package(file: FileDescriptorProto) -> _Package:
    messages: dict[str, DescriptorProto] = {}
    enums: dict[str, Any] = {}
    prefix = f".{file.package}" if file.package else ""
    _collect(prefix, file.message_type, file.enum_type, messages, enums)
    return _Package(file.package, messages, enums)


def _collect(
    prefix: str, descriptors: Any, kinds: Any, messages: dict[str, Any], enums: dict[str, Any]
) -> None:
    enums.update({f"{prefix}.{kind.name}": kind for kind in kinds})
    for message in descriptors:
        messages[f"{prefix}.{message.name}"] = message
        _collect(f"{prefix}.{message.name}", message.nested_type, message.enum_type, messages, enums)


def _problems(reader: _Package, writer: _Package) -> Iterator[str]:
    if reader.name != writer.name:
        yield _problem("PACKAGE_CHANGED", "/", f"from {writer.name!r} to {reader.name!r}")
    for name, message in writer.messages.items():
        if name not in reader.messages:
            if not message.options.map_entry:
                yield _problem("MESSAGE_REMOVED", name, "the reader does not know it")
        else:
            yield from _message_problems(name, reader.messages[name], message)


def _message_problems(name: str, reader: DescriptorProto, writer: DescriptorProto) -> Iterator[str]:
    ours, theirs = ({field.number: field for field in message.field} for message in (reader, writer))
    for number, field in theirs.items():
        place = f"{name}.{field.name}"
        if number not in ours:
            if field.label == Field.LABEL_REQUIRED:
                yield _problem("REQUIRED_FIELD_REMOVED", place, "old readers refuse messages without it")
            elif _oneof(writer, field) is not None and not _all_gone(reader, writer, field):
                yield _problem("ONEOF_FIELD_REMOVED", place, "a value of the oneof would be lost")
            continue
        yield from _field_problems(place, ours[number], field)
    for number, field in ours.items():
        if number not in theirs and field.label == Field.LABEL_REQUIRED:
            yield _problem("REQUIRED_FIELD_ADDED", f"{name}.{field.name}", "the writer does not write it")
    yield from _oneof_problems(name, reader, writer, ours)


def _field_problems(place: str, reader: Field, writer: Field) -> Iterator[str]:
    kinds = (reader.type, writer.type)
    named = (Field.TYPE_MESSAGE, Field.TYPE_GROUP)
    if reader.type in named and writer.type in named:
        if reader.type_name != writer.type_name:
            yield _problem(
                "FIELD_NAMED_TYPE_CHANGED", place, f"from {writer.type_name} to {reader.type_name}"
            )
    elif reader.type != writer.type and not any(set(kinds) <= alike for alike in _ALIKE):
        yield _problem("FIELD_SCALAR_KIND_CHANGED", place, "the bytes would be read as something else")
    repeated = [field.label == Field.LABEL_REPEATED for field in (reader, writer)]
    if repeated[0] != repeated[1] and not set(kinds) <= {Field.TYPE_STRING, Field.TYPE_BYTES, *named}:
        yield _problem("FIELD_LABEL_CHANGED", place, "numbers are packed only when repeated")


def _oneof_problems(
    name: str, reader: DescriptorProto, writer: DescriptorProto, ours: dict[int, Field]
) -> Iterator[str]:
    """Several fields of the writer that could stand together may not be moved into one oneof."""
    moved: dict[str, int] = {}
    for field in writer.field:
        now = _oneof(reader, ours[field.number]) if field.number in ours else None
        if now is not None and _oneof(writer, field) is None:
            moved[now] = moved.get(now, 0) + 1
    for oneof, count in moved.items():
        existed = any(_oneof(writer, field) == oneof for field in writer.field)
        if count > 1 or existed:
            yield _problem(
                "MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{name}.{oneof}", "only one of them would survive"
            )


def _oneof(message: DescriptorProto, field: Field) -> str | None:
    """The name of the oneof that the field belongs to; `optional` of proto3 is none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)


def _all_gone(reader: DescriptorProto, writer: DescriptorProto, field: Field) -> bool:
    """Whether the whole oneof is gone, which takes nothing from those that remain."""
    numbers = {other.number for other in writer.field if _oneof(writer, other) == _oneof(writer, field)}
    return not numbers & {other.number for other in reader.field}


def _problem(kind: str, place: str, words: str) -> str:
    return f"{{errorType:'{kind}', description:'{words} at path {place}'}}"
