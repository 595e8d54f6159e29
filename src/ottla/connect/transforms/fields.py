"""Transforms of single fields: InsertField, ReplaceField, MaskField, ValueToKey, HoistField, ExtractField."""

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from ottla.connect import schema as s
from ottla.connect.errors import ConfigError, DataError
from ottla.connect.schema import Field, Schema
from ottla.connect.settings import Config
from ottla.connect.spi import SinkRecord
from ottla.connect.transforms.columns import Column
from ottla.connect.transforms.sides import Remembered, Side, get, require_map, require_struct


def basics(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    """A struct with the name, version, doc and parameters of another; required, as Java's builders leave it."""
    return Schema(
        s.STRUCT, name=schema.name, version=schema.version, doc=schema.doc, parameters=schema.parameters, fields=fields
    )  # fmt: skip


class InsertField:
    _PURPOSE = "field insertion"

    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._defaults = config["replace.null.with.default"]
        self._wanted = {
            what: _spec(config[f"{what}.field"])
            for what in ("topic", "partition", "offset", "timestamp", "static")
            if config[f"{what}.field"] is not None
        }
        self._static = config["static.value"]
        self._schema = Remembered(self._made_schema)
        if not self._wanted:
            raise ConfigError("No field insertion configured")
        if "static" in self._wanted and self._static is None:
            raise ConfigError(
                "Invalid value null for configuration static.value: No value specified for static field"
            )

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if value is None:
            return record
        if schema is None:
            changed = dict(require_map(value, self._PURPOSE))
            for what, (name, _) in self._wanted.items():
                inserted = self._inserted(record, what)
                if inserted is not None:
                    changed[name] = inserted
            return self._side.changed(record, None, changed)
        require_struct(schema, value, self._PURPOSE)
        changed = {
            field.name: get(schema, value, field.name, defaults=self._defaults) for field in schema.fields
        }
        for what, (name, _) in self._wanted.items():
            inserted = self._inserted(record, what)
            if inserted is not None:
                changed[name] = s.moment(inserted) if what == "timestamp" else inserted
        return self._side.changed(record, self._schema(schema), changed)

    def _made_schema(self, schema: Schema) -> Schema:
        wanted = self._wanted.items()
        added = [Field(name, _INSERTED[what].as_optional(optional)) for what, (name, optional) in wanted]
        return basics(schema, (*schema.fields, *added))

    def _inserted(self, record: Any, what: str) -> Any:
        match what:
            case "topic":
                return record.topic
            case "partition":
                return record.partition
            case "offset":
                if not isinstance(record, SinkRecord):
                    raise DataError(f"Only SinkRecord supported for [{self._PURPOSE}], found: SourceRecord")
                return record.offset
            case "timestamp":
                return record.timestamp_ms
            case _:
                return self._static


_INSERTED = {
    "topic": Schema(s.STRING), "partition": Schema(s.INT32), "offset": Schema(s.INT64),
    "timestamp": s.timestamp(), "static": Schema(s.STRING),
}  # fmt: skip


def _spec(text: str) -> tuple[str, bool]:
    """`name!` is required, `name?` and `name` are optional."""
    if text.endswith("!"):
        return text[:-1], False
    return text.removesuffix("?"), True


class ReplaceField:
    _PURPOSE = "field replacement"

    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._defaults = config["replace.null.with.default"]
        self._exclude, self._include = set(config["exclude"]), set(config["include"])
        self._renames = dict(_rename(rename) for rename in config["renames"])
        self._schema = Remembered(self._made_schema)

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if value is None:
            return record
        if schema is None:
            mapping = require_map(value, self._PURPOSE)
            changed = {
                self._renames.get(name, name): item for name, item in mapping.items() if self._keeps(name)
            }
            return self._side.changed(record, None, changed)
        require_struct(schema, value, self._PURPOSE)
        changed = {
            self._renames.get(field.name, field.name): get(schema, value, field.name, defaults=self._defaults)
            for field in schema.fields
            if self._keeps(field.name)
        }
        return self._side.changed(record, self._schema(schema), changed)

    def _made_schema(self, schema: Schema) -> Schema:
        fields = [field for field in schema.fields if self._keeps(field.name)]
        return basics(
            schema, tuple(Field(self._renames.get(field.name, field.name), field.schema) for field in fields)
        )

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)


def _rename(text: str) -> tuple[str, str]:
    old, colon, new = text.partition(":")
    if not colon or not old or not new or ":" in new:
        raise ConfigError(f"Invalid value {text} for configuration renames: Invalid rename mapping: {text}")
    return old, new


class MaskField:
    _PURPOSE = "mask fields"

    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._fields = set(config["fields"])
        self._replacement = config["replacement"]
        self._defaults = config["replace.null.with.default"]

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if schema is None:
            mapping = require_map(value, self._PURPOSE)
            changed = {**mapping, **{name: self._masked(mapping.get(name), None) for name in self._fields}}
            return self._side.changed(record, None, changed)
        require_struct(schema, value, self._PURPOSE)
        changed = {}
        for field in schema.fields:
            part = get(schema, value, field.name, defaults=self._defaults)
            changed[field.name] = self._masked(part, field.schema) if field.name in self._fields else part
        return self._side.changed(record, schema, changed)

    def _masked(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        if isinstance(value, Column):
            return value.masked(self._replacement)
        return _nothing(value) if self._replacement is None else self._replaced(value, schema)

    def _replaced(self, value: Any, schema: Schema | None) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
            raise DataError(
                f"Cannot mask value of type {type(value).__name__} with custom replacement value."
            )
        kind = type(value)
        try:
            changed = kind(self._replacement)
        except (ValueError, ArithmeticError) as error:
            raise DataError(f"Unable to convert {self._replacement} to {kind.__name__}") from error
        if schema is not None:
            s.check(schema, changed)
        return changed


def _nothing(value: Any) -> Any:
    match value:
        case bool():
            return False
        case int():
            return 0
        case float():
            return 0.0
        case str():
            return ""
        case Decimal():
            return Decimal(0)
        case datetime():
            return datetime(1970, 1, 1, tzinfo=UTC)
        case date():
            return date(1970, 1, 1)
        case time():
            return time()
        case list() | tuple():
            return []
        case dict():
            return {}
        case _:
            raise DataError(f"Cannot mask value of type: {type(value).__name__}")


class ValueToKey:
    _PURPOSE = "copying fields from value to key"

    def __init__(self, config: Config) -> None:
        self._fields = config["fields"]
        self._defaults = config["replace.null.with.default"]
        self._schema = Remembered(self._made_schema)

    def apply(self, record: Any) -> Any:
        schema, value = record.value_schema, record.value
        if schema is None:
            mapping = require_map(value, self._PURPOSE)
            return replace(record, key_schema=None, key={name: mapping.get(name) for name in self._fields})
        require_struct(schema, value, self._PURPOSE)
        key_schema = self._schema(schema)
        key = {name: get(schema, value, name, defaults=self._defaults) for name in self._fields}
        return replace(record, key_schema=key_schema, key=key)

    def _made_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append(field)
        return Schema(s.STRUCT, fields=tuple(fields))


class HoistField:
    def __init__(self, config: Config, side: str) -> None:
        self._side, self._field = Side(side), config["field"]
        self._schema = Remembered(lambda schema: Schema(s.STRUCT, fields=(Field(self._field, schema),)))

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        changed = None if schema is None else self._schema(schema)
        return self._side.changed(record, changed, {self._field: value})


class ExtractField:
    """With `field.syntax.version=V2` dots go down into nested fields, backticks hold names with dots together."""

    _PURPOSE = "field extraction"

    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._text = config["field"]
        self._path = steps(self._text) if config["field.syntax.version"] == "V2" else [self._text]
        self._defaults = config["replace.null.with.default"]

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        if schema is None:
            part: Any = value
            for name in self._path:
                part = require_map(part, self._PURPOSE).get(name) if part is not None else None
            return self._side.changed(record, None, part)
        if schema.type != s.STRUCT:
            raise DataError(f"Only Struct objects supported for [{self._PURPOSE}], found: {schema.type}")
        inner: Schema = schema
        part = value
        for name in self._path:
            field = inner.field(name)
            if field is None:
                raise DataError(f"Unknown field: {self._text}")
            part = None if part is None else get(inner, part, name, defaults=self._defaults)
            inner = field.schema
        return self._side.changed(record, inner, part)


def steps(path: str) -> list[str]:
    """The names of a nested field's path."""
    part, rest = [], path
    while rest:
        if rest.startswith("`"):
            end = rest.find("`.", 1) if "`." in rest[1:] else len(rest) - 1
            if rest[end : end + 1] != "`":
                raise ConfigError(f"Incomplete backtick pair in path: [{path}]")
            part.append(rest[1:end])
            rest = rest[end + 2 :]
        else:
            name, _, rest = rest.partition(".")
            part.append(name)
    return part
