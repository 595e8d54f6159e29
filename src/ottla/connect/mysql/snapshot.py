"""Reads a table in chunks of its key's order at a known place of the log, and compares keys as the server does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from time import time_ns
from typing import Any, NamedTuple

import pymysql  # type: ignore[import-untyped,import-not-found,unused-ignore]
from pymysql.cursors import SSCursor  # type: ignore[import-untyped,unused-ignore]

from ottla.connect.errors import ConnectError
from ottla.connect.mysql import catalog
from ottla.connect.mysql.catalog import Connection, Table, TableColumn, quoted, rows
from ottla.connect.mysql.cells import Cell, Row, utf8
from ottla.connect.mysql.progress import Place, Progress
from ottla.connect.mysql.values import BYTES, GEOMETRIES, INTEGERS, TEXTS
from ottla.connect.snapshots import ComparedOrder, KeyTexts, NotVisibleYet
from ottla.connect.spi import Limit

_NO_TABLE = 1146
_COMPARED_MAX = 200  # in one statement
_RAW = BYTES | GEOMETRIES | {"bit"}


class ChunkRows(NamedTuple):
    table: Table
    rows: list[Row]
    is_last: bool
    place: Place
    time_ms: int


def read_chunk(
    connection: Connection, name: str, progress: Progress, limit: Limit, *, locks: bool
) -> ChunkRows | None:
    """The next rows of the table, at least one; None if the table is gone.

    MariaDB says itself at which place of the log a snapshot was taken. With `locks` all writers are stopped for the
    moment in which that place is read: MySQL has no other way.
    """
    database, table_name = catalog.parts(connection, name)
    try:
        place = _begin_locked(connection) if locks else _begin(connection)
        if not progress.can_read(place):
            raise NotVisibleYet
        try:
            rows(
                connection, f"SELECT 1 FROM {quoted(database, table_name)} LIMIT 0"
            )  # it stays as it is from here on
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != _NO_TABLE:
                raise
            return None
        table = catalog.table(connection, database, table_name)
        if table is None:
            return None
        chunk, is_last = _rows(connection, table, progress.upto, limit)
        return ChunkRows(table, chunk, is_last, place, time_ns() // 1_000_000)
    finally:
        with suppress(pymysql.MySQLError):
            rows(connection, "ROLLBACK")


def _begin(connection: Connection) -> Place:
    rows(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    status = dict(rows(connection, "SHOW STATUS LIKE 'binlog_snapshot_%'"))
    values = {name.lower(): value for name, value in status.items()}
    return Place.at(values["binlog_snapshot_file"], int(values["binlog_snapshot_position"]))


def _begin_locked(connection: Connection) -> Place:
    rows(connection, "FLUSH TABLES WITH READ LOCK")
    try:
        rows(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        rows(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return catalog.log_end(connection, is_mariadb=False)
    finally:
        rows(connection, "UNLOCK TABLES")


def _rows(
    connection: Connection, table: Table, after: KeyTexts | None, limit: Limit
) -> tuple[list[Row], bool]:
    """And whether they are the last."""
    key = [column for name in table.key if (column := table.column(name)) is not None]
    where = f"WHERE {_is_behind(key, after)}" if after is not None else ""
    order = ", ".join(quoted(column.name) for column in key)
    shown = ", ".join(map(_selected, table.columns))
    source = quoted(table.database, table.name)
    query = f"SELECT {shown} FROM {source} {where} ORDER BY {order} LIMIT {limit.records + 1}"
    readers = [_reader(column, table) for column in table.columns]
    raw, is_last = _raw_rows(connection, query, limit)
    cells = [
        [None if cell is None else read(cell) for read, cell in zip(readers, row, strict=True)] for row in raw
    ]
    return cells, is_last


def _raw_rows(connection: Connection, query: str, limit: Limit) -> tuple[list[Any], bool]:
    """Cells as bytes: PyMySQL would fail at a text that is not UTF-8, and leave the rest of the answer unread."""
    taken: list[Any] = []
    size, is_last = 0, True
    connection.use_unicode = False
    try:
        with connection.cursor(SSCursor) as cursor:
            cursor.execute(query)
            for row in cursor:
                is_last = len(taken) < limit.records and size < limit.bytes
                if is_last:
                    taken.append(row)
                    size += sum(len(cell) for cell in row if cell is not None)
                elif len(taken) < limit.records:
                    _drop(connection)
                    break
    finally:
        connection.use_unicode = True
    return taken, is_last


def _drop(connection: Connection) -> None:
    """An answer cannot be ended before it was read, and the rest may be of any size. The source connects again."""
    connection._result.unbuffered_active = False
    connection._force_close()


def _reader(column: TableColumn, table: Table) -> Callable[[bytes], Cell]:
    if column.type.name in _RAW:
        return bytes
    if column.type.name in INTEGERS | {"year"}:
        return int
    if column.name not in table.key:
        return utf8

    def read(data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:  # where the next chunk begins would not be known
            raise ConnectError(
                f"the key {column.name} of {table.full_name} has a value that is not UTF-8, {data[:50]!r}; mend it, or"
                " leave the table out with table.exclude.list"
            ) from error

    return read


def _selected(column: TableColumn) -> str:
    """A column as the log has it: a float would be shown with six digits."""
    name = quoted(column.name)
    return f"CAST({name} AS DOUBLE)" if column.type.name == "float" else name


def _is_behind(key: list[TableColumn], after: KeyTexts) -> str:
    """(a, b) > (x, y), in a form that an index serves."""
    terms = []
    for i, column in enumerate(key):
        same = [f"{quoted(key[n].name)} = {literal(key[n], after[n])}" for n in range(i)]
        terms.append(
            "(" + " AND ".join([*same, f"{quoted(column.name)} > {literal(column, after[i])}"]) + ")"
        )
    return f"{quoted(key[0].name)} >= {literal(key[0], after[0])} AND ({' OR '.join(terms)})"


def literal(column: TableColumn, text: str) -> str:
    """A key's text as a constant of the column's type, in its collation."""
    kind = column.type
    if kind.name in INTEGERS or kind.name == "year":
        return str(int(text))
    if kind.name in _RAW:
        return f"X'{bytes.fromhex(text).hex()}'" if text else "''"
    escaped = "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
    if kind.name in TEXTS and column.charset and column.collation:
        return f"CONVERT({escaped} USING {column.charset}) COLLATE {column.collation}"
    match kind.name:
        case "decimal":
            return f"CAST({escaped} AS DECIMAL({kind.precision},{kind.scale}))"
        case "date":
            return f"CAST({escaped} AS DATE)"
        case "time":
            return f"CAST({escaped} AS TIME(6))"
        case "datetime" | "timestamp":
            return f"CAST({escaped} AS DATETIME(6))"
        case "uuid" | "inet6" | "inet4":
            return f"CAST({escaped} AS {kind.name})"
        case _:
            return escaped


class ComparedKeys(ComparedOrder):
    """Asks the server for many keys in one statement."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def prepare(self, table: Table, keys: Iterable[KeyTexts], bounds: Iterable[KeyTexts]) -> None:
        columns = [column for name in table.key if (column := table.column(name)) is not None]
        if all(column.type.name in INTEGERS for column in columns):
            self._integers.add(table.full_name)
            return
        ordered = sorted(keys)
        for bound in bounds:
            for begin in range(0, len(ordered), _COMPARED_MAX):
                asked = ordered[begin : begin + _COMPARED_MAX]
                terms = ", ".join(_is_upto(columns, key, bound) for key in asked)
                (answers,) = rows(self._connection, f"SELECT {terms}")
                for key, answer in zip(asked, answers, strict=True):
                    self._known[table.full_name, key, bound] = bool(int(answer))


def _is_upto(columns: list[TableColumn], key: KeyTexts, bound: KeyTexts) -> str:
    """(a, b) <= (x, y), column by column: each has its own type and collation."""
    term = ""
    for column, text, limit in reversed(list(zip(columns, key, bound, strict=True))):
        left, right = literal(column, text), literal(column, limit)
        term = f"({left} <= {right})" if not term else f"({left} < {right} OR ({left} = {right} AND {term}))"
    return term
