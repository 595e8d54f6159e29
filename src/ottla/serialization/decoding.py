"""Values of any kind of schema as plain Python values, for those who want to look: the CLI, Spark."""

import json
from collections.abc import Sequence
from typing import Any

from ottla.serialization.base import SchemaDeserializer, header_in
from ottla.serialization.framing import guid_of, id_of
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient


class AnyDeserializer:
    """Asks the registry which kind the value's schema is of, then decodes. A value without one raises `BadValue`."""

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._by_type: dict[str, SchemaDeserializer] = {}

    def __call__(self, data: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> Any:
        """`headers` are the record's: the GUID of the value's schema may stand there."""
        if data is None:
            return None
        header = header_in(headers)
        if header is not None:
            return self.plain(data, self._registry.schema_by_guid(guid_of(header)), headers)
        return self.plain(data, self._registry.schema(id_of(data)))

    def plain(self, data: bytes, registered: RegisteredSchema, context: Any = None) -> Any:
        """`context` has the record's headers and the field, where the schema's GUID may stand in a header."""
        decoder = self._by_type.get(registered.schema_type)
        if decoder is None:
            decoder = self._by_type[registered.schema_type] = _decoder(self._registry, registered.schema_type)
        value = decoder(data, context)
        if registered.schema_type == "PROTOBUF":
            from google.protobuf.json_format import MessageToDict

            return MessageToDict(value, preserving_proto_field_name=True)
        return value


def _decoder(registry: RegistryClient, schema_type: str) -> SchemaDeserializer:
    if schema_type == "PROTOBUF":
        from ottla.serialization.protobuf import ProtobufDeserializer

        return ProtobufDeserializer(registry)
    if schema_type == "JSON":
        from ottla.serialization.json_schema import JsonSchemaDeserializer

        return JsonSchemaDeserializer(registry, check=False)
    from ottla.serialization.avro import AvroDeserializer

    return AvroDeserializer(registry)


def text(value: Any) -> bytes:
    """A decoded value for people: JSON; dates and bytes as texts."""
    return json.dumps(value, ensure_ascii=False, default=_text).encode()


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
