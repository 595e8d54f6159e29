"""What the server says of itself and of its tables: settings, columns, keys, defaults, character sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.connect.errors import ConfigError, ConnectError
from ottla.connect.mysql import binlog
from ottla.connect.mysql.cells import words
from ottla.connect.mysql.progress import Place
from ottla.connect.mysql.values import BYTES, INTEGERS, TEXTS, Type
from ottla.connect.selection import Selection
from ottla.connect.snapshots import name_parts

Connection = Any  # of PyMySQL, which has no types
_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_TABLES = f"""
    SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.ENGINE FROM information_schema.TABLES t
    WHERE t.TABLE_TYPE = 'BASE TABLE' AND t.TABLE_SCHEMA NOT IN {_SYSTEM} ORDER BY 1, 2
"""
_COLUMNS = """
    SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, IS_NULLABLE,
           COLUMN_DEFAULT, EXTRA, CHARACTER_SET_NAME, COLLATION_NAME
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION
"""
_KEY = """
    SELECT COLUMN_NAME FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND INDEX_NAME = 'PRIMARY' ORDER BY SEQ_IN_INDEX
"""
_NEEDED = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_metadata": "FULL"}
_KEY_TYPES = (
    INTEGERS
    | TEXTS
    | BYTES
    | {"decimal", "date", "datetime", "timestamp", "time", "year", "uuid", "inet4", "inet6"}
)
# Types that the log has as plain bytes.
HIDDEN_TYPES = frozenset({"uuid", "inet6", "inet4"})
_LOGGED = {
    binlog.TINY: "tinyint", binlog.SHORT: "smallint", binlog.INT24: "mediumint", binlog.LONG: "int",
    binlog.LONGLONG: "bigint", binlog.FLOAT: "float", binlog.DOUBLE: "double", binlog.NEWDECIMAL: "decimal",
    binlog.DATE: "date", binlog.YEAR: "year", binlog.DATETIME2: "datetime", binlog.TIMESTAMP2: "timestamp",
    binlog.TIME2: "time", binlog.BIT: "bit", binlog.ENUM: "enum", binlog.SET: "set", binlog.JSON: "json",
    binlog.GEOMETRY: "geometry",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    type: Type
    is_required: bool
    default: str | None  # a constant's text; None: none, or an expression
    has_default: bool = False
    charset: str | None = None
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    database: str
    name: str
    columns: tuple[TableColumn, ...]
    key: tuple[str, ...]

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"

    def column(self, name: str) -> TableColumn | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Server:
    """What is asked once for each connection."""

    server_id: int
    is_mariadb: bool
    charsets: dict[int, str]  # by the number of a collation


def quoted(*names: str) -> str:
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def rows(connection: Connection, statement: str, parameters: Any = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def server(connection: Connection) -> Server:
    ((server_id, version),) = rows(connection, "SELECT @@server_id, VERSION()")
    is_mariadb = "mariadb" in version.lower()
    where = "COLLATIONS"
    if is_mariadb and rows(
        connection,
        "SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'"
        " AND TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'ID'",
    ):
        where = "COLLATION_CHARACTER_SET_APPLICABILITY"  # since 10.10 the other one has not all
    numbers = rows(
        connection, f"SELECT ID, CHARACTER_SET_NAME FROM information_schema.{where} WHERE ID IS NOT NULL"
    )
    return Server(int(server_id), is_mariadb, {int(number): name for number, name in numbers})


def check_settings(connection: Connection) -> None:
    """The log has what a capture needs, or it is told what to set."""
    names = ", ".join(f"'{name}'" for name in _NEEDED)
    values = dict(rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})"))
    for name, needed in _NEEDED.items():
        value = values.get(name)
        if value is None:
            raise ConfigError(
                f"the server has no {name}: change capture needs MariaDB 10.5 or MySQL 8.0.14, or later"
            )
        if value.upper() != needed:
            raise ConfigError(
                f"the server's {name} is {value}, and change capture needs {needed}; set it in its file"
            )


def log_end(connection: Connection, *, is_mariadb: bool) -> Place:
    try:
        status = rows(connection, "SHOW MASTER STATUS")
    except Exception:
        if is_mariadb:
            raise
        status = rows(connection, "SHOW BINARY LOG STATUS")  # since MySQL 8.4
    if not status:
        raise ConfigError("the server has no binary log; start it with log_bin")
    return Place.at(status[0][0], int(status[0][1]))


def captured(connection: Connection, selection: Selection, *, with_rows: bool) -> list[str]:
    """The tables to capture; refuses what cannot be: no key, or an engine whose rows have no snapshot."""
    tables = []
    for database, name, engine in rows(connection, _TABLES):
        if not selection.takes(database, name):
            continue
        described = table(connection, database, name)
        if described is None or not described.key:
            raise ConfigError(
                f"table {database}.{name} has no primary key, so its rows cannot be told apart; add a key, or leave it"
                " out with table.exclude.list"
            )
        if with_rows and engine != "InnoDB":
            raise ConfigError(
                f"table {database}.{name} has the engine {engine}, which cannot read rows as they were at a place in"
                " the log; ALTER TABLE ... ENGINE=InnoDB, or leave it out with table.exclude.list"
            )
        for key in described.key:
            column = described.column(key)
            if column is None or column.type.name not in _KEY_TYPES:
                raise ConfigError(
                    f"the key of table {database}.{name} has column {key} of the type"
                    f" {column and column.type.name}, whose order cannot be followed; leave the table out with"
                    " table.exclude.list"
                )
        tables.append((database, name))
    return [".".join(table) for table in sorted(tables, key=lambda table: selection.order(*table))]


def table(connection: Connection, database: str, name: str) -> Table | None:
    """None if there is no such table now."""
    columns = rows(connection, _COLUMNS, (database, name))
    if not columns:
        return None
    key = rows(connection, _KEY, (database, name))
    return Table(database, name, tuple(map(_column, columns)), tuple(row[0] for row in key))


def parts(connection: Connection, name: str) -> tuple[str, str]:
    return name_parts(name, lambda *pair: table(connection, *pair) is not None)


def _column(row: tuple[Any, ...]) -> TableColumn:
    name, kind, full, precision, scale, fraction, nullable, default, extra, charset, collation = row
    constant, has_default = default_text(default, extra or "")
    described = Type(
        kind,
        "unsigned" in full or "zerofill" in full,
        int(precision or 0),
        int(scale or 0),
        int(fraction or 0),
        labels(full) if kind in ("enum", "set") else (),
    )
    return TableColumn(name, described, nullable == "NO", constant, has_default, charset, collation)


_LABEL = re.compile(r"'((?:[^'\\]|''|\\.)*)'")


def labels(column_type: str) -> tuple[str, ...]:
    """Of `enum('a','b')`."""
    return tuple(match.replace("''", "'") for match in _LABEL.findall(column_type))


NOW = "now"
_NOW = re.compile(r"^(?:current_timestamp|now|localtime|localtimestamp)(?:\(\d*\))?", re.I)
_CONSTANT = re.compile(r"^(?:'((?:[^']|'')*)'|(-?[0-9.]+(?:e[+-]?\d+)?)|b'([01]+)')$", re.I | re.S)


def default_text(default: str | None, extra: str) -> tuple[str | None, bool]:
    """A constant's text, and whether there is one. MariaDB writes constants as SQL does, and NULL as NULL."""
    if default is None or "GENERATED" in extra.upper():
        return None, False
    if default.upper() == "NULL":
        return None, True
    if _NOW.match(default):
        return NOW, True
    match = _CONSTANT.match(default)
    if match is None:
        return None, False
    if match[1] is not None:
        return match[1].replace("''", "'").replace("\\\\", "\\"), True
    return (match[2] if match[2] is not None else f"b{match[3]}"), True


def described_by(
    logged: binlog.TableMap, now: Table | None, charsets: Mapping[int, str] | None = None
) -> Table:
    """The table as it was when the change was written; defaults, which the log does not have, as they are now."""
    columns = []
    for column in logged.columns:
        current = now.column(column.name) if now else None
        kind = _logged_type(column, current, charsets or {})
        is_same = current is not None and _family(current.type.name) == _family(kind.name)
        columns.append(
            TableColumn(
                column.name,
                kind,
                not column.is_optional,
                current.default if current and is_same else None,
                current.has_default if current and is_same else False,
            )
        )
    return Table(logged.database, logged.table, tuple(columns), logged.key)


def _family(name: str) -> str:
    """The log does not tell texts from texts, nor bytes from bytes."""
    return "text" if name in TEXTS else "bytes" if name in BYTES else name


def _logged_type(column: binlog.Column, current: TableColumn | None, charsets: Mapping[int, str]) -> Type:
    kind = column.type
    if kind in _LOGGED:
        name = _LOGGED[kind]
        if name == "geometry" and current is not None:
            name = current.type.name
        is_decimal, is_time = name == "decimal", name in ("datetime", "timestamp", "time")
        return Type(
            name,
            column.is_unsigned,
            column.length if is_decimal or name == "bit" else 0,
            column.digits if is_decimal else 0,
            column.length if is_time else 0,
            tuple(words(column, charsets)),
        )
    if current is not None and current.type.name in HIDDEN_TYPES:
        return Type(current.type.name)
    if kind not in (binlog.VARCHAR, binlog.STRING, binlog.VAR_STRING, binlog.BLOB):
        raise ConnectError(
            f"column {column.name} has the type {kind} in the binary log, which is not read; leave its table out with"
            " table.exclude.list"
        )
    is_bytes = column.collation in (None, binlog.BINARY)
    return Type("varbinary" if is_bytes else "varchar")
