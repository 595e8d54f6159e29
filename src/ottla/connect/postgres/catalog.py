"""What PostgreSQL's catalog says of tables: columns, keys, defaults, types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from ottla.connect.errors import ConfigError
from ottla.connect.postgres.values import Type
from ottla.connect.selection import Selection
from ottla.connect.snapshots import name_parts

Connection = psycopg.Connection[tuple[Any, ...]]

_TYPES = """
    SELECT t.oid::bigint, t.typname::text, t.typtype::text,
           CASE WHEN t.typcategory = 'A' THEN t.typelem::bigint ELSE 0 END, t.typbasetype::bigint, t.typtypmod,
           COALESCE((SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e
                     WHERE e.enumtypid = t.oid), ARRAY[]::text[])
    FROM pg_type t
"""
_TABLES = """
    SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname <> 'information_schema'
      AND n.nspname NOT LIKE 'pg\\_%%' ORDER BY 1, 2
"""
_COLUMNS = """
    SELECT a.attname::text, a.atttypid::bigint, a.atttypmod, a.attnotnull, a.attgenerated <> '',
           pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEY = """
    SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(number, place), pg_attribute a
    WHERE i.indrelid = %s::regclass AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.number
    ORDER BY k.place
"""
_IDENTITY = """
    SELECT a.attname::text FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisreplident
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey)
    WHERE c.oid = %s::regclass AND c.relreplident = 'i'
"""
_SHAPES = """
    SELECT a.attrelid::bigint,
           md5(string_agg(concat_ws(' ', a.attname, a.attnotnull, d.adbin::text), ',' ORDER BY a.attnum))
           || COALESCE((SELECT i.indkey::text FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary), '')
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped GROUP BY a.attrelid
"""
KEY_NOT_LOGGED = (
    "has an index without its key as REPLICA IDENTITY, so the log does not tell which rows are changed"
)


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type_oid: int
    modifier: int
    is_required: bool
    is_generated: bool
    default: str | None  # the expression


@dataclass(frozen=True, slots=True)
class Table:
    schema: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]

    def column(self, name: str) -> TableColumn | None:
        return next((column for column in self.columns if column.name == name), None)


def quoted(schema: str, table: str) -> str:
    return ".".join('"' + name.replace('"', '""') + '"' for name in (schema, table))


def types(connection: Connection) -> dict[int, Type]:
    rows = connection.execute(_TYPES).fetchall()
    return {row[0]: Type._make((*row[:6], tuple(row[6]))) for row in rows}


def table(connection: Connection, schema: str, name: str) -> Table | None:
    """None if there is no such table now: it was dropped or renamed after the change was written."""
    there = connection.execute("SELECT to_regclass(%s)", (quoted(schema, name),)).fetchone()
    if there is None or there[0] is None:
        return None
    columns = connection.execute(_COLUMNS, (quoted(schema, name),)).fetchall()
    key = connection.execute(_KEY, (quoted(schema, name),)).fetchall()
    return Table(schema, name, tuple(TableColumn(*row) for row in columns), tuple(row[0] for row in key))


def parts(connection: Connection, name: str) -> tuple[str, str]:
    return name_parts(name, lambda *pair: table(connection, *pair) is not None)


def shapes(connection: Connection, tables: Sequence[int]) -> dict[int, str]:
    """By the tables' numbers, a text that changes with what the log does not say: NOT NULL, defaults, the key."""
    return dict(connection.execute(_SHAPES, (list(tables),)).fetchall()) if tables else {}


def refused(reason: str) -> None:
    raise ConfigError(reason)


def captured(
    connection: Connection, selection: Selection, refuse: Callable[[str], None] = refused
) -> list[tuple[str, str]]:
    """The tables to capture; `refuse` gets the reasons why others cannot be."""
    names = []
    for schema, name in connection.execute(_TABLES).fetchall():
        if not selection.takes(schema, name):
            continue
        reason = _reason_against(connection, schema, name)
        if reason is None:
            names.append((schema, name))
        else:
            refuse(f"table {schema}.{name} {reason}, or leave it out with table.exclude.list")
    return sorted(names, key=lambda name: selection.order(*name))


def _reason_against(connection: Connection, schema: str, name: str) -> str | None:
    key = [row[0] for row in connection.execute(_KEY, (quoted(schema, name),))]
    if not key:
        return "has no primary key, so its rows cannot be told apart; add a key"
    identity = {row[0] for row in connection.execute(_IDENTITY, (quoted(schema, name),))}
    if identity and not identity >= set(key):
        return f"{KEY_NOT_LOGGED}; ALTER TABLE ... REPLICA IDENTITY DEFAULT"
    return None


_LITERAL = re.compile(
    r"^\(*(?:'((?:[^']|'')*)'|(-?[0-9.]+(?:e[+-]?\d+)?|true|false))\)*(?:::[\w\s\"().,\[\]]+)?\)*$", re.I
)
_COUNTER = re.compile(r"^nextval\(", re.I)
_NOW = re.compile(
    r"^\(*(now\(\)|current_timestamp|localtimestamp|current_date|transaction_timestamp\(\))", re.I
)


def default_text(expression: str) -> str | None:
    """The text of a constant default; '0' for a sequence; 'now' for the time; None for any other expression."""
    if _COUNTER.match(expression):
        return "0"
    if _NOW.match(expression):
        return "now"
    match = _LITERAL.match(expression)
    if match is None:
        return None
    if match[1] is not None:
        return match[1].replace("''", "'")
    return {"true": "t", "false": "f"}.get(match[2].lower(), match[2])
