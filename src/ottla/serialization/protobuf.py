"""Protobuf messages, in the format of Confluent's serializers."""

import base64
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from ottla.serialization.base import SchemaDeserializer, SchemaSerializer
from ottla.serialization.framing import BadValue, indexes_of, indexes_to_bytes
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient

_BUILT_IN = ("google/protobuf/", "confluent/")


class ProtobufSerializer(SchemaSerializer):
    """`kind` is the class that protoc generated. Files that it imports are registered under their own names."""

    schema_type = "PROTOBUF"

    def __init__(self, registry: RegistryClient, kind: type[Message], **options: Any) -> None:
        super().__init__(registry, **options)
        self._descriptor: Descriptor = kind.DESCRIPTOR
        self._path = indexes_to_bytes(path_of(self._descriptor))
        self._text = _encoded(self._descriptor.file)
        self._known: tuple[Any, ...] | None = None

    def _schema_of(self, value: Any) -> str:
        return self._text

    def _record_name(self, value: Any) -> str | None:
        return str(self._descriptor.full_name)

    def _references(self) -> tuple[Any, ...]:
        if self._known is None:
            self._known = self._register_imports(self._descriptor.file)
        return self._known

    def _register_imports(self, file: FileDescriptor) -> tuple[Any, ...]:
        references = []
        for needed in file.dependencies:
            if not needed.name.startswith(_BUILT_IN):
                deeper = self._register_imports(needed)
                act = self._registry.register if self._register else self._registry.lookup
                act(needed.name, _encoded(needed), "PROTOBUF", deeper)
                version = self._registry.lookup(needed.name, _encoded(needed), "PROTOBUF", deeper).version
                references.append({"name": needed.name, "subject": needed.name, "version": version})
        return tuple(references)

    def _payload(self, value: Any, registered: RegisteredSchema) -> bytes:
        if not isinstance(value, Message) or value.DESCRIPTOR.full_name != self._descriptor.full_name:
            raise BadValue(f"a {type(value).__name__} is no {self._descriptor.full_name}")
        payload: bytes = value.SerializeToString()
        return payload


class ProtobufDeserializer(SchemaDeserializer):
    """With `kind`, messages of that class; without, of classes made from the schema that they were written with."""

    form, schema_type = "serialized", "PROTOBUF"

    def __init__(self, registry: RegistryClient, kind: type[Message] | None = None, **options: Any) -> None:
        super().__init__(registry, **options)
        self._kind = kind
        self._files: dict[str, FileDescriptor] = {}

    def _value(self, data: bytes, at: int, registered: RegisteredSchema) -> Any:
        indexes, begin = indexes_of(data, at)
        kind = self._kind or message_factory.GetMessageClass(self._message(registered, indexes))
        message = kind()
        try:
            message.ParseFromString(data[begin:])
        except DecodeError as error:
            raise BadValue(f"the value is not what schema {registered.schema_id} says: {error}") from error
        return message

    def _message(self, registered: RegisteredSchema, indexes: list[int]) -> Descriptor:
        file = self._files.get(registered.schema)
        if file is None:
            file = self._files[registered.schema] = file_of(self._registry, registered)
        try:
            message = list(file.message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                message = message.nested_types[index]
        except IndexError:
            raise BadValue(f"schema {registered.schema_id} has no message at the path {indexes}") from None
        return message


def file_of(registry: RegistryClient, registered: RegisteredSchema) -> FileDescriptor:
    """The descriptor of a registered schema, with everything that it imports."""
    pool = descriptor_pool.DescriptorPool()
    _add_built_ins(pool)
    _add_references(registry, registered, pool, set())
    name = f"schema-{registered.schema_id}.proto"
    pool.Add(_decoded(registered.schema, name))
    return pool.FindFileByName(name)


def path_of(message: Descriptor) -> list[int]:
    """Where the message stands in its file: indexes from the outermost message down."""
    path = []
    while message is not None:
        siblings = message.containing_type.nested_types if message.containing_type else None
        names = (
            [m.name for m in siblings] if siblings is not None else list(message.file.message_types_by_name)
        )
        path.append(names.index(message.name))
        message = message.containing_type
    return path[::-1]


def _encoded(file: FileDescriptor) -> str:
    return base64.b64encode(file.serialized_pb).decode()


def _decoded(text: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    file.name = name
    return file


def _add_references(
    registry: RegistryClient,
    registered: RegisteredSchema,
    pool: descriptor_pool.DescriptorPool,
    seen: set[str],
) -> None:
    for reference in registered.references:
        name = str(reference["name"])
        if name not in seen and not name.startswith(_BUILT_IN):
            seen.add(name)
            needed = registry.version(reference["subject"], reference["version"], form="serialized")
            _add_references(registry, needed, pool, seen)
            pool.Add(_decoded(needed.schema, name))


def _add_built_ins(pool: descriptor_pool.DescriptorPool) -> None:
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    for module in (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
