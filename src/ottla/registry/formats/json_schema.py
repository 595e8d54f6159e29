"""JSON Schema: the text is kept as compact JSON. What can read what is decided by rules of our own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from ottla.registry import errors
from ottla.registry.formats.json_compatibility import Comparison
from ottla.registry.records import to_json


@dataclass(frozen=True)
class JsonSchema:
    canonical: str
    references: Mapping[str, Any]

    @property
    def normalized(self) -> str:
        return json.dumps(
            json.loads(self.canonical), ensure_ascii=False, separators=(",", ":"), sort_keys=True
        )

    def cannot_read(self, writer: Any) -> list[str]:
        reader = Comparison(
            json.loads(self.canonical), self.references, json.loads(writer.canonical), writer.references
        )
        return reader.problems()

    def formatted(self, name: str) -> str:
        return self.canonical


def parse(text: str, references: Mapping[str, str]) -> JsonSchema:
    try:
        content = json.loads(text)
        if not isinstance(content, (dict, bool)):
            raise ValueError("a JSON Schema is an object, true or false")
        known = {name: json.loads(reference) for name, reference in references.items()}
        # Only the schema itself is checked here; a reference that nobody registered is found when it is followed.
        jsonschema_rs.meta.validate(content)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        reason = str(error).strip().splitlines()[0]
        raise errors.invalid_schema(f"{text[:200]}: {reason}") from error
    return JsonSchema(to_json(content), known)
