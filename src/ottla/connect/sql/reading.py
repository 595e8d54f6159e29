"""Rows of a database as Connect's values: the schema of a table, and values as drivers give them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from ottla.connect import schema as schemas
from ottla.connect.schema import Schema
from ottla.connect.sql.dialects import Dialect

_TABLE_COLUMNS = (
    "SELECT column_name, data_type, is_nullable, numeric_precision, numeric_scale FROM information_schema.columns"
    " WHERE table_name = {mark} AND table_schema = {schema} ORDER BY ordinal_position"
)
_DEFAULT_SCHEMA = {"postgresql": "current_schema()", "mariadb": "database()", "duckdb": "current_schema()"}
# The beginnings of type names, longest first where one begins another.
_BY_NAME: tuple[tuple[str, Schema], ...] = (
    ("boolean", Schema(schemas.BOOLEAN)),
    ("tinyint", schemas.integer(8)),
    ("smallint", schemas.integer(16)),
    ("bigint", schemas.integer(64)),
    ("hugeint", schemas.decimal(0)),
    ("integer", schemas.integer(32)),
    ("int", schemas.integer(32)),
    ("real", Schema(schemas.FLOAT32)),
    ("float", Schema(schemas.FLOAT32)),
    ("double", Schema(schemas.FLOAT64)),
    ("date", schemas.day()),
    ("timestamp", schemas.timestamp()),
    ("time", schemas.time_of_day()),
    ("bytea", Schema(schemas.BYTES)),
    ("blob", Schema(schemas.BYTES)),
    ("binary", Schema(schemas.BYTES)),
    ("varbinary", Schema(schemas.BYTES)),
    ("longblob", Schema(schemas.BYTES)),
)
_SQLITE = (
    ("BOOL", Schema(schemas.BOOLEAN)),
    ("TIMESTAMP", schemas.timestamp()),
    ("DATETIME", schemas.timestamp()),
    ("DATE", schemas.day()),
    ("INT", schemas.integer(64)),
    ("CHAR", schemas.string()),
    ("TEXT", schemas.string()),
    ("BLOB", Schema(schemas.BYTES)),
    ("REAL", Schema(schemas.FLOAT64)),
    ("DOUB", Schema(schemas.FLOAT64)),
    ("FLOA", Schema(schemas.FLOAT64)),
    ("", Schema(schemas.FLOAT64)),
)


def table_schema(database: Dialect, table: str) -> Schema | None:
    """None if there is no such table."""
    if database.name == "sqlite":
        rows = database.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,))
        fields = {row[0]: _sqlite(row[1]).as_optional(not (row[2] or row[3])) for row in rows}
    else:
        schema, _, name = table.rpartition(".")
        statement = _TABLE_COLUMNS.format(
            mark=database.mark, schema=database.mark if schema else _DEFAULT_SCHEMA[database.name]
        )
        rows = database.execute(statement, (name, schema) if schema else (name,))
        fields = {row[0]: _by_type(row[1], row[3], row[4]).as_optional(row[2] == "YES") for row in rows}
    return schemas.struct(table.rpartition(".")[2], fields) if fields else None


def _sqlite(declared: str) -> Schema:
    return next(schema for part, schema in _SQLITE if part in declared.upper())


def _by_type(name: str, precision: Any, scale: Any) -> Schema:
    lower = name.lower()
    if lower.startswith(("numeric", "decimal")):
        return schemas.decimal(int(scale)) if scale is not None else Schema(schemas.FLOAT64)
    if lower.startswith("datetime"):
        return schemas.timestamp()
    if lower.startswith(("interval", "time with")):
        return schemas.string()
    return next((schema for prefix, schema in _BY_NAME if lower.startswith(prefix)), schemas.string())


def query_schema(names: list[str], rows: list[tuple[Any, ...]]) -> Schema:
    """Of a query's result: from the first value of each column; all may be null."""
    fields = {}
    for i, name in enumerate(names):
        value = next((row[i] for row in rows if row[i] is not None), None)
        guessed = schemas.guess(value) if value is not None else None
        fields[name] = (guessed or schemas.string()).as_optional()
    return schemas.struct(None, fields)


def value_of(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    match schema.logical or schema.type:
        case schemas.TIMESTAMP:
            return _moment(value)
        case schemas.DATE:
            return value if type(value) is date else _moment(value).date()
        case schemas.TIME:
            return (datetime.min + value).time() if isinstance(value, timedelta) else value
        case schemas.DECIMAL:
            return schemas.rescaled(Decimal(value), int((schema.parameters or {})[schemas.SCALE]))
        case schemas.BYTES:
            return bytes(value)
        case schemas.STRING:
            return value if isinstance(value, str) else _text(value)
        case schemas.FLOAT32 | schemas.FLOAT64:
            return float(value)
        case schemas.BOOLEAN:
            return bool(value)
    return value


def _moment(value: Any) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if type(value) is date:
        value = datetime(value.year, value.month, value.day)
    moment: datetime = value
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _text(value: Any) -> str:
    match value:
        case dict() | list():
            return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
        case datetime() | date() | time():
            return value.isoformat()
        case UUID() | Decimal() | int() | float():
            return str(value)
        case bytes():
            return value.decode(errors="replace")
    return str(value)
