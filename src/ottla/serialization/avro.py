"""Avro values, in the format of Confluent's serializers."""

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from ottla.serialization.avro_bounds import bounds_of
from ottla.serialization.avro_check import AvroCheck
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

    schema_type = "AVRO"

    def __init__(self, registry: RegistryClient, reader: Any = None, **options: Any) -> None:
        super().__init__(registry, **options)
        self._reader = None if reader is None else fastavro.parse_schema(json.loads(text_of(reader)))
        self._parsed: dict[str, Any] = {}
        self._checks: dict[str, AvroCheck | None] = {}

    def _value(self, data: bytes, at: int, registered: RegisteredSchema) -> Any:
        writer = parsed(self._registry, registered, self._parsed)
        if registered.schema not in self._checks:
            self._checks[registered.schema] = check_of(self._registry, registered)
        check = self._checks[registered.schema]
        if check is not None and (fault := check.fault(data[at:])):
            raise BadValue(f"the value is not what schema {registered.schema_id} says: {fault}")
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


def check_of(registry: RegistryClient, registered: RegisteredSchema) -> AvroCheck | None:
    """What a value must pass before fastavro reads it, whose schema lets a few bytes cost more than their number: by
    nesting, which ends the process when it is thousands deep, or by items that take no bytes."""
    if not bounds_of(registered.schema).costs_more_than_bytes:
        return None
    needed: dict[str, str] = {}
    _collect(registry, registered.references, needed)
    return AvroCheck(json.loads(registered.schema), tuple(map(json.loads, needed.values())))


def _collect(
    registry: RegistryClient, references: tuple[Mapping[str, Any], ...], needed: dict[str, str]
) -> None:
    """The texts of all schemas that are referred to, those that others need first."""
    for reference in references:
        if reference["name"] not in needed:
            schema = registry.version(reference["subject"], reference["version"])
            _collect(registry, schema.references, needed)
            needed[reference["name"]] = schema.schema


def parsed(registry: RegistryClient, registered: RegisteredSchema, known: dict[str, Any]) -> Any:
    """For fastavro, with everything that the schema refers to."""
    schema = known.get(registered.schema)
    if schema is None:
        named: dict[str, Any] = {}
        needed: dict[str, str] = {}
        _collect(registry, registered.references, needed)
        for text in needed.values():
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        schema = known[registered.schema] = fastavro.parse_schema(
            json.loads(registered.schema), named_schemas=named
        )
    return schema
