"""JSON values that are checked against a JSON Schema, in the format of Confluent's serializers."""

import json
from collections.abc import Mapping
from typing import Any, Never

import jsonschema_rs

from ottla.serialization.base import SchemaDeserializer, SchemaSerializer
from ottla.serialization.framing import BadValue
from ottla.serialization.json_bounds import Looks
from ottla.serialization.registry_client import RegisteredSchema, RegistryClient
from ottla.serialization.types import is_model, json_schema, to_plain

PATTERN_STEPS_MAX = 100_000  # some milliseconds


class JsonSchemaSerializer(SchemaSerializer):
    """`schema` is the text, a dict, or a class: a dataclass, a TypedDict, a pydantic model."""

    schema_type = "JSON"

    def __init__(
        self, registry: RegistryClient, schema: Any = None, *, check: bool = True, **options: Any
    ) -> None:
        super().__init__(registry, **options)
        self._text = None if schema is None else text_of(schema)
        self._check = _Checker(registry) if check else None

    def _schema_of(self, value: Any) -> str:
        if self._text is None:
            if not is_model(type(value)):
                raise BadValue(
                    f"a {type(value).__name__} has no schema of its own; give JsonSchemaSerializer one"
                )
            return text_of(type(value))
        return self._text

    def _record_name(self, value: Any) -> str | None:
        title = json.loads(self._schema_of(value)).get("title")
        return None if title is None else str(title)

    def _payload(self, value: Any, registered: RegisteredSchema) -> bytes:
        plain = value.model_dump(mode="json") if hasattr(value, "model_dump") else to_plain(value)
        if self._check is not None:
            self._check(plain, registered)
        try:
            return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()
        except (TypeError, ValueError) as error:
            raise BadValue(f"the value cannot be written as JSON: {error}") from error


class JsonSchemaDeserializer(SchemaDeserializer):
    schema_type = "JSON"

    def __init__(self, registry: RegistryClient, *, check: bool = True, **options: Any) -> None:
        super().__init__(registry, **options)
        self._check = _Checker(registry) if check else None

    def _value(self, data: bytes, at: int, registered: RegisteredSchema) -> Any:
        try:
            value = json.loads(data[at:])
        except ValueError as error:
            raise BadValue(f"the value is not JSON: {error}") from error
        if self._check is not None:
            self._check(value, registered)
        return value


class _Checker:
    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._validators: dict[str, tuple[Any, Looks]] = {}

    def __call__(self, value: Any, registered: RegisteredSchema) -> None:
        known = self._validators.get(registered.schema)
        if known is None:
            known = self._validators[registered.schema] = self._checker(registered)
        validator, looks = known
        looks.check(value)
        error = next(validator.iter_errors(value), None)
        if error is not None:
            place = "/".join(map(str, error.instance_path)) or "the value itself"
            raise BadValue(f"{place}: {error.message}")

    def _checker(self, registered: RegisteredSchema) -> tuple[Any, Looks]:
        schema, resources = json.loads(registered.schema), self._references(registered)
        # A pattern may try so many ways through a text, and no more: it does not match then.
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=PATTERN_STEPS_MAX)
        try:
            validator = jsonschema_rs.validator_for(
                schema, registry=only_these(resources), pattern_options=patterns
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise BadValue(f"the schema cannot be used: {str(error).splitlines()[0]}") from error
        return validator, Looks(schema, resources)

    def _references(self, registered: RegisteredSchema) -> dict[str, Any]:
        """What the schema refers to, directly or not, by the names that are used for it."""
        found: dict[str, Any] = {}
        waiting = list(registered.references)
        while waiting:
            reference = waiting.pop()
            if reference["name"] not in found:
                needed = self._registry.version(reference["subject"], reference["version"])
                found[reference["name"]] = json.loads(needed.schema)
                waiting += needed.references
        return found


def only_these(resources: Mapping[str, Any]) -> jsonschema_rs.Registry:
    """The library would fetch any other address that a schema names, files of this machine too, and wait for it."""
    return jsonschema_rs.Registry(list(resources.items()), retriever=_refuse)


def _refuse(address: str) -> Never:
    raise ValueError("addresses are not fetched")


def text_of(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return json.dumps(json_schema(schema) if is_model(schema) else schema)
