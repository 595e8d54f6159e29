"""A captured table: from a row's texts to the events that Debezium writes for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.debezium import Events, envelope_schema, source_schema, topic_name
from ottla.connect.errors import ConnectError
from ottla.connect.postgres.catalog import Table, TableColumn, default_text
from ottla.connect.postgres.codecs import Codec, Modes
from ottla.connect.postgres.pgoutput import UNCHANGED, Relation, Row
from ottla.connect.postgres.values import Type, codec
from ottla.connect.schema import INT64, Field, Schema, string, struct
from ottla.errors import OttlaError

_OPTIONAL_LONG = Schema(INT64, optional=True)
SOURCE = source_schema(
    "io.debezium.connector.postgresql.Source",
    {
        "schema": string(),
        "table": string(),
        "txId": _OPTIONAL_LONG,
        "lsn": _OPTIONAL_LONG,
        "xmin": _OPTIONAL_LONG,
        "origin": string(optional=True),
        "origin_lsn": _OPTIONAL_LONG,
    },
)


@dataclass(frozen=True, slots=True)
class RowColumn:
    place: int  # in the row
    name: str
    schema: Schema
    codec: Codec
    missing: Any  # for a value that is not known: NULL, or a zero where NULL is not allowed


class CapturedTable:
    """Columns in the order of the row's texts. Types that Debezium leaves out are left out."""

    def __init__(
        self,
        prefix: str,
        table: Table,
        key: Sequence[str],
        types: Mapping[int, Type],
        modes: Modes,
        *,
        is_key_logged: bool = True,
    ) -> None:
        """`is_key_logged`: old rows of updates and deletes have the key."""
        self.is_key_logged = is_key_logged
        self.schema, self.name = table.schema, table.name
        self.full_name = f"{table.schema}.{table.name}"
        topic = topic_name(prefix, self.full_name)
        fields: list[Field] = []
        self.columns: list[RowColumn] = []
        self.width = len(table.columns)  # of a row, with columns that are not captured
        for place, column in enumerate(table.columns):
            value_codec = codec(types, column.type_oid, column.modifier, modes)
            if value_codec is not None:
                schema = _column_schema(column, value_codec)
                missing = value_codec.zero if column.is_required and not schema.has_default else None
                fields.append(Field(column.name, schema))
                self.columns.append(RowColumn(place, column.name, schema, value_codec, missing))
        row = Schema("STRUCT", optional=True, name=f"{topic}.Value", fields=tuple(fields))
        by_name = {field.name: field.schema for field in fields}
        lost = [name for name in key if name not in by_name]
        if lost or not key:
            raise ConnectError(
                f"table {self.full_name} has no key that can be captured ({', '.join(lost) or 'none'}); give it a"
                " primary key of ordinary types, or leave it out with table.exclude.list"
            )
        key_schema = struct(f"{topic}.Key", {name: by_name[name].as_optional(False) for name in key})
        self.events = Events(topic, key_schema, row, envelope_schema(topic, row, SOURCE))
        self.key_names = tuple(key)
        places = {column.name: place for place, column in enumerate(table.columns)}
        self.key_places = tuple(places[name] for name in key)
        self._plan = [
            (column.place, column.name, column.codec.parse, column.codec.unavailable, column.missing)
            for column in self.columns
        ]

    def row(self, texts: Row, before: Row | None = None) -> dict[str, Any]:
        """The values of a row; `before` has those that the log left out of the new row, if it is whole."""
        values = {}
        for place, name, parse, unavailable, missing in self._plan:
            text = texts[place]
            if text is UNCHANGED and before is not None:
                text = before[place]
            if text is None:
                values[name] = missing
            elif text.__class__ is str:
                try:
                    values[name] = parse(text)
                except (ValueError, ArithmeticError, IndexError, OttlaError) as error:
                    raise ConnectError(
                        f"{self.full_name}.{name}: cannot read {text[:100]!r}: {error}"
                    ) from error
            else:
                values[name] = missing if unavailable is None else unavailable
        return values

    def key_texts(self, texts: Row) -> tuple[str, ...]:
        """The key as PostgreSQL writes it: for comparisons and for the next chunk of a snapshot."""
        return tuple(str(texts[place]) for place in self.key_places)

    def with_key(self, new: Row, old: Row | None) -> Row:
        """An update leaves out a long key that it did not touch: the old row, or its key, has it."""
        if old is None or all(new[place] is not UNCHANGED for place in self.key_places):
            return new
        row = list(new)
        for place in self.key_places:
            row[place] = old[place] if row[place] is UNCHANGED else row[place]
        return row

    def key(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in self.key_names}


def _column_schema(column: TableColumn, value_codec: Codec) -> Schema:
    schema = value_codec.schema.as_optional(not column.is_required)
    if column.default is None or column.is_generated:
        return schema
    text = default_text(column.default)
    if text is None:
        return schema
    try:
        default = value_codec.zero if text == "now" else value_codec.parse(text)
    except (ValueError, ArithmeticError, IndexError):
        return schema  # an expression that only looks like a constant of this type
    return Schema(
        schema.type, schema.optional, schema.name, schema.version, schema.doc, schema.parameters, schema.fields,
        schema.keys, schema.values, default, True,
    )  # fmt: skip


def described_by(relation: Relation, now: Table | None) -> Table:
    """The table as it was when the change was written; what the log does not say (NOT NULL, defaults) as it is now."""
    columns = []
    for column in relation.columns:
        current = now.column(column.name) if now else None
        is_required = current.is_required if current else False
        default = current.default if current else None
        columns.append(
            TableColumn(column.name, column.type_oid, column.modifier, is_required, False, default)
        )
    return Table(relation.schema, relation.table, tuple(columns), key_of(relation, now))


def is_key_logged(relation: Relation, key: Sequence[str]) -> bool:
    """False if an index is the identity (`i`), and the key is not in it."""
    return relation.identity != "i" or {column.name for column in relation.columns if column.is_key} >= set(
        key
    )


def key_of(relation: Relation, now: Table | None) -> tuple[str, ...]:
    """The key's columns in the order of the index, if it is still there; names are those of the log."""
    if relation.identity == "d":
        flagged = tuple(column.name for column in relation.columns if column.is_key)
        return now.key if now and set(now.key) == set(flagged) else flagged
    names = {column.name for column in relation.columns}
    return tuple(name for name in (now.key if now else ()) if name in names)
