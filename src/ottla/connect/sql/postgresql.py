"""PostgreSQL: rows go with COPY into a temporary table and from there into the table, in one statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg.conninfo import make_conninfo

from ottla.connect.sql import columns as kinds
from ottla.connect.sql.dialects import Dialect
from ottla.connect.sql.rows import Group

_COPY_ROWS = 200  # fewer are sent one by one: a temporary table costs some milliseconds


class PostgresDialect(Dialect):
    name = "postgresql"
    mark = "%s"
    lock = "FOR UPDATE"
    default_decimal = "NUMERIC"
    text_key = "TEXT"
    bytes_key = "BYTEA"
    types: ClassVar[Mapping[str, str]] = {
        kinds.BOOLEAN: "BOOLEAN", kinds.SMALL: "SMALLINT", kinds.INTEGER: "INTEGER", kinds.LONG: "BIGINT",
        kinds.SINGLE: "REAL", kinds.DOUBLE: "DOUBLE PRECISION", kinds.TEXT: "TEXT", kinds.BYTES: "BYTEA",
        kinds.DECIMAL: "NUMERIC", kinds.DATE: "DATE", kinds.TIME: "TIME", kinds.TIMESTAMP: "TIMESTAMP",
        kinds.ZONED: "TIMESTAMPTZ", kinds.JSON: "JSONB", kinds.UUID: "UUID",
    }  # fmt: skip

    def __init__(self, rest: str, user: str | None, password: str | None) -> None:
        parts = urlsplit(rest)
        options: dict[str, Any] = dict(parse_qsl(parts.query))
        options |= {
            "host": parts.hostname or "localhost",
            "port": parts.port or 5432,
            "dbname": parts.path.lstrip("/"),
        }
        options |= {name: value for name, value in (("user", user), ("password", password)) if value}
        self._connection = psycopg.connect(
            make_conninfo(**options, connect_timeout=10, application_name="ottla connect"), autocommit=True
        )
        self._connection.execute("SET timezone = 'UTC'")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def query(
        self, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        cursor = self._connection.execute(statement.encode(), parameters or None)
        return [column.name for column in cursor.description or ()], cursor.fetchall()

    def execute_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.encode(), rows)

    def close(self) -> None:
        self._connection.close()

    def errors(self) -> tuple[type[Exception], ...]:
        return (psycopg.Error,)

    def is_away(self, error: Exception) -> bool:
        return isinstance(
            error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.errors.DuplicateTable
        )

    def is_refusal(self, error: Exception) -> bool:
        """A key that is too long for its index is a limit of the program."""
        kinds = psycopg.DataError | psycopg.IntegrityError | psycopg.errors.ProgramLimitExceeded
        return isinstance(error, kinds) or super().is_refusal(error)

    def bytes_literal(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'"

    def columns_of(self, table: str) -> set[str] | None:
        rows = self.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self.identifier(table),),
        )
        return {row[0] for row in rows} or None

    def upsert(self, table: str, group: Group) -> None:
        if len(group.rows) < _COPY_ROWS:
            super().upsert(table, group)
            return
        source = self._copied(table, group)
        names = ", ".join(self.quoted(column.name) for column in group.columns)
        self.execute(
            f"INSERT INTO {self.identifier(table)} ({names}) SELECT {names} FROM {source} {self._on_conflict(group)}"
        )
        self.execute(f"DROP TABLE {source}")

    def delete(self, table: str, group: Group) -> None:
        if len(group.deleted) < _COPY_ROWS:
            super().delete(table, group)
            return
        keys = tuple(column for column in group.columns if column.name in group.key)
        source = self._copied(table, Group(keys, group.key, {key: key for key in group.deleted}))
        matches = " AND ".join(f"t.{self.quoted(name)} = s.{self.quoted(name)}" for name in group.key)
        self.execute(f"DELETE FROM {self.identifier(table)} t USING {source} s WHERE {matches}")
        self.execute(f"DROP TABLE {source}")

    def insert(self, table: str, group: Group) -> None:
        if len(group.rows) < _COPY_ROWS:
            super().insert(table, group)
        else:
            self._copy(self.identifier(table), group)

    def _copied(self, table: str, group: Group) -> str:
        """A temporary table with these rows, of the table's own types."""
        names = ", ".join(self.quoted(column.name) for column in group.columns)
        source = "pg_temp.ottla_rows"
        self.execute(
            f"CREATE TEMP TABLE ottla_rows ON COMMIT DROP AS SELECT {names} FROM {self.identifier(table)} LIMIT 0"
        )
        self._copy(source, group)
        return source

    def _copy(self, target: str, group: Group) -> None:
        names = ", ".join(self.quoted(column.name) for column in group.columns)
        statement = f"COPY {target} ({names}) FROM STDIN".encode()
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in group.rows.values():
                copy.write_row(row)
