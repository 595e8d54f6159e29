"""Key or value of a record: what `$Key` and `$Value` of a transform's class choose."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.connect.errors import DataError
from ottla.connect.schema import STRUCT, Schema

_SCHEMAS_MAX = 1_000


class Remembered:
    """Schemas made from schemas, each once: those behind it (a converter) know a schema by its identity."""

    def __init__(self, make: Callable[[Schema], Schema]) -> None:
        self._make = make
        self._schemas_made: dict[int, tuple[Schema, Schema]] = {}

    def __call__(self, schema: Schema) -> Schema:
        known = self._schemas_made.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._schemas_made) > _SCHEMAS_MAX:
                self._schemas_made.clear()
            known = self._schemas_made[id(schema)] = schema, self._make(schema)
        return known[1]


class Side:
    def __init__(self, side: str) -> None:
        self._name = "key" if side == "Key" else "value"

    def of(self, record: Any) -> tuple[Schema | None, Any]:
        return getattr(record, f"{self._name}_schema"), getattr(record, self._name)

    def changed(self, record: Any, schema: Schema | None, value: Any) -> Any:
        return replace(record, **{f"{self._name}_schema": schema, self._name: value})


def require_map(value: Any, purpose: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {_shown(value)}"
        )
    return value


def require_struct(schema: Schema | None, value: Any, purpose: str) -> dict[str, Any]:
    if not isinstance(value, dict) or schema is None or schema.type != STRUCT:
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {_shown(value)}")
    return value


def get(schema: Schema, value: dict[str, Any], name: str, *, defaults: bool = True) -> Any:
    """A field's value; its default where it is null."""
    part = value.get(name)
    if part is None and defaults:
        field = schema.field(name)
        return field.schema.default if field is not None and field.schema.has_default else None
    return part


def _shown(value: Any) -> str:
    return "null" if value is None else type(value).__name__
