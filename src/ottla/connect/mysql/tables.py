"""A captured table: from a row's cells to the events that Debezium writes for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ottla.connect.debezium import Events, envelope_schema, source_schema, topic_name
from ottla.connect.errors import ConnectError
from ottla.connect.mysql.catalog import NOW, Table, TableColumn
from ottla.connect.mysql.cells import Cell, Row
from ottla.connect.mysql.values import Codec, Modes, codec
from ottla.connect.schema import INT32, INT64, Field, Schema, string, struct
from ottla.errors import OttlaError

_LONG, _OPTIONAL_LONG, _INT = Schema(INT64), Schema(INT64, optional=True), Schema(INT32)


def source_of(connector: str) -> Schema:
    """The block `source` of the connector `mariadb` or `mysql`."""
    return source_schema(
        f"io.debezium.connector.{connector}.Source",
        {
            "table": string(optional=True),
            "server_id": _LONG,
            "gtid": string(optional=True),
            "file": string(),
            "pos": _LONG,
            "row": _INT,
            "thread": _OPTIONAL_LONG,
            "query": string(optional=True),
        },
    )


class CapturedTable:
    """Columns in the order of the row's cells."""

    def __init__(self, prefix: str, table: Table, modes: Modes, source: Schema) -> None:
        self.database, self.name, self.full_name = table.database, table.name, table.full_name
        self.described = table
        topic = topic_name(prefix, self.full_name)
        fields: list[Field] = []
        self._plan: list[tuple[str, Callable[[Any], Any], Any]] = []
        for column in table.columns:
            value_codec = codec(column.type, modes)
            schema = _column_schema(column, value_codec)
            missing = value_codec.zero if column.is_required else None
            fields.append(Field(column.name, schema))
            self._plan.append((column.name, value_codec.parse, missing))
        row = Schema("STRUCT", optional=True, name=f"{topic}.Value", fields=tuple(fields))
        by_name = {field.name: field.schema for field in fields}
        if not table.key:
            raise ConnectError(
                f"table {self.full_name} has no primary key, so its rows cannot be told apart; add a key, or leave it"
                " out with table.exclude.list"
            )
        key_schema = struct(f"{topic}.Key", {name: by_name[name].as_optional(False) for name in table.key})
        self.events = Events(topic, key_schema, row, envelope_schema(topic, row, source))
        places = {column.name: place for place, column in enumerate(table.columns)}
        self._key_places = tuple(places[name] for name in table.key)

    def row(self, cells: Row) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for (name, parse, missing), cell in zip(self._plan, cells, strict=True):
            if cell is None:
                values[name] = None
                continue
            try:
                value = parse(cell)
            except (ValueError, ArithmeticError, IndexError, OttlaError) as error:
                raise ConnectError(f"{self.full_name}.{name}: cannot read {cell!r:.100}: {error}") from error
            values[name] = missing if value is None else value
        return values

    def key_texts(self, cells: Row) -> tuple[str, ...]:
        """For comparisons, and for the next chunk of a snapshot."""
        return tuple(key_text(cells[place]) for place in self._key_places)

    def key(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in self.described.key}


def key_text(cell: Cell) -> str:
    return cell.hex() if isinstance(cell, bytes) else str(cell)


def _column_schema(column: TableColumn, value_codec: Codec) -> Schema:
    schema = value_codec.schema.as_optional(not column.is_required)
    if not column.has_default:
        return schema
    if column.default is None:
        return replace(schema, default=None, has_default=True)
    if column.default == NOW and column.type.name in ("timestamp", "datetime"):
        return replace(schema, default=value_codec.zero, has_default=True) if column.is_required else schema
    try:
        default = value_codec.parse(_constant(column, column.default))
    except (ValueError, ArithmeticError, IndexError, TypeError):
        return schema  # an expression that only looks like a constant of this type
    return schema if default is None else replace(schema, default=default, has_default=True)


def _constant(column: TableColumn, text: str) -> Cell:
    """The cell that a constant default gives."""
    kind = column.type
    if kind.name == "bit":
        return int(text.removeprefix("b"), 2).to_bytes((kind.precision + 7) // 8, "big")
    if kind.name in ("binary", "varbinary"):
        return text.encode()
    return text
