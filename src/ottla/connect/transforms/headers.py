"""Transforms of headers and topics: InsertHeader, DropHeaders, HeaderFrom, RegexRouter, Filter."""

import re
from dataclasses import replace
from typing import Any

from ottla.connect.converters.headers import parse
from ottla.connect.errors import ConfigError, DataError
from ottla.connect.schema import Schema
from ottla.connect.settings import Config
from ottla.connect.spi import Header
from ottla.connect.transforms.fields import basics
from ottla.connect.transforms.sides import Remembered, Side, get, require_map, require_struct


class InsertHeader:
    def __init__(self, config: Config) -> None:
        schema, value = parse(config["value.literal"])
        self._header = Header(config["header"], value, schema)

    def apply(self, record: Any) -> Any:
        return replace(record, headers=(*record.headers, self._header))


class DropHeaders:
    def __init__(self, config: Config) -> None:
        self._names = set(config["headers"])

    def apply(self, record: Any) -> Any:
        return replace(
            record, headers=tuple(header for header in record.headers if header.key not in self._names)
        )


class HeaderFrom:
    def __init__(self, config: Config, side: str) -> None:
        self._side = Side(side)
        self._fields, self._headers = config["fields"], config["headers"]
        self._moves = config["operation"] == "move"
        self._schema = Remembered(self._made_schema)
        self._defaults = config["replace.null.with.default"]
        if len(self._fields) != len(self._headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")

    def apply(self, record: Any) -> Any:
        schema, value = self._side.of(record)
        purpose = f"header {'move' if self._moves else 'copy'}"
        added: list[Header] = []
        if schema is None:
            mapping = require_map(value, purpose)
            added = [
                Header(name, mapping.get(field))
                for field, name in zip(self._fields, self._headers, strict=True)
            ]
            if self._moves:
                value = {name: item for name, item in mapping.items() if name not in self._fields}
        else:
            require_struct(schema, value, purpose)
            for name, header in zip(self._fields, self._headers, strict=True):
                field = schema.field(name)
                if field is None:
                    raise DataError(f"Field does not exist: {name}")
                added.append(Header(header, get(schema, value, name, defaults=self._defaults), field.schema))
            if self._moves:
                schema = basics(
                    schema, tuple(field for field in schema.fields if field.name not in self._fields)
                )
                value = {name: item for name, item in value.items() if name not in self._fields}
        return replace(self._side.changed(record, schema, value), headers=(*record.headers, *added))

    def _made_schema(self, schema: Schema) -> Schema:
        return basics(schema, tuple(field for field in schema.fields if field.name not in self._fields))


class RegexRouter:
    def __init__(self, config: Config) -> None:
        try:
            self._pattern = re.compile(config["regex"])
        except re.error as error:
            raise ConfigError(
                f"Invalid value {config['regex']} for configuration regex: Invalid regex: {error}"
            ) from None
        # Java's $1 and \$ as Python's \g<1> and $.
        plain = config["replacement"].replace("\\$", "\0").replace("\\", "\\\\")
        self._replacement = re.sub(r"\$(\d)", r"\\g<\1>", re.sub(r"\$\{(\w+)\}", r"\\g<\1>", plain)).replace(
            "\0", "$"
        )

    def apply(self, record: Any) -> Any:
        match = self._pattern.fullmatch(record.topic)
        return record if match is None else replace(record, topic=match.expand(self._replacement))


class Filter:
    """Drops every record that its predicate lets through to it."""

    def __init__(self, config: Config) -> None: ...

    def apply(self, record: Any) -> Any:
        return None
