"""Transforms of a whole key or value: Flatten, Cast, SetSchemaMetadata."""

from base64 import b64encode
from dataclasses import replace
from datetime import date, datetime, time
from typing import Any

from ottla.connect import java_text
from ottla.connect import schema as s
from ottla.connect.converters.headers import shown
from ottla.connect.errors import ConfigError, DataError
from ottla.connect.schema import Field, Schema
from ottla.connect.settings import Config
from ottla.connect.transforms.fields import basics
from ottla.connect.transforms.sides import Remembered, Side, get, require_map, require_struct


class Flatten:
    _PURPOSE = "flattening"

    def __init__(self, config: Config, side: str) -> None:
        self._side, self._delimiter = Side(side), config["delimiter"]
        self._schema = Remembered(self._made_schema)

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if value is None:
            return record
        if schema is None:
            changed: dict[str, Any] = {}
            self._flatten_map(require_map(value, self._PURPOSE), "", changed)
            return self._side.changed(record, None, changed)
        require_struct(schema, value, self._PURPOSE)
        changed = {}
        self._flatten_struct(schema, value, "", schema.optional, schema.default, None, changed)
        return self._side.changed(record, self._schema(schema), changed)

    def _made_schema(self, schema: Schema) -> Schema:
        fields: list[Field] = []
        self._flatten_struct(schema, None, "", schema.optional, schema.default, fields, {})
        return basics(schema, tuple(fields))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_map(self, value: dict[str, Any], prefix: str, changed: dict[str, Any]) -> None:
        for key, item in value.items():
            name = self._name(prefix, key)
            if isinstance(item, dict):
                self._flatten_map(item, name, changed)
            else:
                changed[name] = item

    def _flatten_struct(
        self,
        schema: Schema,
        value: Any,
        prefix: str,
        optional: bool,
        default: Any,
        fields: list[Field] | None,
        changed: dict[str, Any],
    ) -> None:
        """A field below an optional struct is optional: the struct may be missing."""
        for field in schema.fields:
            name = self._name(prefix, field.name)
            inner_optional = optional or field.schema.optional
            inner_default = _default(field.schema, default, field.name)
            inner = None if value is None else value.get(field.name)
            if field.schema.type == s.STRUCT:
                below = get(schema, value, field.name) if value is not None else None
                self._flatten_struct(
                    field.schema, below, name, inner_optional, inner_default, fields, changed
                )
            elif field.schema.type == s.MAP:
                raise DataError(
                    f"Flatten transformation does not support {field.schema.type} for record with schema "
                    f"(for field {name})."
                )
            else:
                if fields is not None:
                    flat = replace(
                        field.schema,
                        optional=inner_optional,
                        default=inner_default,
                        has_default=inner_default is not None,
                    )
                    fields.append(Field(name, flat))
                if value is not None:
                    changed[name] = inner


def _default(schema: Schema, parent: Any, name: str) -> Any:
    if parent is not None:
        return parent.get(name)
    return schema.default if schema.has_default else None


class Cast:
    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._defaults = config["replace.null.with.default"]
        self._whole: str | None = None
        self._updated = Remembered(self._made_schema)
        self._fields: dict[str, str] = {}
        for entry in config["spec"]:
            name, colon, kind = entry.rpartition(":")
            kind = kind.strip().upper()
            if kind not in _CASTS:
                raise ConfigError(
                    f"Invalid value {entry} for configuration spec: Invalid output type: {kind}"
                )
            if colon:
                self._fields[name.strip()] = kind
            else:
                self._whole = kind
        if self._whole and self._fields:
            raise ConfigError(
                "Cast transformations that specify a type to cast the entire value to may ony specify a single cast in "
                "their spec"
            )

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if value is None:
            return record
        if schema is None:
            if self._whole:
                return self._side.changed(record, None, cast(value, self._whole, None))
            mapping = require_map(value, "cast types")
            changed = {
                **mapping,
                **{name: cast(mapping.get(name), kind, None) for name, kind in self._fields.items()},
            }
            return self._side.changed(record, None, changed)
        if self._whole:
            return self._side.changed(record, self._updated(schema), cast(value, self._whole, schema))
        require_struct(schema, value, "cast types")
        return self._side.changed(record, self._updated(schema), self._values(schema, value))

    def _made_schema(self, schema: Schema) -> Schema:
        if self._whole is None:
            return self._struct(schema)
        return replace(
            self._schema(schema, self._whole),
            name=schema.name, version=schema.version, doc=schema.doc, parameters=schema.parameters,
        )  # fmt: skip

    def _values(self, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
        changed = {}
        for field in schema.fields:
            part = get(schema, value, field.name, defaults=self._defaults)
            changed[field.name] = (
                cast(part, self._fields[field.name], field.schema) if field.name in self._fields else part
            )
        return changed

    def _struct(self, schema: Schema) -> Schema:
        fields = tuple(
            Field(field.name, self._schema(field.schema, self._fields[field.name]))
            if field.name in self._fields
            else field
            for field in schema.fields
        )
        return replace(basics(schema, fields), optional=schema.optional)

    def _schema(self, schema: Schema, kind: str) -> Schema:
        changed = Schema(kind, optional=schema.optional)
        if schema.has_default and schema.default is not None:
            changed = replace(changed, default=cast(schema.default, kind, schema), has_default=True)
        return changed


def cast(value: Any, kind: str, schema: Schema | None) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, dict, tuple)):
        raise DataError("Cast transformation does not support casting to/from lists, maps and structs")
    if kind == s.STRING:
        return _text(value, schema)
    if isinstance(value, (date, datetime, time)):
        value = s.to_stored(schema or s.guess(value) or Schema(s.INT64), value)
    if isinstance(value, bytes):
        raise DataError("Cast transformation does not support casting bytes to anything but strings")
    try:
        return _CASTS[kind](value)
    except (ValueError, OverflowError) as error:
        raise DataError(f"Value ({value}) was out of range for requested data type") from error


def _text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, (date, datetime, time)):
        return shown(value)
    return java_text.text(value, schema)


def _integer(bits: int) -> Any:
    def cast_value(value: Any) -> int:
        if isinstance(value, str):
            whole = int(value)
            if not -(1 << bits - 1) <= whole < 1 << bits - 1 or value != value.strip() or "_" in value:
                raise ValueError(value)
            return whole
        return _wrapped(value, bits)

    return cast_value


def _wrapped(value: Any, bits: int) -> int:
    """As Java narrows: a fraction saturates at int (or long), then the high bits are dropped."""
    if isinstance(value, float):
        if value != value:
            return 0
        half = 1 << (63 if bits == 64 else 31)
        whole = half - 1 if value >= half else -half if value < -half else int(value)
    else:
        whole = int(value)
    return (whole + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _float(value: Any) -> float:
    return float(value)


def _single(value: Any) -> float:
    return java_text.to_single(float(value))


def _boolean(value: Any) -> bool:
    return value.lower() == "true" if isinstance(value, str) else bool(_wrapped(value, 64))


_CASTS: dict[str, Any] = {
    s.INT8: _integer(8), s.INT16: _integer(16), s.INT32: _integer(32), s.INT64: _integer(64),
    s.FLOAT32: _single, s.FLOAT64: _float, s.BOOLEAN: _boolean, s.STRING: None,
}  # fmt: skip


class SetSchemaMetadata:
    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._name, self._version = config["schema.name"], config["schema.version"]
        self._schema = Remembered(self._made_schema)

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if schema is None and value is None:
            return record
        if schema is None:
            raise DataError("Schema required for [updating schema metadata]")
        if schema.type != s.STRUCT:
            raise DataError(
                f"Only Struct objects supported for [updating schema metadata], found: {schema.type}"
            )
        return self._side.changed(record, self._schema(schema), value)

    def _made_schema(self, schema: Schema) -> Schema:
        return replace(
            schema,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
