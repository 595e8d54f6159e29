"""JSON Schema: the text is kept as compact JSON. What can read what is decided by rules of our own."""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from ottla.frozen import frozen
from ottla.registry import errors
from ottla.registry.formats.json_compatibility import Comparison
from ottla.registry.records import to_json
from ottla.serialization.json_schema import only_these


@frozen
class JsonSchema:
    canonical: str
    references: Mapping[str, Any]

    @property
    def normalized(self) -> str:
        return json.dumps(
            json.loads(self.canonical), ensure_ascii=False, separators=(",", ":"), sort_keys=True
        )

    @property
    def top_fields(self) -> frozenset[str]:
        schema = json.loads(self.canonical)
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return frozenset(properties if isinstance(properties, dict) else ())

    def cannot_read(self, writer: Any) -> list[str]:
        reader = Comparison(
            json.loads(self.canonical), self.references, json.loads(writer.canonical), writer.references
        )
        try:
            return reader.problems()
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # What a reference such as #/foo leads to is not checked against the meta-schema.
            words = f"a part that one of the schemas refers to is no valid schema: {error}"
            return [f"{{errorType:'INVALID_SCHEMA', description:'{words}'}}"]

    def formatted(self, name: str) -> str:
        return self.canonical


def parse(text: str, references: Mapping[str, str]) -> JsonSchema:
    try:
        content = json.loads(text)
        if not isinstance(content, (dict, bool)):
            raise ValueError("a JSON Schema is an object, true or false")
        known = {name: json.loads(reference) for name, reference in references.items()}
        # Only the schema itself is checked here; a reference that nobody registered is found when it is followed.
        jsonschema_rs.meta.validate(content, registry=only_these({}))
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        reason = str(error).strip().splitlines()[0]
        raise errors.invalid_schema(f"{text[:200]}: {reason}") from error
    return JsonSchema(to_json(content), known)
