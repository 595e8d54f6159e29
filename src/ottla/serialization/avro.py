"""Avro values, in the format of Confluent's serializers."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from ottla.serialization.base import SchemaDeserializer, SchemaSerializer
from ottla.serialization.framing import BadValue
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient
from ottla.serialization.types import avro_schema, is_model, to_plain


class AvroSerializer(SchemaSerializer):
    """`schema` is the text, a dict, or a class: a dataclass, a TypedDict, a pydantic model."""

    schema_type = "AVRO"

    def __init__(self, registry: RegistryClient, schema: Any = None, **options: Any) -> None:
        super().__init__(registry, **options)
        self._text = None if schema is None else text_of(schema)
        self._parsed: dict[str, Any] = {}

    def _schema_of(self, value: Any) -> str:
        if self._text is None:
            if not is_model(type(value)):
                raise BadValue(f"a {type(value).__name__} has no schema of its own; give AvroSerializer one")
            return text_of(type(value))
        return self._text

    def _record_name(self, value: Any) -> str | None:
        schema = json.loads(self._schema_of(value))
        if not isinstance(schema, dict) or "name" not in schema:
            return None
        namespace = schema.get("namespace")
        return f"{namespace}.{schema['name']}" if namespace else str(schema["name"])

    def _payload(self, value: Any, registered: RegisteredSchema) -> bytes:
        schema = parsed(self._registry, registered, self._parsed)
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, schema, to_plain(value))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise BadValue(f"the value does not fit its Avro schema: {error}") from error
        return out.getvalue()


class AvroDeserializer(SchemaDeserializer):
    """`reader` is the schema to read with; without one, a value comes as it was written."""

    def __init__(self, registry: RegistryClient, reader: Any = None, **options: Any) -> None:
        super().__init__(registry, **options)
        self._reader = None if reader is None else fastavro.parse_schema(json.loads(text_of(reader)))
        self._parsed: dict[str, Any] = {}

    def _value(self, data: bytes, at: int, registered: RegisteredSchema) -> Any:
        writer = parsed(self._registry, registered, self._parsed)
        source = io.BytesIO(data)
        source.seek(at)
        try:
            return fastavro.schemaless_reader(source, writer, self._reader)
        except (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError) as error:
            raise BadValue(f"the value is not what schema {registered.schema_id} says: {error!r}") from error


def text_of(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return json.dumps(avro_schema(schema) if is_model(schema) else schema)


def parsed(registry: RegistryClient, registered: RegisteredSchema, known: dict[str, Any]) -> Any:
    """For fastavro, with everything that the schema refers to."""
    schema = known.get(registered.schema)
    if schema is None:
        named: dict[str, Any] = {}
        _add_references(registry, registered.references, named, set())
        schema = known[registered.schema] = fastavro.parse_schema(
            json.loads(registered.schema), named_schemas=named
        )
    return schema


def _add_references(
    registry: RegistryClient, references: tuple[Mapping[str, Any], ...], named: dict[str, Any], seen: set[str]
) -> None:
    for reference in references:
        if reference["name"] not in seen:
            seen.add(reference["name"])
            needed = registry.version(reference["subject"], reference["version"])
            _add_references(registry, needed.references, named, seen)
            fastavro.parse_schema(json.loads(needed.schema), named_schemas=named)
