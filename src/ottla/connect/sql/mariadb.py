"""MariaDB and MySQL. CREATE and ALTER end a transaction there: they go through a connection of their own, before
the step's transaction has touched the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import pymysql  # type: ignore[import-untyped]

from ottla.connect.sql import columns as kinds
from ottla.connect.sql.dialects import Dialect
from ottla.connect.sql.rows import Group

_AWAY = {
    1040,
    1205,
    1213,
    2002,
    2003,
    2006,
    2013,
    2055,
}  # too many, lock wait, deadlock, connections that fail
_REFUSED = {1292, 1690, 3819, 4025}  # wrong value, out of range, CHECK of MySQL, CHECK of MariaDB


class MariaDialect(Dialect):
    name = "mariadb"
    quote = "`"
    mark = "%s"
    lock = "FOR UPDATE"
    default_decimal = "DECIMAL(65, 30)"
    # Default collations ignore case: topics Visits and visits would share a position, keys a and A a row.
    exact_text = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    text_key = f"VARCHAR(255){exact_text}"
    bytes_key = "VARBINARY(255)"
    types: ClassVar[Mapping[str, str]] = {
        kinds.BOOLEAN: "BOOLEAN", kinds.SMALL: "SMALLINT", kinds.INTEGER: "INT", kinds.LONG: "BIGINT",
        kinds.SINGLE: "FLOAT", kinds.DOUBLE: "DOUBLE", kinds.TEXT: "LONGTEXT", kinds.BYTES: "LONGBLOB",
        kinds.DECIMAL: "DECIMAL", kinds.DATE: "DATE", kinds.TIME: "TIME(6)", kinds.TIMESTAMP: "DATETIME(6)",
        kinds.ZONED: "DATETIME(6)", kinds.JSON: "JSON", kinds.UUID: "CHAR(36)",
    }  # fmt: skip

    def __init__(self, rest: str, user: str | None, password: str | None) -> None:
        parts = urlsplit(rest)
        options = dict(parse_qsl(parts.query))
        self._options: dict[str, Any] = {
            "host": parts.hostname or "localhost",
            "port": parts.port or 3306,
            "database": parts.path.lstrip("/"),
            "user": user or options.get("user"),
            "password": password or options.get("password") or "",
            "autocommit": True,
            "charset": "utf8mb4",
            "connect_timeout": 10,
            "init_command": "SET time_zone = '+00:00', lock_wait_timeout = 30, innodb_lock_wait_timeout = 30",
        }
        self._connection = pymysql.connect(**self._options)

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters) or None)
            return list(cursor.fetchall()) if cursor.description else []

    def query(
        self, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, tuple(parameters) or None)
            return [column[0] for column in cursor.description], list(cursor.fetchall())

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, list(rows))  # INSERT becomes one statement of many rows

    def define(self, statement: str) -> None:
        with pymysql.connect(**self._options) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def close(self) -> None:
        self._connection.close()

    def errors(self) -> tuple[type[Exception], ...]:
        return (pymysql.Error,)

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, pymysql.InterfaceError) or bool(error.args and error.args[0] in _AWAY)

    def is_refusal(self, error: Exception) -> bool:
        is_coded = isinstance(error, pymysql.Error) and bool(error.args and error.args[0] in _REFUSED)
        is_row = isinstance(error, pymysql.DataError | pymysql.IntegrityError)
        return is_coded or is_row or super().is_refusal(error)

    def columns_of(self, table: str) -> set[str] | None:
        schema, _, name = table.rpartition(".")
        rows = self.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND"
            " table_schema = COALESCE(%s, database())",
            (name, schema or None),
        )
        return {row[0] for row in rows} or None

    def upsert(self, table: str, group: Group) -> None:
        rest = [self.quoted(column.name) for column in group.columns if column.name not in group.key]
        changed = rest or [self.quoted(group.key[0])]
        changes = ", ".join(f"{name} = VALUES({name})" for name in changed)
        self.execute_many(
            f"{self._insert(table, group)} ON DUPLICATE KEY UPDATE {changes}", group.rows.values()
        )

    def _add_missing(self, table: str) -> str:
        return f"INSERT IGNORE INTO {table} VALUES (%s, %s, %s, %s)"
