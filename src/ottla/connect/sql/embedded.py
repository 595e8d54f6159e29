"""SQLite and DuckDB: databases in a file, inside this process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar

from ottla.connect.errors import ConfigError
from ottla.connect.sql import columns as kinds
from ottla.connect.sql.dialects import Dialect
from ottla.connect.sql.rows import Group

_BUSY_S = 60.0


class SqliteDialect(Dialect):
    """A write locks the whole file: steps take turns. SQLite has no dates, times and decimals: they are texts."""

    name = "sqlite"
    default_decimal = "NUMERIC"
    types: ClassVar[Mapping[str, str]] = {
        kinds.BOOLEAN: "INTEGER", kinds.SMALL: "INTEGER", kinds.INTEGER: "INTEGER", kinds.LONG: "INTEGER",
        kinds.SINGLE: "REAL", kinds.DOUBLE: "REAL", kinds.TEXT: "TEXT", kinds.BYTES: "BLOB", kinds.DECIMAL: "TEXT",
        kinds.DATE: "TEXT", kinds.TIME: "TEXT", kinds.TIMESTAMP: "TEXT", kinds.ZONED: "TEXT", kinds.JSON: "TEXT",
        kinds.UUID: "TEXT",
    }  # fmt: skip

    def __init__(self, path: str) -> None:
        if not path or path == ":memory:":
            raise ConfigError("connection.url=jdbc:sqlite: needs the path of a file")
        self._connection = sqlite3.connect(
            path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")  # a lock for writing now: positions stay as they are read

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def type_of(self, column: kinds.Column, *, in_key: bool = False) -> str:
        return self.types[column.kind]

    def literal(self, value: Any) -> str:
        return str(int(value)) if isinstance(value, bool) else super().literal(_sqlite_value(value))

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def query(
        self, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        cursor = self._connection.execute(statement, parameters)
        return [column[0] for column in cursor.description], cursor.fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, (tuple(map(_sqlite_value, row)) for row in rows))

    def close(self) -> None:
        self._connection.close()

    def errors(self) -> tuple[type[Exception], ...]:
        return (sqlite3.Error,)

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) and (
            "locked" in str(error) or "busy" in str(error)
        )

    def is_refusal(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.IntegrityError | sqlite3.DataError) or super().is_refusal(error)

    def columns_of(self, table: str) -> set[str] | None:
        rows = self.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {row[0] for row in rows} or None

    def identifier(self, name: str) -> str:
        return self.quoted(name)


def _sqlite_value(value: Any) -> Any:
    match value:
        case datetime():
            return value.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
    return value


class DuckDialect(Dialect):
    """One process at a time may write to the file."""

    name = "duckdb"
    has_savepoints = False
    types: ClassVar[Mapping[str, str]] = {
        kinds.BOOLEAN: "BOOLEAN", kinds.SMALL: "SMALLINT", kinds.INTEGER: "INTEGER", kinds.LONG: "BIGINT",
        kinds.SINGLE: "FLOAT", kinds.DOUBLE: "DOUBLE", kinds.TEXT: "VARCHAR", kinds.BYTES: "BLOB",
        kinds.DECIMAL: "DECIMAL", kinds.DATE: "DATE", kinds.TIME: "TIME", kinds.TIMESTAMP: "TIMESTAMP",
        kinds.ZONED: "TIMESTAMPTZ", kinds.JSON: "VARCHAR", kinds.UUID: "UUID",
    }  # fmt: skip

    def __init__(self, path: str) -> None:
        import duckdb

        if not path or path == ":memory:":
            raise ConfigError("connection.url=jdbc:duckdb: needs the path of a file")
        self._duckdb = duckdb
        self._connection = duckdb.connect(path)

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters or None).fetchall()

    def query(
        self, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        cursor = self._connection.execute(statement, parameters)
        return [column[0] for column in cursor.description], cursor.fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        listed = list(rows)
        if listed:
            self._connection.executemany(statement, listed)

    def close(self) -> None:
        self._connection.close()

    def errors(self) -> tuple[type[Exception], ...]:
        return (self._duckdb.Error,)

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, self._duckdb.IOException | self._duckdb.TransactionException)

    def columns_of(self, table: str) -> set[str] | None:
        schema, _, name = table.rpartition(".")
        rows = self.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND table_schema = ?",
            (name, schema or "main"),
        )
        return {row[0] for row in rows} or None

    def upsert(self, table: str, group: Group) -> None:
        self._from_rows(table, group, self._on_conflict(group))

    def insert(self, table: str, group: Group) -> None:
        self._from_rows(table, group, "")

    def _from_rows(self, table: str, group: Group, suffix: str) -> None:
        """As one Arrow table: a statement for each row would be a hundred times slower."""
        import pyarrow as pa  # type: ignore[import-untyped,import-not-found,unused-ignore]

        if not group.rows:
            return
        arrays = [pa.array(list(values)) for values in zip(*group.rows.values(), strict=True)]
        rows = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
        names = ", ".join(self.quoted(column.name) for column in group.columns)
        typed = ", ".join(f"c{i}::{self.type_of(column)}" for i, column in enumerate(group.columns))
        self._connection.register("ottla_rows", rows)
        try:
            self.execute(
                f"INSERT INTO {self.identifier(table)} ({names}) SELECT {typed} FROM ottla_rows {suffix}"
            )
        finally:
            self._connection.unregister("ottla_rows")
