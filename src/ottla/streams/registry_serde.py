"""Values with schemas of a registry, as serdes: Avro, JSON Schema and Protobuf, by `ottla.serialization`."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

from ottla.pipelines.state.arrays import arrow_cells
from ottla.serialization.framing import BadValue as BadRecord
from ottla.serialization.registry_client import RegistryClient
from ottla.streams.errors import BadValue
from ottla.streams.serdes import Column, Serde, objects


class RegistrySerde(Serde):
    """One value at a time: the registry is asked once for each schema."""

    name = "registry"

    def __init__(
        self, serialize: Callable[[Any], bytes | None], deserialize: Callable[[bytes | None], Any]
    ) -> None:
        self._serialize, self._deserialize = serialize, deserialize

    def decode(self, cells: pa.Array) -> Column:
        return self._each(self._deserialize, cells.to_pylist())

    def encode(self, column: Column) -> pa.Array:
        return arrow_cells(self._each(self._serialize, objects(column)), pa.binary())

    def _each(self, convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
        try:
            return [convert(value) for value in values]
        except BadRecord as error:
            raise BadValue(str(error)) from error


def avro(registry: str | RegistryClient, schema: Any, topic: str, **options: Any) -> RegistrySerde:
    """`schema` is a text, a dict or a class; it is registered for the topic when the first value is written."""
    from ottla.serialization.avro import AvroDeserializer, AvroSerializer

    client = RegistryClient(registry) if isinstance(registry, str) else registry
    return RegistrySerde(AvroSerializer(client, schema, topic=topic, **options), AvroDeserializer(client))


def json_schema(registry: str | RegistryClient, schema: Any, topic: str, **options: Any) -> RegistrySerde:
    from ottla.serialization.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer

    client = RegistryClient(registry) if isinstance(registry, str) else registry
    serializer = JsonSchemaSerializer(client, schema, topic=topic, **options)
    return RegistrySerde(serializer, JsonSchemaDeserializer(client))


class ProtobufSerde(RegistrySerde):
    """Travels as its arguments: descriptors of messages cannot be pickled, classes that protoc wrote can."""

    def __init__(self, registry: RegistryClient, kind: Any, topic: str, options: dict[str, Any]) -> None:
        from ottla.serialization.protobuf import ProtobufDeserializer, ProtobufSerializer

        serializer = ProtobufSerializer(registry, kind, topic=topic, **options)
        super().__init__(serializer, ProtobufDeserializer(registry, kind))
        self._arguments = registry, kind, topic, options

    def __reduce__(self) -> Any:
        return ProtobufSerde, self._arguments


def protobuf(registry: str | RegistryClient, kind: Any, topic: str, **options: Any) -> ProtobufSerde:
    """`kind` is the class that protoc wrote; values are its messages."""
    client = RegistryClient(registry) if isinstance(registry, str) else registry
    return ProtobufSerde(client, kind, topic, options)
