"""Values with schemas: Avro, Protobuf, JSON Schema, in the format of Confluent's serializers; and JSON and XML without.

registry = RegistryClient("http://localhost:8081")
Producer(value_serializer=AvroSerializer(registry, Order, topic="orders"))
Consumer(value_deserializer=AvroDeserializer(registry))
"""

from typing import TYPE_CHECKING

from ottla.lazy import names_of

if TYPE_CHECKING:
    from ottla.serialization.arrow import ArrowDecoder as ArrowDecoder
    from ottla.serialization.avro import AvroDeserializer as AvroDeserializer
    from ottla.serialization.avro import AvroSerializer as AvroSerializer
    from ottla.serialization.json_schema import JsonSchemaDeserializer as JsonSchemaDeserializer
    from ottla.serialization.json_schema import JsonSchemaSerializer as JsonSchemaSerializer
    from ottla.serialization.plain import JsonDeserializer as JsonDeserializer
    from ottla.serialization.plain import JsonSerializer as JsonSerializer
    from ottla.serialization.plain import XmlDeserializer as XmlDeserializer
    from ottla.serialization.plain import XmlSerializer as XmlSerializer
    from ottla.serialization.protobuf import ProtobufDeserializer as ProtobufDeserializer
    from ottla.serialization.protobuf import ProtobufSerializer as ProtobufSerializer
    from ottla.serialization.registry_client import RegistryClient as RegistryClient
    from ottla.serialization.registry_client import RegistryRefused as RegistryRefused

_HOMES = {
    "ArrowDecoder": "ottla.serialization.arrow",
    "AvroDeserializer": "ottla.serialization.avro",
    "AvroSerializer": "ottla.serialization.avro",
    "JsonDeserializer": "ottla.serialization.plain",
    "JsonSerializer": "ottla.serialization.plain",
    "XmlDeserializer": "ottla.serialization.plain",
    "XmlSerializer": "ottla.serialization.plain",
    "JsonSchemaDeserializer": "ottla.serialization.json_schema",
    "JsonSchemaSerializer": "ottla.serialization.json_schema",
    "ProtobufDeserializer": "ottla.serialization.protobuf",
    "ProtobufSerializer": "ottla.serialization.protobuf",
    "RegistryClient": "ottla.serialization.registry_client",
    "RegistryRefused": "ottla.serialization.registry_client",
}

__all__ = [
    "ArrowDecoder",
    "AvroDeserializer",
    "AvroSerializer",
    "JsonDeserializer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "JsonSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegistryClient",
    "RegistryRefused",
    "XmlDeserializer",
    "XmlSerializer",
]

__getattr__ = names_of(__name__, _HOMES)
